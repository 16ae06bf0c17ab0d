"""A job is cancelled while its body runs: what the body returns does not count."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from sekali import LeaseLost, warm
from sekali.cli import cancelling, standing
from sekali.cli.faults import Exit, Fault
from sekali.cli.place import FunctionFacts, Place
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def place() -> Place:
    """Describe the worker of the kit, whose functions' environment this process has."""
    own = {name: value for name, value in os.environ.items() if name.startswith("SEKALI_")}
    worker = FunctionFacts(name="worker", timeout_seconds=30, memory_mib=128, variables=own)
    clients: Any = boto3.client  # Any: its overloads name every service
    return Place(name="kit", local=True, clients=clients, worker=worker, mapping=None, recover=None)


def cancel(job_id: str, **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"key": None, "payload": None, "text": "no longer wanted", **options}
    return cancelling.cancel(place(), name="report", job_id=job_id, **chosen)


def test_result_of_a_body_that_was_cancelled_does_not_count(kit: Kit) -> None:
    worker, seen = kit.worker(), []

    @worker.job("report", key="{payload[month]}", ttl_seconds=60)
    def report(running: Job) -> str:
        here = warm.container()
        seen.append(cancel("a")["before"])
        # What the next heartbeat would find.
        with warm.inside(here), pytest.raises(LeaseLost):
            running.lease.ensure(13)
        return "a report"

    answered = worker.handler(event(job("a", {"month": "2013-01"})), Context())

    assert seen == ["running"]
    assert returned(answered) == []
    row = kit.row("report", "a")
    assert row is not None
    assert row["st"]["S"] == "failed"
    [letter] = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "cancelled"
    assert letter["attributes"]["sekali.error"] == "no longer wanted"
    assert json.loads(letter["body"])["id"] == "a"
    assert standing.standing(place(), "report", "a")["status"] == "failed"


def test_job_that_failed_once_and_waits_is_not_started_again(kit: Kit) -> None:
    worker, bodies = kit.worker(), []

    @worker.job("report")
    def report(running: Job) -> None:
        bodies.append(running.id)
        raise ValueError("try again")

    worker.handler(event(job("a", {"month": "2013-01"})), Context())
    before = standing.standing(place(), "report", "a")["status"]
    cancel("a")
    kit.copies()
    answered = worker.handler(event(job("a", {"month": "2013-01"})), Context())

    assert before == "waiting"
    assert bodies == ["a"]
    assert returned(answered) == []
    assert [one["attributes"]["sekali.reason"] for one in kit.dead_letters()] == ["cancelled"]


def test_payload_that_is_not_the_known_one_cancels_nothing(kit: Kit) -> None:
    worker = kit.worker()

    @worker.job("report")
    def report(running: Job) -> None:
        del running
        raise ValueError("try again")

    worker.handler(event(job("a", {"month": "2013-01"})), Context())

    with pytest.raises(Fault, match="another payload") as caught:
        cancel("a", payload={"month": "2013-02"})

    assert (caught.value.status, caught.value.kind) == (Exit.NO, "payload_mismatch")
    assert kit.row("report", "a") is None


def test_without_a_table_the_cache_says_whether_it_was_in_time(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str
) -> None:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url, SEKALI_DURABLE_MODE="redis") as kit:
        worker = kit.worker()

        @worker.job("report")
        def report(running: Job) -> str:
            del running
            return "a report"

        cancelled = cancel("a", payload={"month": "2013-01"})
        worker.handler(event(job("a", {"month": "2013-01"})), Context())
        worker.handler(event(job("b", {"month": "2013-01"})), Context())
        with pytest.raises(Fault, match="has ended already: done"):
            cancel("b")

        assert cancelled["status"] == "failed"
        [letter] = kit.dead_letters()
        assert letter["attributes"]["sekali.reason"] == "cancelled"
        assert standing.standing(place(), "report", "b")["status"] == "done"
