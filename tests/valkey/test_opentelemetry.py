"""Spans follow OpenTelemetry's conventions for messaging, and the context follows the work."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from sekali import PermanentError, Producer, Worker, warm
from sekali.sending import Request
from tests.tracing_kit import SENDER, header, received
from tests.worker_kit import Context, event, job, record, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from redis import Redis

    from sekali import Job
    from tests.worker_kit import Kit

W3C = "00-67891233abcdef012345678912345678-53995c3f42cd8ad8-01"


@pytest.fixture
def kit(
    monkeypatch: pytest.MonkeyPatch,
    valkey: Redis,
    valkey_url: str,
    otel: InMemorySpanExporter,
) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    assert otel.get_finished_spans() == ()
    with started_kit(monkeypatch, valkey_url, SEKALI_TRACING="opentelemetry") as started:
        yield started


def named(otel: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in otel.get_finished_spans() if span.name == name]


def batch_and_records(otel: InMemorySpanExporter) -> tuple[ReadableSpan, list[ReadableSpan]]:
    spans = named(otel, "process jobs")
    (batch,) = [span for span in spans if "messaging.batch.message_count" in attributes(span)]
    return batch, [span for span in spans if span is not batch]


def attributes(span: ReadableSpan) -> dict[str, Any]:  # Any: attribute values
    return dict(span.attributes or {})


def span_id(span: ReadableSpan) -> int:
    return span.context.span_id if span.context else 0


def trace_id(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}" if span.context else ""


def parents(spans: Sequence[ReadableSpan]) -> list[int | None]:
    return [span.parent.span_id if span.parent else None for span in spans]


def test_batch_links_to_each_message_and_each_message_continues_its_sender(
    kit: Kit, otel: InMemorySpanExporter
) -> None:
    worker = kit.worker()
    worker.job("report")(lambda _: "done")
    traced = record({"sekali": 1, "id": "a", "payload": {}}, AWSTraceHeader=header(SENDER))
    untraced = job("b", {})

    worker.handler(event(traced, untraced), Context())

    batch, records = batch_and_records(otel)
    by_id = {attributes(span)["sekali.job.id"]: span for span in records}
    assert batch.kind == SpanKind.CONSUMER
    assert attributes(batch)["messaging.batch.message_count"] == 2
    assert attributes(batch)["faas.trigger"] == "pubsub"
    assert [f"{link.context.span_id:016x}" for link in batch.links] == ["53995c3f42cd8ad8"]
    sent = by_id["a"]
    assert sent.kind == SpanKind.CONSUMER
    assert sent.parent is not None
    assert sent.parent.is_remote
    assert f"{sent.parent.span_id:016x}" == "53995c3f42cd8ad8"
    assert [link.context.span_id for link in sent.links] == [sent.parent.span_id, span_id(batch)]
    assert attributes(sent) | MESSAGING == attributes(sent)
    assert attributes(sent)["messaging.message.id"] == traced["messageId"]
    assert "messaging.batch.message_count" not in attributes(sent)
    # A message that came without a trace is drawn below its batch.
    assert parents([by_id["b"]]) == [span_id(batch)]


MESSAGING = {
    "messaging.system": "aws_sqs",
    "messaging.destination.name": "jobs",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "sekali.outcome": "delete",
    "sekali.source": "body",
}


def test_message_without_a_trace_hands_that_of_its_record_on(
    kit: Kit, otel: InMemorySpanExporter
) -> None:
    worker = kit.worker()

    @worker.job("report")
    def report(job: Job) -> None:
        raise PermanentError(job.id)

    worker.handler(event(job("a", {})), Context())

    _, (span,) = batch_and_records(otel)
    (letter,) = kit.dead_letters()
    assert trace_id(span) in letter["attributes"]["sekali.trace"]
    assert span.status.status_code == StatusCode.ERROR
    assert attributes(span)["error.type"] == "permanent"


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_job_traces_lies_below_its_own_body(
    kit: Kit, otel: InMemorySpanExporter, *, concurrency: int, asynchronous: bool
) -> None:
    """Four bodies are under way at once where they may be, so that contexts could be mixed up."""
    warm.reset()
    worker = Worker("tests", concurrency=concurrency, hooks=[kit.events.append])
    together = threading.Barrier(concurrency)
    tracer = trace.get_tracer("tests")

    def synchronous(job: Job) -> object:
        together.wait(60)
        with tracer.start_as_current_span(f"own {job.id}"):
            together.wait(60)
            return job.cache.get_or_load(f"of {job.id}", lambda: job.id, ttl_seconds=60)

    async def coroutine(job: Job) -> object:
        await asyncio.to_thread(together.wait, 60)
        with tracer.start_as_current_span(f"own {job.id}"):
            await asyncio.to_thread(together.wait, 60)

            async def load() -> str:
                return job.id

            return await job.cache.get_or_load_async(f"of {job.id}", load, ttl_seconds=60)

    worker.job("report")(coroutine if asynchronous else synchronous)

    worker.handler(event(*(job(str(n), {}) for n in range(4))), Context())

    _, records = batch_and_records(otel)
    for one in records:
        job_id = attributes(one)["sekali.job.id"]
        (body,) = [span for span in named(otel, "run report") if parents([span]) == [span_id(one)]]
        (own,) = named(otel, f"own {job_id}")
        loads = [span for span in named(otel, "load") if parents([span]) == [span_id(own)]]
        assert parents([own]) == [span_id(body)]
        assert [attributes(span)["sekali.key"] for span in loads] == [f"of {job_id}"]


def test_error_of_a_body_is_told_by_its_class_alone(kit: Kit, otel: InMemorySpanExporter) -> None:
    worker = kit.worker()

    @worker.job("report")
    def report(_: Job) -> None:
        raise ValueError("the secret of the payload")

    worker.handler(event(job("a", {})), Context())

    (body,) = named(otel, "run report")
    assert attributes(body)["error.type"] == "ValueError"
    assert body.status.status_code == StatusCode.ERROR
    assert "secret" not in "".join(span.to_json() for span in otel.get_finished_spans())


def test_sender_that_was_not_sampled_is_not_drawn_further(
    kit: Kit, otel: InMemorySpanExporter
) -> None:
    worker = kit.worker()
    worker.job("report")(lambda _: "done")
    dropped = f"Root={SENDER};Parent=53995c3f42cd8ad8;Sampled=0"

    worker.handler(
        event(record({"sekali": 1, "id": "a", "payload": {}}, AWSTraceHeader=dropped)), Context()
    )

    assert [span.name for span in otel.get_finished_spans()] == ["process jobs"]


def test_w3c_header_goes_before_that_of_xray(kit: Kit, otel: InMemorySpanExporter) -> None:
    worker = kit.worker()
    worker.job("report")(lambda _: "done")
    both = record(
        {"sekali": 1, "id": "a", "payload": {}}, AWSTraceHeader=header("1-5f84c7a5-" + 24 * "0")
    )
    both["messageAttributes"] = {"traceparent": {"dataType": "String", "stringValue": W3C}}

    worker.handler(event(both), Context())

    _, (span,) = batch_and_records(otel)
    assert trace_id(span) == W3C[3:35]


def test_batch_that_is_sent_gives_each_message_a_context_of_its_own(
    kit: Kit, otel: InMemorySpanExporter
) -> None:
    producer = Producer(kit.queue_url, kit.sqs)

    producer.send_many(Request(name="report", payload={"n": n}) for n in range(3))

    (send,) = named(otel, "send jobs")
    created = named(otel, "create jobs")
    carried = [
        one["messageAttributes"]["traceparent"]["stringValue"]
        for one in received(kit.sqs, kit.queue_url)
    ]
    assert send.kind == SpanKind.CLIENT
    assert attributes(send)["messaging.batch.message_count"] == 3
    assert [span.kind for span in created] == [SpanKind.PRODUCER] * 3
    assert parents(created) == [span_id(send)] * 3
    assert sorted(carried) == sorted(
        f"00-{trace_id(span)}-{span_id(span):016x}-01" for span in created
    )


def test_trace_that_a_sender_names_goes_before_the_running_one(
    kit: Kit, otel: InMemorySpanExporter
) -> None:
    Producer(kit.queue_url, kit.sqs).send("report", {"n": 1}, trace=W3C)

    (sent,) = received(kit.sqs, kit.queue_url)
    assert sent["messageAttributes"]["traceparent"]["stringValue"] == W3C
    assert sent["attributes"]["AWSTraceHeader"] == header(SENDER)
    assert [span.name for span in otel.get_finished_spans()] == ["send jobs"]
