"""Draw what a producer sends, by OpenTelemetry's semantic conventions for messaging.

one message     send jobs (PRODUCER)                    its context goes along
a batch         send jobs (CLIENT) ─── create jobs (PRODUCER) for each message, whose context
                                       goes along
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace

import sekali
from sekali.telemetry.opentelemetry_spans import current, destination, nanoseconds, traceparent
from sekali.telemetry.sent_traces import Origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Sends:
    """Draw through the global tracer provider, whenever that was set."""

    def __init__(self, *, wall: Callable[[], float]) -> None:
        """Take the clock: unix seconds."""
        self._wall = wall

    @contextmanager
    def sending(self, queue_url: str, count: int) -> Iterator[None]:
        """Draw the block as one request that sends `count` messages."""
        attributes = dict(destination(queue_url, operation="send"))
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        span = self._tracer().start_span(
            f"send {attributes['messaging.destination.name']}",
            # Only a span whose context a message carries is a producer's.
            kind=trace.SpanKind.PRODUCER if count == 1 else trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=nanoseconds(self._wall()),
        )
        with current(span, self._wall):
            yield

    def origin(self, queue_url: str, *, alone: bool) -> Origin:
        """Return the current context, or that of a span that stands for one message's creation."""
        context = trace.get_current_span().get_span_context()
        if not alone:
            attributes = destination(queue_url, operation="create")
            now = nanoseconds(self._wall())
            span = self._tracer().start_span(
                f"create {attributes['messaging.destination.name']}",
                kind=trace.SpanKind.PRODUCER,
                attributes=attributes,
                start_time=now,
            )
            span.end(now)
            context = span.get_span_context()
        if not context.is_valid:
            return Origin()
        state = context.trace_state.to_header() or None
        return origin_of(traceparent(context))._replace(state=state)

    def _tracer(self) -> trace.Tracer:
        return trace.get_tracer("sekali", sekali.__version__)
