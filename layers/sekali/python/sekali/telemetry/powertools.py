"""Write measures as Powertools' EMF metrics.

They are summed up here and written once per invocation, one EMF line per job, because one
`add_metric` per record costs more than the record: dimensions are `service` and `job` and never a
key or an id.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from aws_lambda_powertools.metrics import EphemeralMetrics

from sekali.telemetry import events
from sekali.telemetry.measures import MEASURES

if TYPE_CHECKING:
    from sekali.telemetry.events import Event
    from sekali.telemetry.measures import Measure

NAMESPACE: Final = "Sekali"
VALUES_PER_LINE: Final = 99
"""Values of one metric in one EMF line. CloudWatch takes 100; at the hundredth Powertools writes a
line at once, and warns of an empty one at the flush."""


class MetricsObserver:
    """Sum up the events of one invocation and write them when it ends.

    Events may come from several threads; appending to a list is atomic, and only the invocation's
    own thread writes.
    """

    def __init__(self, service: str, *, namespace: str | None = None) -> None:
        """Name the service; the namespace is Powertools' own setting where it is set."""
        self._service = service
        self._namespace = namespace or os.environ.get("POWERTOOLS_METRICS_NAMESPACE", NAMESPACE)
        self._measures: list[tuple[str, Measure]] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, events.InvocationEnded):
            self._write()
            return
        measure = MEASURES.get(type(event))
        if measure is not None:
            job = getattr(event, "name", "")
            self._measures.extend((job, one) for one in measure(event))

    def _write(self) -> None:
        measures, self._measures = self._measures, []
        by_job: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for job, (name, unit, value) in measures:
            by_job[job][name, unit].append(value)
        for job, metrics in by_job.items():
            self._write_job(job, metrics)

    def _write_job(self, job: str, metrics: dict[tuple[str, str], list[float]]) -> None:
        sums = {name: [sum(values)] for name, values in metrics.items() if name[1] == "Count"}
        rest = {name: values for name, values in metrics.items() if name[1] != "Count"}
        while sums or rest:
            emf = EphemeralMetrics(namespace=self._namespace, service=self._service)
            if job:
                emf.add_dimension("job", job)
            for (name, unit), values in (sums | rest).items():
                for value in values[:VALUES_PER_LINE]:
                    emf.add_metric(name=name, unit=unit, value=value)
            emf.flush_metrics()
            sums = {}
            rest = {
                name: values[VALUES_PER_LINE:]
                for name, values in rest.items()
                if len(values) > VALUES_PER_LINE
            }
