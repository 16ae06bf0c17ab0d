"""Keep measures as OpenTelemetry's metrics, so that Prometheus and whatever else it knows get them.

The table is that of CloudWatch's metrics (`measures`), and so are the names: `JobsCompleted` is the
counter `sekali.jobs_completed`, `RunTime` the histogram `sekali.run_time` in seconds, `LeasesLive`
the gauge `sekali.leases_live`. The only attribute is the job, as `sekali.job`: Prometheus has a
`job` of its own, and adds jobs up by itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sekali
from sekali.keys import RESERVED_NAMES
from sekali.telemetry import events
from sekali.telemetry.measures import MEASURES, METRICS
from sekali.telemetry.sums import Sums

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.metrics import _Gauge as Gauge

    from sekali.telemetry.events import Event
    from sekali.telemetry.sums import Sheet

FLUSH_SECONDS: Final = 2.0
"""At most so long an invocation waits for its exporter, and never for more than half of what it has
left: what is exported later is lost in the freeze, what is settled must not be."""

_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_WORDS = re.compile("(?<=[a-z])(?=[A-Z])")


def metric_name(name: str) -> str:
    """Return OpenTelemetry's name of a metric of the table."""
    return "sekali." + _WORDS.sub("_", name).lower()


class OpenTelemetryMetrics:
    """Add up the events of one invocation, and hand them over when it ends.

    Events may come from several threads; only the invocation's own thread hands over.
    """

    def __init__(self, provider: MeterProvider) -> None:
        """Take the provider whose meter keeps the metrics."""
        meter = provider.get_meter("sekali", sekali.__version__)
        self._sums = Sums()
        self._counters: dict[str, Counter] = {}
        self._levels: dict[str, Gauge] = {}
        self._times: dict[str, Histogram] = {}
        for metric in METRICS.values():
            name = metric_name(metric.name)
            if metric.kind == "count":
                self._counters[metric.name] = meter.create_counter(name, description=metric.when)
            elif metric.kind == "level":
                self._levels[metric.name] = meter.create_gauge(name, description=metric.when)
            else:
                self._times[metric.name] = meter.create_histogram(
                    name,
                    unit="s",
                    description=metric.when,
                    explicit_bucket_boundaries_advisory=_BOUNDARIES,
                )

    def __call__(self, event: Event) -> None:
        """Take one event."""
        measures = MEASURES.get(type(event))
        if measures is not None:
            job = getattr(event, "name", "")
            self._sums.add("" if job in RESERVED_NAMES else job, measures(event))
        elif isinstance(event, events.InvocationEnded):
            for job, sheet in self._sums.take().items():
                self._hand_over(sheet, {"sekali.job": job} if job else {})

    def _hand_over(self, sheet: Sheet, attributes: dict[str, str]) -> None:
        for name, value in sheet.counts.items():
            if name in self._levels:
                self._levels[name].set(value, attributes)
            else:
                self._counters[name].add(value, attributes)
        for name, milliseconds in sheet.times.items():
            for one in milliseconds:
                self._times[name].record(one / 1000, attributes)


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
