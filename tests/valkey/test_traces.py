"""One trace id holds a job from its sending to its end, with X-Ray and with OpenTelemetry alike.

A job is sent, fails, is deferred by a delayed copy, runs with a loader and is written; a second one
ends as a dead letter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from sekali import PermanentError, Producer
from sekali.telemetry import events
from sekali.telemetry.trace_context import parse
from tests.tracing_kit import INVOCATION, SENDER, Daemon, header, received
from tests.worker_kit import Context, event, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from redis import Redis

    from sekali import Job, Worker
    from tests.worker_kit import Kit


STEPS = ("claim", "ask", "store", "finish", "send")


@dataclass
class Way:
    """What was found of one trace on the way of two jobs."""

    sent: list[dict[str, Any]]  # Any: records and letters as JSON
    copies: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    settled: list[events.RecordSettled]


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(
        monkeypatch,
        valkey_url,
        SEKALI_COOLING_BASE_SECONDS="0.001",
        SEKALI_COOLING_CAP_SECONDS="0.001",
    ) as started:
        yield started


def reporting(kit: Kit) -> Worker:
    """Return a worker whose job fails at first, then loads its month; or fails for good."""
    worker = kit.worker("traces")

    @worker.job("report", key="{payload[month]}")
    def report(job: Job) -> object:
        if job.payload["month"] == "never":
            raise PermanentError("no such month")
        if job.attempt == 1:
            raise OSError("no route")
        return job.cache.get_or_load(
            f"month/{job.payload['month']}", lambda: "rows", ttl_seconds=60
        )

    return worker


def take_the_way(kit: Kit, producer: Producer, *, trace: str | None = None) -> Way:
    """Send two jobs: one fails, is copied and runs; the other becomes a dead letter."""
    worker = reporting(kit)
    producer.send("report", {"month": "2013-01"}, id="wanted", trace=trace)
    producer.send("report", {"month": "never"}, id="refused", trace=trace)
    sent = received(kit.sqs, kit.queue_url)
    worker.handler(event(*sent), Context())
    copies = received(kit.sqs, kit.queue_url)
    worker.handler(event(*copies), Context())
    dead_letters = received(kit.sqs, kit.dead_letter_queue_url)
    settled = [one for one in kit.events if isinstance(one, events.RecordSettled)]
    return Way(sent, copies, dead_letters, settled)


def traces_of(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return every trace id that records carry, wherever they carry it."""
    found: set[str] = set()
    for one in records:
        beside = {name: value["stringValue"] for name, value in one["messageAttributes"].items()}
        body = json.loads(one["body"])
        for text in (
            one["attributes"].get("AWSTraceHeader"),
            beside.get("traceparent"),
            beside.get("sekali.trace"),
            body.get("trace"),
        ):
            context = parse(text)
            if context is not None:
                found.add(context.trace_id)
    return found


def test_one_trace_id_is_found_all_the_way_with_xray(kit: Kit, daemon: Daemon) -> None:
    way = take_the_way(kit, Producer(kit.queue_url, kit.sqs), trace=header(SENDER))

    sender = parse(header(SENDER))
    assert sender is not None
    assert [len(way.sent), len(way.copies), len(way.dead_letters)] == [2, 1, 1]
    for records in (way.sent, way.copies, way.dead_letters):
        assert traces_of(records) == {sender.trace_id}
    assert {one.trace for one in way.settled} == {header(SENDER)}
    marked = [one["name"] for one in daemon.all() if trace_of(one) == SENDER]
    assert set(marked) == {"## report", *STEPS, "run", "load"}
    assert marked.count("## report") == 3
    # X-Ray does not let a consumer into its sender's trace: Lambda links the two.
    assert {one["trace_id"] for one in daemon.all()} == {INVOCATION}


def trace_of(subsegment: Mapping[str, Any]) -> object:
    return subsegment.get("annotations", {}).get("trace")


def test_one_trace_id_is_found_all_the_way_with_opentelemetry(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, otel: InMemorySpanExporter
) -> None:
    monkeypatch.setenv("SEKALI_TRACING", "opentelemetry")
    tracer = trace.get_tracer("tests")

    with tracer.start_as_current_span("request") as request:
        way = take_the_way(kit, Producer(kit.queue_url, kit.sqs))

    sender = f"{request.get_span_context().trace_id:032x}"
    assert [len(way.sent), len(way.copies), len(way.dead_letters)] == [2, 1, 1]
    for records in (way.sent, way.copies, way.dead_letters):
        assert traces_of(records) == {sender}
    contexts = [parse(one.trace) for one in way.settled]
    assert {one.trace_id for one in contexts if one is not None} == {sender}
    names = {one.name for one in otel.get_finished_spans() if id_of(one) == sender}
    assert names == {"request", "send jobs", "process jobs", *STEPS, "run report", "load"}


def id_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}" if span.context else ""
