"""Draw batches as OpenTelemetry spans, by its semantic conventions for messaging.

    send jobs (PRODUCER) ─┬─ process jobs (CONSUMER) ─┬─ claim
       ·                  │     ·                     ├─ run delay-report ── load
       ·                  │     ·                     ├─ store
       ·                  │     ·                     ├─ finish
       ·                  │     ·                     └─ send
       ·                  └─ process jobs, of the delayed copy
       ·····link····· process jobs (CONSUMER), the batch ·····link····· each message's

The span of a batch belongs to the trace of its invocation and links to every message. The span of a
message continues the trace of its sender, which the conventions leave open, and links to both: so
one trace id holds a job from its sending over every delayed copy to its dead letter, in whichever
invocations they were. A message that came with no trace is drawn below its batch.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
    use_span,
)

import sekali
from sekali.telemetry.shown_keys import shown
from sekali.telemetry.trace_context import TraceContext, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from sekali.telemetry.events import RecordSettled
    from sekali.telemetry.shown_keys import Keys
    from sekali.telemetry.spans import StepName, Traced

SYSTEM: Final = "aws_sqs"


class OpenTelemetrySpans:
    """Draw through a tracer provider."""

    def __init__(
        self,
        provider: TracerProvider,
        *,
        keys: Keys = "key",
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Take the provider.

        Args:
            provider: whose tracer draws; its sampler decides what is kept.
            keys: how a key is shown.
            wall: unix seconds.
        """
        self._tracer = provider.get_tracer("sekali", sekali.__version__)
        self._keys = keys
        self._wall = wall

    def batch(
        self, records: Sequence[Traced], *, queue_url: str, began: float
    ) -> OpenTelemetryBatch:
        """Begin below whatever is current, with a link to each message's trace."""
        sent = [context_of(record.traceparent or record.trace) for record in records]
        links = [
            Link(context, {"messaging.message.id": record.message_id})
            for context, record in zip(sent, records, strict=True)
            if context is not None
        ]
        return OpenTelemetryBatch(
            self._tracer, records, sent, links, queue_url=queue_url, began=began, wall=self._wall
        )

    @contextmanager
    def load(self, key: str) -> Iterator[None]:
        """Draw the block below the current span."""
        attributes = {"sekali.key": shown(key, self._keys)}
        span = self._tracer.start_span(
            "load", attributes=attributes, start_time=nanoseconds(self._wall())
        )
        with current(span, self._wall):
            yield


class OpenTelemetryBatch:
    """One batch."""

    def __init__(
        self,
        tracer: Tracer,
        records: Sequence[Traced],
        sent: Sequence[SpanContext | None],
        links: Sequence[Link],
        *,
        queue_url: str,
        began: float,
        wall: Callable[[], float],
    ) -> None:
        self._tracer = tracer
        self._wall = wall
        queue = destination(queue_url, operation="process")
        start = nanoseconds(began)
        name = f"process {queue['messaging.destination.name']}"
        self._span = tracer.start_span(
            name,
            kind=SpanKind.CONSUMER,
            links=links,
            start_time=start,
            attributes={
                **queue,
                "messaging.batch.message_count": len(records),
                "faas.trigger": "pubsub",
            },
        )
        self._open: dict[int, Span] = {}
        below = set_span_in_context(self._span)
        for record, context in zip(records, sent, strict=True):
            above = below
            if context is not None:
                above = set_span_in_context(NonRecordingSpan(context))
            span = tracer.start_span(
                name,
                context=above,
                kind=SpanKind.CONSUMER,
                links=[Link(one) for one in (context, self._span.get_span_context()) if one],
                start_time=start,
                attributes={
                    **queue,
                    "messaging.message.id": record.message_id,
                    "sekali.job.name": record.name,
                    "sekali.job.id": record.id,
                },
            )
            record.span = self._open[id(record)] = span
            # What goes out for this record, and what is logged of it, names this trace.
            record.trace = traceparent(context or span.get_span_context())

    def step(
        self, name: StepName, records: Sequence[Traced], *, began: float, seconds: float
    ) -> None:
        """Draw one span for each record, all with the same times."""
        start, end = nanoseconds(began), nanoseconds(began + seconds)
        for record in records:
            if record.span is not None:
                span = self._tracer.start_span(
                    name,
                    context=set_span_in_context(record.span),
                    start_time=start,
                    attributes={"sekali.step.records": len(records)},
                )
                span.end(end)

    @contextmanager
    def body(self, record: Traced) -> Iterator[None]:
        """Draw the body, with whatever it traces by itself below."""
        span = self._tracer.start_span(
            f"run {record.name}",
            context=set_span_in_context(record.span),
            start_time=nanoseconds(self._wall()),
        )
        with current(span, self._wall):
            yield

    def end(self, record: Traced, settled: RecordSettled) -> None:
        """End the record's span with how it ended."""
        self._open.pop(id(record), None)
        span, record.span = record.span, None
        if span is None:
            return
        span.set_attributes(
            {
                "sekali.outcome": settled.outcome,
                "sekali.reason": settled.reason,
                "sekali.source": settled.source,
                "sekali.attempt": settled.attempt,
                "sekali.fence": settled.fence,
                "sekali.wait_seconds": settled.took[2],
            }
        )
        if settled.outcome in {"return", "dead_letter"}:
            span.set_attribute("error.type", settled.reason)
            span.set_status(Status(StatusCode.ERROR))
        span.end(nanoseconds(self._wall()))

    def close(self) -> None:
        """End the batch's span, and as errors those of records that nobody ended."""
        for span in self._open.values():
            span.set_attribute("error.type", "unsettled")
            span.set_status(Status(StatusCode.ERROR))
            span.end(nanoseconds(self._wall()))
        self._open.clear()
        self._span.end(nanoseconds(self._wall()))


def context_of(header: str | None, state: str | None = None) -> SpanContext | None:
    """Return a header in either form as the remote context of its sender."""
    context = parse(header)
    if context is None or not context.span_id:
        return None
    return SpanContext(
        trace_id=int(context.trace_id, 16),
        span_id=int(context.span_id, 16),
        is_remote=True,
        # Undecided is not refused: what nobody dropped is kept.
        trace_flags=TraceFlags(context.sampled is not False),
        trace_state=TraceState.from_header([state]) if state else None,
    )


def destination(queue_url: str, *, operation: str) -> Mapping[str, Any]:  # Any: attribute values
    """Return the attributes of an operation on a queue."""
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue_url.rpartition("/")[2],
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "aws.sqs.queue.url": queue_url,
        "server.address": urlsplit(queue_url).hostname or "",
    }


def traceparent(context: SpanContext) -> str | None:
    """Return a context in W3C's form."""
    return TraceContext(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled
    ).traceparent


@contextmanager
def current(span: Span, wall: Callable[[], float]) -> Iterator[None]:
    """Let `span` be current for the block, and end it with it.

    An error is told by its class alone: its text may hold what no trace should.
    """
    try:
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as error:
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR))
        raise
    finally:
        span.end(nanoseconds(wall()))


def nanoseconds(seconds: float) -> int:
    """Return unix seconds as OpenTelemetry takes times."""
    return int(seconds * 1_000_000_000)
