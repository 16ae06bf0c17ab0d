"""What Powertools' own idempotency stores get wrong, beside ours.

Each test shows the fault in Powertools' own piece first: when a release mends it, the test fails
and the row can go from the list of facts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from moto import mock_aws

from sekali import IdempotencyLayer, SettingInvalid
from tests.contracts.idempotency import Held, fail, leave, never
from tests.contracts.idempotency_benches import Answer, LayerBench, end_leases, once
from tests.contracts.powertools_benches import CacheStore, PowertoolsBench, Store, TableStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis


@pytest.fixture(params=["cache", "table"])
def store(request: pytest.FixtureRequest, valkey: Redis, valkey_url: str) -> Iterator[Store]:
    assert valkey.dbsize() == 0
    if request.param == "cache":
        yield CacheStore(valkey_url)
        return
    with mock_aws():
        yield TableStore(boto3.client("dynamodb"))


@pytest.fixture
def cache(valkey: Redis, valkey_url: str) -> CacheStore:
    assert valkey.dbsize() == 0
    return CacheStore(valkey_url)


@pytest.fixture
def ours(valkey: Redis, valkey_url: str) -> LayerBench:
    return LayerBench(valkey, valkey_url)


@pytest.fixture
def layer(ours: LayerBench) -> IdempotencyLayer:
    """Return a layer that is bound to nothing yet."""
    return IdempotencyLayer("free", container=lambda: ours.container)


# A holder that outlived its claim.


def test_stale_holder_overwrites_the_result_of_its_successor(
    store: Store, ours: LayerBench
) -> None:
    theirs = PowertoolsBench(store)
    with Held(theirs, "a", lambda: "stale") as held:
        store.end_claims()
        winner = theirs.deliver("a", lambda: "newer")
        late = held.finish()
    assert winner == Answer("result", "newer")
    assert late == theirs.deliver("a", never) == Answer("result", "stale")

    with Held(ours, "a", lambda: "stale") as held:
        end_leases(ours.valkey)
        winner = ours.deliver("a", lambda: "newer")
        late = held.finish()

    assert late == Answer("failed", error="LeaseLost")
    assert winner == ours.deliver("a", never) == Answer("result", "newer")


def test_failure_of_a_stale_holder_deletes_the_live_record(store: Store, ours: LayerBench) -> None:
    theirs = PowertoolsBench(store)
    with Held(theirs, "a", fail) as held:
        store.end_claims()
        with Held(theirs, "a", lambda: "newer"):
            held.finish()
            third = theirs.deliver("a", lambda: "twice at once")
    assert third == Answer("result", "twice at once")

    with Held(ours, "a", fail) as held:
        end_leases(ours.valkey)
        with Held(ours, "a", lambda: "newer"):
            held.finish()
            third = ours.deliver("a", never)

    assert third == Answer("in_progress")


def test_identical_request_is_rejected_after_completion(
    cache: CacheStore, ours: LayerBench
) -> None:
    theirs = PowertoolsBench(cache, payload_validation_jmespath="payload")
    theirs.deliver("a", lambda: "result")
    assert theirs.deliver("a", never) == Answer("mismatch")

    ours.deliver("a", lambda: "result")

    assert ours.deliver("a", never) == Answer("result", "result")


# A holder that nobody hears of again.


def test_record_without_a_lambda_context_has_no_end(store: Store, ours: LayerBench) -> None:
    theirs = PowertoolsBench(store, context=False)
    with pytest.warns(UserWarning, match="Couldn't determine the remaining time left"):
        theirs.deliver("a", leave)
    assert ["in_progress_expiration" in record for record in store.records()] == [False]

    ours.deliver("a", leave)  # A warning would be an error.

    (lease,) = ours.valkey.scan_iter(match="*:lease:*")
    assert 0 < ours.valkey.pttl(lease) <= 12_000


def test_body_that_exits_keeps_its_record_for_the_whole_invocation(
    store: Store, valkey: Redis, valkey_url: str
) -> None:
    theirs = PowertoolsBench(store)
    left = theirs.deliver("a", leave)
    (record,) = store.records()
    assert left == Answer("failed", error="SystemExit")
    assert (record["status"], theirs.deliver("a", never)) == ("INPROGRESS", Answer("in_progress"))

    ours = LayerBench(valkey, valkey_url, lease_seconds=0.05)
    ours.deliver("b", leave)
    for _ in range(400):
        answer = ours.deliver("b", lambda: "anew")
        if answer.kind == "result":
            break
        time.sleep(0.05)

    assert ours.deliver("b", never) == Answer("result", "anew")


def test_result_that_cannot_be_stored_blocks_its_request(store: Store, ours: LayerBench) -> None:
    theirs = PowertoolsBench(store)
    failed = theirs.deliver("a", lambda: {1, 2})
    assert (failed.error, theirs.deliver("a", never)) == ("TypeError", Answer("in_progress"))

    failed = ours.deliver("a", lambda: {1, 2})

    assert failed == Answer("failed", error="ResultUnencodable")
    assert ours.deliver("a", lambda: "anew") == Answer("result", "anew")


@pytest.mark.filterwarnings("ignore:coroutine 'test_.*' was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_coroutine_function_blocks_its_request(store: Store, ours: LayerBench) -> None:
    async def body() -> str:
        return "never awaited"

    theirs = PowertoolsBench(store)
    failed = theirs.deliver("a", body)
    assert (failed.error, theirs.deliver("a", never)) == ("TypeError", Answer("in_progress"))

    failed = ours.deliver("a", body)

    # Powertools' decorator is not made for it; the request is free again, and the error says why.
    assert failed == Answer("failed", error="ResultUnencodable")
    assert ours.deliver("a", lambda: "anew") == Answer("result", "anew")


# What a replay gives.


def test_not_a_number_is_stored_and_replayed(store: Store, ours: LayerBench) -> None:
    theirs = PowertoolsBench(store)
    theirs.deliver("a", lambda: {"mean": float("nan")})
    assert str(theirs.deliver("a", never).result) == "{'mean': nan}"

    answer = ours.deliver("a", lambda: {"mean": float("nan")})

    assert answer == Answer("failed", error="ResultUnencodable")


@pytest.mark.parametrize("result", [0, False, "", [], {}], ids=repr)
def test_falsy_result_is_replayed_as_none(
    cache: CacheStore, ours: LayerBench, result: object
) -> None:
    theirs = PowertoolsBench(cache)
    first = theirs.deliver("a", lambda: result)
    assert [first.result, theirs.deliver("a", never).result] == [result, None]

    ours.deliver("a", lambda: result)

    assert ours.deliver("a", never) == Answer("result", result)


# One store for two.


def test_store_of_two_configurations_answers_with_another_requests_result(
    store: Store, layer: IdempotencyLayer
) -> None:
    def charge(*, order: dict[str, Any]) -> str:
        return f"charged order {order['id']}"

    def by(path: str, persistence_store: Any) -> Any:  # Any: Powertools' decorator has no types
        config = IdempotencyConfig(event_key_jmespath=path)
        # Any: as little of a context as is read.
        context: Any = type("Context", (), {"get_remaining_time_in_millis": lambda _: 30_000})()
        config.register_lambda_context(context)
        return idempotent_function(
            charge,
            data_keyword_argument="order",
            config=config,
            persistence_store=persistence_store,
        )

    by("customer", store.layer)(order={"id": 1, "customer": 7})
    another = by("id", store.layer)(order={"id": 2, "customer": 7})
    assert another == "charged order 1"

    by("customer", layer)(order={"id": 1, "customer": 7})

    with pytest.raises(SettingInvalid, match="make a layer for each"):
        by("id", layer)(order={"id": 2, "customer": 7})


def test_store_of_two_functions_completes_under_the_name_of_the_other(
    store: Store, layer: IdempotencyLayer
) -> None:
    """The other function is called in the middle of the first, as another thread would."""
    theirs = PowertoolsBench(store)
    other = PowertoolsBench(store)
    other.call = idempotent_function(
        other_function,
        data_keyword_argument="request",
        config=IdempotencyConfig(event_key_jmespath="id", lambda_context=None),
        persistence_store=store.layer,
    )
    with pytest.warns(UserWarning, match="remaining time"):
        theirs.deliver("a", lambda: other.deliver("b", lambda: "other").result)
    assert theirs.deliver("a", never) == Answer("in_progress")

    @once(layer)
    def second(*, order: int) -> int:
        return order

    @once(layer)
    def first(*, order: int) -> int:
        return second(order=order)

    with pytest.raises(SettingInvalid, match="make a layer for each"):
        first(order=1)


def other_function(*, request: dict[str, object], body: Any) -> Any:  # Any: as `FunctionBench.run`
    assert request
    return body()
