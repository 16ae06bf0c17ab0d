"""Each strong claim of the layer has a mutant without it, which the contract catches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

from sekali import IdempotencyLayer, idempotency, lone_claims
from sekali.answers import Finished
from sekali.claims import Claims
from sekali.heartbeat import Heartbeat
from sekali.invocation import Invocation
from sekali.lone_claims import LoneClaims
from sekali.scripts import Command
from tests.contracts.idempotency import IdempotencyContract as Contract
from tests.contracts.idempotency_benches import LayerBench
from tests.valkey import (
    test_idempotency_binding as binding,
)
from tests.valkey import (
    test_idempotency_layer as alone,
)
from tests.valkey import (
    test_idempotency_without_cache as without_cache,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali.answers import End, FinishAnswer

    Mutation = Callable[[pytest.MonkeyPatch], None]
    Promise = Callable[[Contract, LayerBench], None]


class OneForAll:
    """A variable of every context: what a dictionary of tokens by key would be."""

    def __init__(self) -> None:
        self._value: tuple[Any, ...] = ()  # Any: the open claims

    def get(self) -> tuple[Any, ...]:  # Any: as above
        return self._value

    def set(self, value: tuple[Any, ...]) -> None:  # Any: as above
        self._value = value


def join_by_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lone_claims, "_OPEN", OneForAll())


def finish_unconditionally(patch: pytest.MonkeyPatch) -> None:
    def finish(self: Claims, end: End) -> Command:
        slot = self.keyspace.of(end.ask.name, end.ask.id, end.ask.key)
        fields = ("st", "done", "ph", end.ask.payload_hash, "result", end.result)
        return Command(("HSET", slot.record, *fields))

    patch.setattr(Claims, "finish", finish)
    patch.setattr(Claims, "read_finish", accept_as_own)


def accept_as_own(_: Claims, end: End, __: object) -> FinishAnswer:
    return Finished(end.result, filled=False)


def hand_out_a_result_that_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claims, "read_finish", accept_as_own)


def give_back_unconditionally(patch: pytest.MonkeyPatch) -> None:
    def give_back(self: LoneClaims, record_id: str) -> None:
        container = self._container()
        slot = container.keyspace.of(self._name, record_id, record_id)
        container.shared.flush([Command(("DEL", slot.record, slot.lease, slot.key))])

    patch.setattr(LoneClaims, "give_back", give_back)


def forget_the_payload(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BasePersistenceLayer, "_get_hashed_payload", lambda *_, **__: "")


def lose_falsy_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(idempotency._Replay, "__call__", lambda _, response, __: response)  # noqa: SLF001


def keep_what_cannot_be_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoneClaims, "give_back", lambda *_: None)


def share_one_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lone_claims, "new_token", lambda: "0" * 32)


@pytest.mark.parametrize(
    ("mutate", "promise"),
    [
        (join_by_key, Contract.test_holder_that_fails_late_does_not_free_its_successor),
        (finish_unconditionally, Contract.test_holder_whose_successor_finished_changes_nothing),
        (
            hand_out_a_result_that_does_not_count,
            Contract.test_holder_whose_successor_finished_changes_nothing,
        ),
        (
            give_back_unconditionally,
            Contract.test_holder_that_fails_late_does_not_free_its_successor,
        ),
        (forget_the_payload, Contract.test_other_payload_under_an_id_is_refused_in_every_state),
        (lose_falsy_results, Contract.test_body_runs_once_and_every_delivery_gets_its_result),
        (keep_what_cannot_be_stored, Contract.test_result_that_json_cannot_carry_is_stored_nowhere),
        (share_one_token, Contract.test_while_a_body_runs_other_deliveries_are_told_so),
    ],
    ids=lambda value: value.__name__.removeprefix("test_"),
)
def test_contract_catches_a_layer_that_would(
    monkeypatch: pytest.MonkeyPatch,
    valkey: Redis,
    valkey_url: str,
    mutate: Mutation,
    promise: Promise,
) -> None:
    mutate(monkeypatch)

    with pytest.raises(AssertionError):
        promise(Contract(), LayerBench(valkey, valkey_url))


def test_layer_that_joins_by_key_lets_a_stale_holder_finish_as_the_newer(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    join_by_key(monkeypatch)

    with pytest.raises(AssertionError):
        alone.test_superseded_holder_cannot_finish_as_its_successor(LayerBench(valkey, valkey_url))


def reconfigure(
    layer: IdempotencyLayer,
    *arguments: Any,
    **named: Any,  # Any: those of Powertools
) -> None:
    BasePersistenceLayer.configure(layer, *arguments, **named)


@pytest.mark.parametrize(
    "promise",
    [
        binding.test_layer_refuses_a_second_function,
        binding.test_layer_refuses_a_second_configuration,
    ],
)
def test_layer_that_may_be_bound_again_is_caught(
    monkeypatch: pytest.MonkeyPatch,
    valkey: Redis,
    valkey_url: str,
    promise: Callable[[IdempotencyLayer], None],
) -> None:
    monkeypatch.setattr(IdempotencyLayer, "configure", reconfigure)
    bench = LayerBench(valkey, valkey_url)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        promise(IdempotencyLayer("free", container=lambda: bench.container))


def test_layer_that_tries_to_store_once_is_caught(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    # Negative already: the first failure is the last.
    monkeypatch.setattr(Invocation, "remaining_seconds", lambda _: -1.0)
    line = without_cache.line_to(valkey_url)

    with pytest.raises(AssertionError):
        without_cache.test_result_is_stored_once_the_cache_is_back(
            without_cache.bench_on(valkey, valkey_url, line), line
        )


@pytest.mark.slow
def test_layer_without_a_heartbeat_is_caught(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    monkeypatch.setattr(Heartbeat, "start", lambda _: None)

    with pytest.raises(AssertionError):
        alone.test_lease_is_renewed_while_the_body_runs(valkey, valkey_url)


@pytest.mark.slow
def test_layer_that_does_not_notice_an_exit_is_caught(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    monkeypatch.setattr(idempotency, "_caller_is_running", lambda: None)
    beating: list[Heartbeat] = []
    start = Heartbeat.start

    def start_and_note(self: Heartbeat) -> None:
        beating.append(self)
        start(self)

    monkeypatch.setattr(Heartbeat, "start", start_and_note)

    # Six leases, in which it beats eighteen times; it would for 15 minutes.
    with pytest.raises(AssertionError):
        alone.expect_its_lease_to_end(valkey, valkey_url, tries=40)

    for heartbeat in beating:
        heartbeat.stop()
