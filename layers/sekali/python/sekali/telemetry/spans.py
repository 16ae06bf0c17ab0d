"""Name what the core asks of whoever draws traces: the port, without any tracing library.

    producer's span ····link···· record ─┬─ claim     the pipeline that asked for it
                                         ├─ ask       the table, where it was asked
                                         ├─ run       the body ── load   a loader that it called
                                         ├─ store     the durable write
                                         ├─ finish    the pipeline that settled it
                                         └─ send      its delayed copy or its dead letter

`run` and `load` are live: what a job traces by itself lies below them. The others belong to many
records at once and are told afterwards, with the times of the pipeline. Without tracing there is no
object of these classes, and the core asks nothing of anybody.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from sekali.telemetry.events import RecordSettled

StepName = Literal["claim", "ask", "store", "finish", "send"]


class Traced(Protocol):
    """What a record tells of itself, and what is noted on it.

    `trace` is a header in either form (see `trace_context`); whoever draws a record without one
    gives it its own, so that copies and dead letters carry it on. `span` belongs to the drawer.
    """

    name: str
    id: str
    message_id: str
    trace: str | None
    span: Any  # Any: of whichever library draws
    load_seconds: float
    wait_seconds: float

    @property
    def traceparent(self) -> str | None:
        """Return what stands beside the message in W3C's form, if any."""


class BatchSpans(Protocol):
    """The drawing of one batch. Its methods may be called from the threads of that batch."""

    def step(
        self, name: StepName, records: Sequence[Traced], *, began: float, seconds: float
    ) -> None:
        """Draw what happened to `records` together, `began` in unix seconds."""

    def body(self, record: Traced) -> AbstractContextManager[object]:
        """Draw the block as the record's body, and let it be the current span of its context."""

    def end(self, record: Traced, settled: RecordSettled) -> None:
        """End the record's span with how it ended."""

    def close(self) -> None:
        """End the batch's span, and those of records that nobody ended."""


class Spans(Protocol):
    """Whoever draws. There is one per container, and it keeps nothing of a batch."""

    def batch(
        self, records: Sequence[Traced], *, queue_url: str, began: float
    ) -> BatchSpans | None:
        """Begin the drawing of a batch; None where this invocation is not traced."""

    def load(self, key: str) -> AbstractContextManager[object]:
        """Draw the block as a load, below the current span."""


RECORD: ContextVar[Traced | None] = ContextVar("sekali_record", default=None)
"""The record that this context works for, for log lines, loads and waits."""


def note_load(seconds: float) -> None:
    """Count the time of a loader among those of the record that called it, if there is one."""
    record = RECORD.get()
    if record is not None:
        record.load_seconds += seconds


def note_wait(seconds: float) -> None:
    """Count a wait for somebody else's load among those of the record that waits."""
    record = RECORD.get()
    if record is not None:
        record.wait_seconds += seconds
