"""Write one line per record, through Powertools' Logger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from sekali.telemetry import events

if TYPE_CHECKING:
    from sekali.telemetry.events import Event


class LogObserver:
    """Write one line per record, with everything that a search by id or key needs."""

    def __init__(self, service: str) -> None:
        """Name the service."""
        self._logger = Logger(service=service)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if not isinstance(event, events.RecordSettled):
            return
        self._logger.info(
            "record settled",
            job=event.name,
            id=event.id,
            key=event.key,
            outcome=event.outcome,
            reason=event.reason,
            source=event.source,
            attempt=event.attempt,
            fence=event.fence,
            run_ms=round(event.run_seconds * 1000, 3),
            latency_ms=round(event.latency_seconds * 1000, 3),
            trace=event.trace,
        )
