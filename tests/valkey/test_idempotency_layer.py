"""The layer alone, where it differs from what the worker owes, over a real Valkey."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import (
    CustomDictSerializer,
)
from aws_lambda_powertools.warnings import PowertoolsUserWarning

from sekali import IdempotencyLayer
from sekali.telemetry import events
from tests.contracts.idempotency import Held, fail, leave, never
from tests.contracts.idempotency_benches import Answer, LayerBench, end_leases, once
from tests.worker_kit import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
    from redis import Redis

    Handler = Callable[[dict[str, Any], Context], Any]  # Any: events and answers of a handler


@pytest.fixture
def bench(valkey: Redis, valkey_url: str) -> LayerBench:
    return LayerBench(valkey, valkey_url)


@pytest.fixture
def layer(bench: LayerBench) -> IdempotencyLayer:
    """Return a layer that is bound to nothing yet."""
    return IdempotencyLayer("free", container=lambda: bench.container)


def handling(layer: IdempotencyLayer) -> Callable[[Handler], Handler]:
    """Decorate as `@idempotent` does, for a context that has as much as is read of one."""
    decorator: Callable[[Handler], Handler] = cast("Any", idempotent(persistence_store=layer))
    return decorator


def lease_life_seconds(valkey: Redis) -> float:
    (lease,) = valkey.scan_iter(match="*:lease:*")
    return float(valkey.pttl(lease)) / 1000


# The two decorators.


def test_handler_without_a_configuration_is_idempotent(layer: IdempotencyLayer) -> None:
    """Powertools makes a new configuration at each call: the second one was refused."""
    runs: list[object] = []

    @handling(layer)
    def handler(event: dict[str, Any], context: Context) -> object:
        runs.append((event, context))
        return {"statusCode": 200}

    answers = [handler({"order": 1}, Context()) for _ in range(3)]

    assert answers == [{"statusCode": 200}] * 3
    assert len(runs) == 1


def test_lease_ends_soon_after_the_invocation_does(valkey: Redis, layer: IdempotencyLayer) -> None:
    """A remaining time of 0 is a number, not an unknown."""
    lives: list[float] = []

    @handling(layer)
    def handler(event: dict[str, Any], context: Context) -> str:
        assert event
        assert context.seconds == 0
        lives.append(lease_life_seconds(valkey))
        return "done"

    answer = handler({"order": 1}, Context(seconds=0))

    assert answer == handler({"order": 1}, Context(seconds=0)) == "done"
    assert 0 < lives[0] <= 2


def test_lease_is_short_and_silent_without_a_lambda_context(
    valkey: Redis, bench: LayerBench
) -> None:
    """Powertools warns here, and its record has no end. A warning is an error in these tests."""
    lives: list[float] = []

    bench.deliver("a", lambda: lives.append(lease_life_seconds(valkey)))

    assert 0 < lives[0] <= 12


def test_switched_off_by_powertools_variable_nothing_is_stored(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, bench: LayerBench
) -> None:
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "true")

    runs = [2, 1]

    with pytest.warns(PowertoolsUserWarning, match="Disabling idempotency"):
        answers = [bench.deliver("a", runs.pop) for _ in range(2)]

    assert answers == [Answer("result", 1), Answer("result", 2)]
    assert valkey.dbsize() == 0


# What a replay gives.


@dataclass
class Report:
    flights: int


def test_output_serializer_serves_replays_too(layer: IdempotencyLayer) -> None:
    """The stored dictionary came back in place of the object."""
    serializer = CustomDictSerializer(to_dict=asdict, from_dict=lambda data: Report(**data))

    @once(layer, output_serializer=serializer)
    def report(*, order: int) -> Report:
        return Report(order)

    answers = [report(order=3), report(order=3)]

    assert answers == [Report(3), Report(3)]


@pytest.mark.parametrize("result", [0, {"n": 1}], ids=repr)
def test_response_hook_gets_what_was_stored(layer: IdempotencyLayer, result: object) -> None:
    seen: list[tuple[object, str]] = []

    def hook(response: object, idempotent_data: DataRecord) -> object:
        seen.append((response, idempotent_data.status))
        return "from the hook"

    @once(layer, config=IdempotencyConfig(response_hook=hook))
    def count(*, order: int) -> object:
        assert order
        return result

    answers = [count(order=3) for _ in range(3)]

    assert answers == [result, "from the hook", "from the hook"]
    assert seen == [(result, "COMPLETED")] * 2


def test_replay_is_a_fresh_object_each_time(valkey: Redis, valkey_url: str) -> None:
    bench = LayerBench(valkey, valkey_url, use_local_cache=True)
    bench.deliver("a", lambda: {"rows": [1]})

    first = bench.deliver("a", never).result
    assert isinstance(first, dict)
    first["rows"].append(2)

    assert bench.deliver("a", never).result == {"rows": [1]}


def test_body_that_changes_its_input_completes_what_was_claimed(
    valkey: Redis, layer: IdempotencyLayer
) -> None:
    """Elsewhere the key was made again from what the body had left, and another one completed."""
    runs: list[int] = []

    @handling(layer)
    def handler(event: dict[str, Any], context: Context) -> int:
        assert context.seconds
        runs.append(event.pop("order"))
        event["order"] = 99
        return runs[-1]

    answers = [handler({"order": number}, Context()) for number in (1, 1, 99)]

    assert answers == [1, 1, 99]
    assert runs == [1, 99]
    assert valkey.keys("*:lease:*") == []


def test_record_lives_as_long_as_the_configuration_says(valkey: Redis, valkey_url: str) -> None:
    bench = LayerBench(valkey, valkey_url, expires_after_seconds=90)
    bench.deliver("a", lambda: "result")

    (record,) = valkey.scan_iter(match="*:job:*")

    assert 60 < valkey.pttl(record) / 1000 <= 90
    valkey.delete(record)
    assert bench.deliver("a", lambda: "anew") == Answer("result", "anew")


def test_result_known_to_this_container_needs_no_round_trip(valkey: Redis, valkey_url: str) -> None:
    bench = LayerBench(valkey, valkey_url, use_local_cache=True, local_cache_max_items=2)
    for number in range(3):
        bench.deliver(f"id-{number}", lambda: "result")
    before = bench.container.shared.flushes

    answers = [bench.deliver(f"id-{number}", never) for number in range(3)]

    assert answers == [Answer("result", "result")] * 3
    # The oldest of the three was forgotten here, and asked for.
    assert bench.container.shared.flushes - before == 1
    assert bench.deliver("id-2", never, payload=2) == Answer("mismatch")


# A body and its lease.


@pytest.mark.slow
def test_lease_is_renewed_while_the_body_runs(valkey: Redis, valkey_url: str) -> None:
    bench = LayerBench(valkey, valkey_url, lease_seconds=2.0)

    with Held(bench, "a", lambda: "result") as held:
        (lease,) = valkey.scan_iter(match="*:lease:*")
        first_end, until = valkey.pexpiretime(lease), time.monotonic() + 20.0
        # A lease that was not renewed is gone at its end, and never comes back.
        while valkey.pexpiretime(lease) == first_end and time.monotonic() < until:
            time.sleep(0.01)
        renewed = valkey.pexpiretime(lease) - first_end
        beside = bench.deliver("a", never)

        assert renewed > 0
        assert beside == Answer("in_progress")
        assert held.finish() == Answer("result", "result")


@pytest.mark.slow
def test_lease_of_a_body_that_exited_ends_by_itself(valkey: Redis, valkey_url: str) -> None:
    """Nobody tells the layer, and its heartbeat went on for 15 minutes."""
    expect_its_lease_to_end(valkey, valkey_url, tries=400)


def expect_its_lease_to_end(valkey: Redis, valkey_url: str, *, tries: int) -> None:
    bench = LayerBench(valkey, valkey_url, lease_seconds=0.3)
    exited = bench.deliver("a", leave)

    waited = threading.Event()
    answer = Answer("in_progress")
    for _ in range(tries):
        answer = bench.deliver("a", lambda: "anew")
        if answer.kind == "result":
            break
        waited.wait(0.05)

    assert exited == Answer("failed", error="SystemExit")
    assert answer == Answer("result", "anew")
    assert len(bench.container.pulse) == 0


def test_heartbeat_ends_with_its_body(bench: LayerBench) -> None:
    bench.deliver("a", lambda: "result")
    bench.deliver("b", fail)
    bench.deliver("c", object)

    assert len(bench.container.pulse) == 0


def test_superseded_holder_cannot_finish_as_its_successor(bench: LayerBench) -> None:
    """t=0 A claims; its lease ends; t=1 B claims; t=2 A returns; t=3 B returns."""
    with Held(bench, "a", lambda: "stale") as first:
        end_leases(bench.valkey)
        with Held(bench, "a", lambda: "newer") as second:
            answers = [first.finish(), second.finish()]

    assert answers == [Answer("failed", error="LeaseLost"), Answer("result", "newer")]
    assert bench.deliver("a", never) == Answer("result", "newer")


def test_takeover_names_the_dead_owner(
    bench: LayerBench, layer: IdempotencyLayer, caplog: pytest.LogCaptureFixture
) -> None:
    @handling(layer)
    def handler(event: dict[str, Any], context: Context) -> str:
        assert event
        if context == died:
            raise SystemExit
        return "done"

    died, second = Context(aws_request_id="died"), Context(aws_request_id="second")
    with pytest.raises(SystemExit):
        handler({"order": 1}, died)
    end_leases(bench.valkey)

    handler({"order": 1}, second)

    (told,) = (one for one in bench.events if isinstance(one, events.LeaseTakenOver))
    assert "/died/" in told.dead_owner
    assert told.dead_owner in caplog.text
