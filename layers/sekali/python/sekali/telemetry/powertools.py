"""Write measures as Powertools' EMF metrics, once per invocation.

Powertools' `add_metric` takes longer than a record may (docs/performance.md), so measures are added
up here and handed over as they are to be written:

    job "reports"      Dimensions [[service, job], [service]]     one line
    no job             Dimensions [[service]]                     one line
    above 100 times    the rest of the times, in further lines

What belongs to a job is told for it and for the whole service, because an alarm cannot add up
series whose names it does not know. A key or an id is never a dimension: each would be a metric of
its own. No line comes near CloudWatch's limits: 100 metrics, 100 values each, 256 KB.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.metrics import EphemeralMetrics

from sekali.keys import RESERVED_NAMES
from sekali.telemetry import events
from sekali.telemetry.measures import COUNT, MEASURES, MILLISECONDS
from sekali.telemetry.sums import Sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sekali.telemetry.events import Event
    from sekali.telemetry.sums import Sheet

NAMESPACE: Final = "Sekali"
VALUES_PER_LINE: Final = 100
"""Values of one metric that CloudWatch takes in one line."""


class MetricsObserver:
    """Add up the events of one invocation and write them when it ends.

    Events may come from several threads; only the invocation's own thread writes.
    """

    def __init__(self, service: str, *, namespace: str | None = None) -> None:
        """Name the service; the namespace is Powertools' own setting where it is set."""
        self._service = service
        self._sums = Sums()
        # One for all lines, because it takes longer to make than to write with; it forgets
        # everything when it is flushed.
        self._emf = EphemeralMetrics(
            namespace=namespace or os.environ.get("POWERTOOLS_METRICS_NAMESPACE", NAMESPACE),
            service=service,
        )

    def __call__(self, event: Event) -> None:
        """Take one event."""
        measures = MEASURES.get(type(event))
        if measures is not None:
            job = getattr(event, "name", "")
            self._sums.add("" if job in RESERVED_NAMES else job, measures(event))
        elif isinstance(event, events.InvocationEnded):
            for job, sheet in self._sums.take().items():
                for metrics in _lines(sheet):
                    self._write(job, metrics)

    def _write(self, job: str, metrics: dict[str, Any]) -> None:  # Any: as Powertools keeps them
        emf = self._emf
        emf.metric_set = metrics
        emf.add_dimension("service", self._service)
        if job:
            emf.add_dimension("job", job)
            emf.add_dimensions(service=self._service)
        emf.flush_metrics()


def _lines(sheet: Sheet) -> Iterator[dict[str, Any]]:  # Any: as above
    """Yield the metrics of each line: counts in the first, a hundred values of each time in all."""
    line = {name: {"Unit": COUNT, "Value": [value]} for name, value in sheet.counts.items()}
    rest = sheet.times
    while line or rest:
        for name, values in rest.items():
            line[name] = {"Unit": MILLISECONDS, "Value": values[:VALUES_PER_LINE]}
        yield line
        line = {}
        rest = {
            name: values[VALUES_PER_LINE:]
            for name, values in rest.items()
            if len(values) > VALUES_PER_LINE
        }
