"""X-Ray's subsegments lie where they belong, whatever runs beside them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from aws_xray_sdk.core import xray_recorder

from sekali import Producer, Worker, warm
from sekali.telemetry import xray
from tests.tracing_kit import INVOCATION, SENDER, Daemon, header, received
from tests.worker_kit import Context, event, job, record, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job
    from tests.worker_kit import Kit

RECORDS = 4


@pytest.fixture
def kit(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str, daemon: Daemon
) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    assert daemon.documents == []
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def run_together(kit: Kit, *, asynchronous: bool) -> None:
    """Run four bodies at once, each of which traces something and loads within it."""
    warm.reset()
    worker = Worker("tests", concurrency=RECORDS, hooks=[kit.events.append])
    together = threading.Barrier(RECORDS)

    def synchronous(job: Job) -> object:
        together.wait(60)
        with xray_recorder.in_subsegment(f"own {job.id}"):
            together.wait(60)
            return job.cache.get_or_load(f"of {job.id}", lambda: job.id, ttl_seconds=60)

    async def coroutine(job: Job) -> object:
        await asyncio.to_thread(together.wait, 60)
        async with xray_recorder.in_subsegment_async(f"own {job.id}"):
            await asyncio.to_thread(together.wait, 60)

            async def load() -> str:
                return job.id

            return await job.cache.get_or_load_async(f"of {job.id}", load, ttl_seconds=60)

    worker.job("report")(coroutine if asynchronous else synchronous)
    worker.handler(event(*(job(str(n), {}) for n in range(RECORDS))), Context())


def ways(daemon: Daemon) -> list[list[str]]:
    """Return from each load its way up: names, with the job's id where it is told."""
    by_id = {one["id"]: one for one in daemon.all()}
    found = []
    for load in daemon.named("load"):
        way, one = [load["annotations"]["key"]], load
        while (above := by_id.get(one["parent_id"])) is not None:
            way.append(above.get("annotations", {}).get("id", above["name"]))
            one = above
        found.append(way)
    return sorted(found)


def expected_ways() -> list[list[str]]:
    return [[f"of {n}", f"own {n}", "run", str(n), "## process jobs"] for n in range(RECORDS)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_job_traces_lies_below_its_own_body(
    kit: Kit, daemon: Daemon, *, asynchronous: bool
) -> None:
    run_together(kit, asynchronous=asynchronous)

    assert ways(daemon) == expected_ways()


def test_context_kept_by_thread_would_mix_coroutines_up(
    kit: Kit, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant: kept as the SDK keeps it, the coroutines of one loop lie below each other."""

    class ByThread(threading.local):
        def kept(self) -> dict[str, Any]:  # Any: the SDK's own entities
            return dict(self.__dict__)

        def keep(self, values: dict[str, Any]) -> None:  # Any: as above
            self.__dict__.clear()
            self.__dict__.update(values)

    monkeypatch.setattr(xray, "_Carried", ByThread)

    run_together(kit, asynchronous=True)

    assert ways(daemon) != expected_ways()


def test_producer_in_a_subsegment_hands_that_on(kit: Kit) -> None:
    worker = kit.worker()
    sent: list[str] = []

    @worker.job("report")
    def report(job: Job) -> None:
        Producer(kit.queue_url, kit.sqs).send("next", {"of": job.id})
        sent.append(xray_recorder.current_subsegment().id)

    worker.handler(event(job("a", {}, name="report")), Context())

    (message,) = received(kit.sqs, kit.queue_url)
    assert message["attributes"]["AWSTraceHeader"] == header(INVOCATION, sent[0])
    assert sent[0] in message["messageAttributes"]["traceparent"]["stringValue"]


def test_invocation_that_is_not_sampled_draws_nothing(
    kit: Kit, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", f"Root={INVOCATION};Parent={'a' * 16};Sampled=0")
    worker = kit.worker()
    worker.job("report")(lambda one: one.cache.get_or_load("k", lambda: 1, ttl_seconds=60))

    worker.handler(event(job("a", {})), Context())

    assert daemon.documents == []


def test_each_invocation_has_its_own_trace(
    kit: Kit, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = kit.worker()
    worker.job("report")(lambda one: one.cache.get_or_load(one.id, lambda: 1, ttl_seconds=60))
    worker.handler(event(job("a", {})), Context())
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header("1-5f84c7a5-" + "9" * 24))

    worker.handler(event(job("b", {})), Context())

    traces = {one["annotations"]["id"]: one["trace_id"] for one in daemon.named("## report")}
    assert traces == {"a": INVOCATION, "b": "1-5f84c7a5-" + "9" * 24}
    assert [one["trace_id"] for one in daemon.named("load")] == list(traces.values())


def test_tree_that_is_too_large_for_a_document_is_sent_in_parts(kit: Kit, daemon: Daemon) -> None:
    """X-Ray drops what is larger than 64 KB, and the record's own subsegment with it."""
    worker = kit.worker()

    @worker.job("report")
    def report(_: Job) -> None:
        for number in range(500):
            with xray_recorder.in_subsegment(f"part {number}"):
                pass

    worker.handler(event(job("a", {})), Context())

    assert max(len(json.dumps(document)) for document in daemon.documents) < 64_000
    (body,) = daemon.named("run")
    parts = [one for one in daemon.all() if one["name"].startswith("part ")]
    assert {one["parent_id"] for one in parts} == {body["id"]}
    assert len(parts) == 500


def test_error_of_a_body_is_told_by_its_class_alone(kit: Kit, daemon: Daemon) -> None:
    worker = kit.worker()

    @worker.job("report")
    def report(_: Job) -> None:
        raise ValueError("the secret of the payload")

    worker.handler(
        event(record({"sekali": 1, "id": "a", "payload": {}}, AWSTraceHeader=header(SENDER))),
        Context(),
    )

    (body,) = daemon.named("run")
    assert body["fault"] is True
    assert body["annotations"] == {"trace": SENDER, "error": "ValueError"}
    assert "secret" not in json.dumps(daemon.documents)
