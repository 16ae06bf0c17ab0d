"""Draw each record as a subsegment of the invocation's X-Ray segment, through Powertools' Tracer.

A queue does not carry the parent: Lambda links the message's trace. The subsegment carries the
producer's trace id as an annotation, so that one search finds both ends.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aws_lambda_powertools import Tracer

from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.telemetry.events import Event


class TraceObserver:
    """Write a subsegment for each settled record, with its measured times."""

    def __init__(self, *, wall: Callable[[], float] = time.time) -> None:
        """Make the tracer; `wall` ends the subsegments."""
        self._tracer = Tracer(auto_patch=False)
        self._wall = wall

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if not isinstance(event, events.RecordSettled):
            return
        ended = self._wall()
        with self._tracer.provider.in_subsegment(name=f"## {event.name or 'undecoded'}") as drawn:
            if drawn is None:
                return
            # The SDK gives segments a start and says so nowhere in its types.
            setattr(drawn, "start_time", ended - event.run_seconds)  # noqa: B010
            for name, value in (
                ("job", event.name),
                ("id", event.id),
                ("outcome", event.outcome),
                ("source", event.source),
                ("producer_trace", event.trace or ""),
            ):
                drawn.put_annotation(key=name, value=value)
