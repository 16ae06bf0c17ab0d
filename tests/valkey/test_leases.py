"""Hold leases, lose them and be told, against a real Valkey."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError

from sekali import LeaseBusy, LeaseLost, SettingInvalid, lease, load_lease, warm
from tests.worker_kit import Context, Kit, event, job, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job

LEASE_SECONDS = 12.0


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def steal(valkey: Redis) -> None:
    """End every lease on the server, as its TTL would."""
    for key in valkey.scan_iter(match="*lease:*"):
        valkey.delete(key)


@pytest.mark.usefixtures("kit")
def test_lock_excludes_others_until_it_is_released() -> None:
    with lease("ledger") as held:
        assert held.check()
        with pytest.raises(LeaseBusy, match="'ledger' is held by"), lease("ledger"):
            pass

    with lease("ledger") as again:
        assert again.fence > held.fence


@pytest.mark.usefixtures("kit")
def test_waiter_gets_the_lock_once_it_is_free() -> None:
    entered = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with lease("ledger"):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(30)
    threading.Timer(0.05, leave.set).start()

    with lease("ledger", wait_seconds=30) as held:
        assert held.check()
    thread.join()


def test_lock_cache_and_job_under_one_text_do_not_meet(kit: Kit) -> None:
    worker = kit.worker()

    @worker.job("text", key="same")
    def text(job: Job) -> str:
        with lease("same"):
            return job.cache.get_or_load("same", lambda: "loaded", ttl_seconds=5)

    worker.handler(event(job("a", {"n": 1}, name="text")), Context())

    row = kit.row("text", "a")
    assert row is not None
    assert row["result"]["B"] == b'"loaded"'


@pytest.mark.usefixtures("kit")
def test_ensure_renews_a_lease_that_is_too_short() -> None:
    with lease("ledger", lease_seconds=2) as held:
        before = held.remaining()

        held.ensure(30)

        assert before <= 2
        assert held.remaining() > 29


def test_ensure_refuses_what_the_function_cannot_live_for(kit: Kit) -> None:
    worker = kit.worker()
    refused: list[type[Exception]] = []

    @worker.job("long")
    def long(job: Job) -> None:
        try:
            job.lease.ensure(100)
        except LeaseLost as error:
            refused.append(type(error))

    worker.handler(event(job("a", {"n": 1}, name="long")), Context(seconds=30))

    assert [LeaseLost] == refused


def test_loader_holds_the_lease_of_its_load(kit: Kit) -> None:
    worker = kit.worker()
    seen: list[object] = [load_lease()]

    @worker.job("look")
    def look(job: Job) -> str:
        def loader() -> str:
            held = load_lease()
            assert held is not None
            held.ensure(20)
            seen.append((held.key, held.check(), held.fence != job.lease.fence))
            return "loaded"

        value = job.cache.get_or_load("key", loader, ttl_seconds=5)
        seen.append(load_lease())
        return value

    worker.handler(event(job("a", {"n": 1})), Context())

    assert seen == [None, ("key", True, True), None]


@pytest.mark.usefixtures("kit")
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_ensure_needs_a_positive_time(seconds: float) -> None:
    with lease("ledger") as held, pytest.raises(SettingInvalid, match="seconds must be above 0"):
        held.ensure(seconds)


@pytest.mark.usefixtures("kit")
def test_holder_is_told_when_another_took_its_lease_over(valkey: Redis) -> None:
    told: list[str] = []
    with lease("ledger") as first:
        first.on_lost(lambda: told.append("lost"))
        steal(valkey)
        with lease("ledger") as second:
            with pytest.raises(LeaseLost):
                first.ensure(LEASE_SECONDS + 1)

            assert not first.check()
            assert first.remaining() == 0.0
            assert told == ["lost"]
            assert second.check()


@pytest.mark.usefixtures("kit")
def test_late_release_leaves_the_next_holder_alone(valkey: Redis) -> None:
    with lease("ledger"):
        steal(valkey)
        holder = lease("ledger")
        second = holder.__enter__()

    try:
        second.ensure(LEASE_SECONDS + 1)
        with pytest.raises(LeaseBusy), lease("ledger"):
            pass
    finally:
        holder.__exit__(None, None, None)


@pytest.mark.parametrize("typed", [False, True])
def test_condition_lets_a_table_refuse_the_stale_holder(
    kit: Kit, valkey: Redis, *, typed: bool
) -> None:
    def write(held: Any, value: str) -> None:
        if typed:
            stamp = {"sekali_fence": {"N": str(held.fence)}, "sekali_token": {"S": held.token}}
            row: Any = {"pk": {"S": "row"}, "value": {"S": value}, **stamp}
            kit.dynamodb.put_item(TableName="results", Item=row, **held.condition(typed=True))
        else:
            table = boto3.resource("dynamodb").Table("results")
            table.put_item(Item={"pk": "row", "value": value} | held.stamp(), **held.condition())

    with lease("ledger") as stale:
        write(stale, "first")
        steal(valkey)
        with lease("ledger") as newer:
            write(newer, "second")
            write(newer, "third")

            with pytest.raises(ClientError, match="ConditionalCheckFailed"):
                write(stale, "late")

    item = kit.dynamodb.get_item(TableName="results", Key={"pk": {"S": "row"}})["Item"]
    assert item["value"] == {"S": "third"}


def test_without_a_heartbeat_the_lease_lasts_as_long_as_the_function(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_HEARTBEAT", "false")
    worker = kit.worker()
    seen: list[tuple[float, int]] = []
    # A pulse that an earlier test left sleeps on for seconds; it is not this worker's.
    before = set(threading.enumerate())

    @worker.job("look")
    def look(job: Job) -> None:
        threads = [one.name for one in set(threading.enumerate()) - before]
        seen.append((job.lease.remaining(), threads.count("sekali-heartbeat")))

    worker.handler(event(job("a", {"n": 1}, name="look")), Context(seconds=40))

    ((remaining, heartbeats),) = seen
    assert 20 < remaining <= 42
    assert heartbeats == 0
