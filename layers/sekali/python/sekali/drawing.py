"""Time the steps of one batch, and have them drawn where the batch is traced.

The times go into each record's log line whether anything is drawn or not: two readings of the clock
per step, however many records share it. Without tracing nothing else happens here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sekali.telemetry.trace_context import TRACEPARENT, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.telemetry.spans import BatchSpans, StepName
    from sekali.warm import Container

LAMBDA_TRACE = "_X_AMZN_TRACE_ID"
"""Where the Lambda runtime keeps the trace of the running invocation."""


class Drawing:
    """The steps of one invocation's records. Made for one batch, never reused."""

    def __init__(self, container: Container, invocation: Invocation) -> None:
        """Draw nothing before `begin`."""
        self._container = container
        self._now = invocation.now
        self._began = container.clock.wall()
        self.batch: BatchSpans | None = None

    def begin(self, items: Sequence[Item]) -> None:
        """Give each record a trace, its own or that of this invocation, and begin to draw."""
        own = os.environ.get(LAMBDA_TRACE)
        for item in items:
            header = item.message.trace if item.message else _trace_of(item.raw)
            item.trace = header if header is not None and parse(header) else own or header
        spans = self._container.spans
        if spans is not None:
            queue_url = self._container.settings.queue_url or ""
            self.batch = spans.batch(items, queue_url=queue_url, began=self._began)

    @contextmanager
    def step(self, name: StepName, items: Sequence[Item]) -> Iterator[None]:
        """Take the block's time as that of the step `name` of every one of `items`."""
        began = self._now()
        try:
            yield
        finally:
            seconds = self._now() - began
            _add(name, items, seconds)
            if self.batch is not None and items:
                wall = self._container.clock.wall()
                self.batch.step(name, items, began=wall - seconds, seconds=seconds)

    def close(self) -> None:
        """End what is still drawn."""
        if self.batch is not None:
            self.batch.close()
            self.batch = None


def _add(name: StepName, items: Sequence[Item], seconds: float) -> None:
    if name == "claim":
        for item in items:
            item.claim_seconds += seconds
    elif name in {"ask", "store"}:
        for item in items:
            item.store_seconds += seconds
    elif name == "finish":
        for item in items:
            item.finish_seconds += seconds


def _trace_of(raw: Mapping[str, object]) -> str | None:
    """Return the trace beside a body that could not be decoded."""
    system, attributes = raw.get("attributes"), raw.get("messageAttributes")
    header = system.get("AWSTraceHeader") if isinstance(system, dict) else None
    if header is None and isinstance(attributes, dict):
        beside = attributes.get(TRACEPARENT)
        header = beside.get("stringValue") if isinstance(beside, dict) else None
    return header if isinstance(header, str) else None
