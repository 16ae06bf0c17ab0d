"""Keep measures as OpenTelemetry's metrics, so that Prometheus and whatever else it knows get them.

The table is that of CloudWatch's metrics (`measures`), and so are the names: `JobsCompleted` is the
counter `sekali.jobs_completed`, `RunTime` the histogram `sekali.run_time` in seconds. The only
attribute is the job, as `sekali.job`: Prometheus has a `job` of its own.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import sekali
from sekali.telemetry import events
from sekali.telemetry.measures import MEASURES

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider

    from sekali.telemetry.events import Event

FLUSH_SECONDS: Final = 2.0
"""At most so long an invocation waits for its exporter, and never for more than half of what it has
left: what is exported later is lost in the freeze, what is settled must not be."""

_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_WORDS = re.compile("(?<=[a-z])(?=[A-Z])")


def metric_name(name: str) -> str:
    """Return OpenTelemetry's name of a metric of the table."""
    return "sekali." + _WORDS.sub("_", name).lower()


class OpenTelemetryMetrics:
    """Sum up the events of one invocation, and add them when it ends.

    Events may come from several threads; appending to a list is atomic.
    """

    def __init__(self, provider: MeterProvider) -> None:
        """Take the provider whose meter keeps the metrics."""
        self._meter = provider.get_meter("sekali", sekali.__version__)
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._measures: list[tuple[str, tuple[str, str, float]]] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, events.InvocationEnded):
            self._add()
            return
        measure = MEASURES.get(type(event))
        if measure is not None:
            job = getattr(event, "name", "")
            self._measures.extend((job, one) for one in measure(event))

    def _add(self) -> None:
        measures, self._measures = self._measures, []
        counts: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        for job, (name, unit, value) in measures:
            if unit == "Milliseconds":
                self._histogram(name).record(value / 1000, _attributes(job))
            else:
                counts[job, name, unit] += value
        for (job, name, unit), value in counts.items():
            self._counter(name, unit).add(value, _attributes(job))

    def _histogram(self, name: str) -> Histogram:
        with self._lock:
            if name not in self._histograms:
                self._histograms[name] = self._meter.create_histogram(
                    metric_name(name),
                    unit="s",
                    explicit_bucket_boundaries_advisory=_BOUNDARIES,
                )
            return self._histograms[name]

    def _counter(self, name: str, unit: str) -> Counter:
        with self._lock:
            if name not in self._counters:
                self._counters[name] = self._meter.create_counter(
                    metric_name(name), unit=_UNITS.get(unit, "")
                )
            return self._counters[name]


class OpenTelemetryFlush:
    """Export what was kept before the container is frozen."""

    def __init__(self, *providers: object) -> None:
        """Take providers; one that has nothing to flush is left alone."""
        flushes = [getattr(provider, "force_flush", None) for provider in providers]
        self._flushes = [flush for flush in flushes if flush is not None]

    def __call__(self, event: Event) -> None:
        """Flush at the end of an invocation, within its time."""
        if isinstance(event, events.InvocationEnded):
            most = min(FLUSH_SECONDS, event.remaining_seconds / 2)
            for flush in self._flushes:
                flush(timeout_millis=int(most * 1000))


_UNITS: Final = {"Seconds": "s", "Bytes": "By", "Percent": "%"}


def _attributes(job: str) -> dict[str, str]:
    return {"sekali.job": job} if job else {}
