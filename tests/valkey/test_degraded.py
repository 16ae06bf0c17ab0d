"""Work without the shared cache, by each job's policy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sekali import SettingInvalid, warm
from sekali.breaker import Breaker
from sekali.telemetry import events
from sekali.testing import FrozenClock
from tests.conftest import free_port
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job, Worker


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    """Start a worker's surroundings with nobody behind the cache's address."""
    nowhere = f"redis://127.0.0.1:{free_port()}"
    with started_kit(monkeypatch, nowhere) as started:
        yield started


def policies(kit: Kit, runs: list[str]) -> Worker:
    worker = kit.worker()

    @worker.job("durable", degraded="durable", key="{payload[n]}", ttl_seconds=60)
    def durable(job: Job) -> int:
        runs.append(job.id)
        if job.payload["n"] < 0:
            raise OSError("no route")
        return int(job.payload["n"]) + job.lease.fence * 0

    @worker.job("defer", degraded="defer")
    def defer(job: Job) -> None:
        runs.append(job.id)

    @worker.job("fail", degraded="fail")
    def fail(job: Job) -> None:
        runs.append(job.id)

    return worker


def status(kit: Kit, name: str, job_id: str) -> str:
    row = kit.row(name, job_id)
    assert row is not None
    return str(row["st"]["S"])


def test_durable_job_runs_and_is_recorded_without_the_cache(kit: Kit) -> None:
    runs: list[str] = []
    worker = policies(kit, runs)

    response = worker.handler(event(job("a", {"n": 7}, name="durable")), Context())

    assert returned(response) == []
    assert runs == ["a"]
    assert status(kit, "durable", "a") == "done"
    assert sum(isinstance(one, events.Degraded) for one in kit.events) == 1


def test_duplicate_of_a_durable_job_is_answered_from_the_table(kit: Kit) -> None:
    runs: list[str] = []
    policies(kit, runs).handler(event(job("a", {"n": 7}, name="durable")), Context())

    response = policies(kit, runs).handler(event(job("a", {"n": 7}, name="durable")), Context())

    assert returned(response) == []
    assert runs == ["a"]
    assert kit.dead_letters() == []


def test_other_payload_of_a_durable_job_is_dead_lettered(kit: Kit) -> None:
    runs: list[str] = []
    worker = policies(kit, runs)
    worker.handler(event(job("a", {"n": 7}, name="durable")), Context())
    warm.reset()

    worker.handler(event(job("a", {"n": 8}, name="durable")), Context())

    assert runs == ["a"]
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "payload_mismatch"


def test_failed_attempt_of_a_durable_job_is_pending_and_deferred(kit: Kit) -> None:
    runs: list[str] = []
    worker = policies(kit, runs)

    response = worker.handler(event(job("a", {"n": -1}, name="durable")), Context())

    assert returned(response) == []
    assert status(kit, "durable", "a") == "pending"
    assert len(kit.copies()) == 1


def test_deferred_job_is_pending_and_its_message_goes_on_as_a_copy(kit: Kit) -> None:
    runs: list[str] = []
    worker = policies(kit, runs)

    response = worker.handler(event(job("a", {"n": 1}, name="defer")), Context())

    assert returned(response) == []
    assert runs == []
    assert status(kit, "defer", "a") == "pending"
    assert len(kit.copies()) == 1


def test_failing_job_returns_to_its_queue(kit: Kit) -> None:
    runs: list[str] = []
    worker = policies(kit, runs)
    record = job("a", {"n": 1}, name="fail")

    response = worker.handler(event(record), Context())

    assert [record["messageId"]] == returned(response)
    assert runs == []
    assert kit.row("fail", "a") is None


def test_recovered_cache_runs_what_was_pending(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    runs: list[str] = []
    policies(kit, runs).handler(event(job("a", {"n": 1}, name="defer")), Context())
    (copy,) = kit.copies()
    assert valkey.dbsize() == 0
    monkeypatch.setenv("SEKALI_CACHE_URL", valkey_url)
    record = job("ignored", {})
    record["body"] = copy["body"]

    response = policies(kit, runs).handler(event(record), Context())

    assert returned(response) == []
    assert runs == ["a"]
    assert status(kit, "defer", "a") == "done"


def test_batch_without_the_cache_ends_long_before_its_deadline(kit: Kit) -> None:
    worker = policies(kit, [])
    records = [job(f"a-{n}", {"n": n}, name="durable") for n in range(20)]
    context = Context(seconds=30)
    before = time.monotonic()

    worker.handler(event(*records), context)

    assert time.monotonic() - before < context.seconds / 2


def test_durable_policy_without_a_table_is_refused(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "redis")
    monkeypatch.setenv("SEKALI_DEGRADED", "durable")

    with pytest.raises(SettingInvalid, match="SEKALI_DEGRADED must not be durable"):
        policies(kit, []).handler(event(job("a", {"n": 1}, name="fail")), Context())


def test_breaker_lets_the_second_batch_wait_for_nothing(kit: Kit) -> None:
    worker = policies(kit, [])
    shared = warm.container().shared
    shared.breaker = Breaker(FrozenClock())
    worker.handler(event(job("a", {"n": 1}, name="defer")), Context())
    before = shared.flushes

    worker.handler(event(job("b", {"n": 2}, name="defer")), Context())

    assert shared.flushes - before == 0
    failures = [one for one in kit.events if isinstance(one, events.SharedFailed)]
    assert failures
