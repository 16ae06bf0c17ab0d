"""Turn events into Powertools' metrics, log lines and X-Ray subsegments.

Metrics are summed up here and written once per invocation, one EMF line per job, because one
`add_metric` per record costs more than the record: dimensions are `service` and `job` and never a
key or an id. The log has one line per record. Subsegments are made from the measured times after
the fact, so that the batch itself knows nothing of tracing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.telemetry.events import Event, Hook

NAMESPACE: Final = "Sekali"
VALUES_PER_LINE: Final = 99
"""Values of one metric in one EMF line. CloudWatch takes 100; at the hundredth Powertools writes a
line at once, and warns of an empty one at the flush."""

Measure = tuple[str, str, float]
"""A metric's name, its unit, one value."""

_OUTCOMES: Final = {
    "delete": "JobsCompleted",
    "defer": "JobsDeferred",
    "dead_letter": "JobsDeadLettered",
    "return": "JobsReturned",
}
_DUPLICATES: Final = frozenset({"local_record", "record", "table", "repeat"})
_SERVED: Final = frozenset({"local", "shared", "followed"})
_LEAKS: Final = {
    "overdue": "LeasesOverdue",
    "long": "LeasesLong",
    "endless": "LeasesEndless",
}
_READS: Final = {
    "local": "CacheLocalHits",
    "shared": "CacheSharedHits",
    "loaded": "CacheLoads",
    "stale": "CacheStaleServed",
    "miss": "CacheMisses",
}


def observers(service: str) -> list[Hook]:
    """Return the default hooks: metrics, one log line per record, subsegments where traced."""
    chosen: list[Hook] = [MetricsObserver(service), LogObserver(service)]
    if _is_traced():
        from sekali.telemetry.xray import TraceObserver

        chosen.append(TraceObserver())
    return chosen


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
        measure = _MEASURES.get(type(event))
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


def _settled(event: Any) -> Iterator[Measure]:  # Any: the table below pairs it with its type
    yield _OUTCOMES.get(event.outcome, "JobsReturned"), "Count", 1
    if event.outcome != "delete":
        return
    yield "QueueToFinishLatency", "Milliseconds", event.latency_seconds * 1000
    yield "QueueDelay", "Milliseconds", event.queue_seconds * 1000
    if event.source == "body":
        yield "JobsComputed", "Count", 1
        yield "RunTime", "Milliseconds", event.run_seconds * 1000
    elif event.source in _DUPLICATES:
        yield "JobsDuplicate", "Count", 1
    elif event.source in _SERVED:
        yield "JobsServed", "Count", 1


def _read(event: Any) -> Iterator[Measure]:  # Any: as above
    yield _READS[event.source], "Count", event.count
    if event.source == "loaded":
        yield "LoadTime", "Milliseconds", event.load_seconds * 1000


def _leaked(event: Any) -> Iterator[Measure]:  # Any: as above
    yield _LEAKS[event.state], "Count", 1


def _once(name: str) -> Callable[[Any], Iterator[Measure]]:  # Any: as above
    def measure(event: Any) -> Iterator[Measure]:  # noqa: ARG001
        yield name, "Count", 1

    return measure


def _counted(name: str) -> Callable[[Any], Iterator[Measure]]:  # Any: as above
    def measure(event: Any) -> Iterator[Measure]:
        yield name, "Count", event.count

    return measure


# Any: each function is paired with the type of event that it reads.
_MEASURES: Final[dict[type[Event], Callable[[Any], Iterator[Measure]]]] = {
    events.RecordSettled: _settled,
    events.CacheRead: _read,
    events.Retried: _once("JobsRetried"),
    events.Degraded: _once("JobsDegraded"),
    events.Superseded: _once("HoldersSuperseded"),
    events.UnreadableValue: _once("CacheUnreadableValues"),
    events.LocalFlushed: _once("CacheLocalFlushes"),
    events.LoadTimedOut: _once("LoadTimeouts"),
    events.LeaseAcquired: _once("LeasesAcquired"),
    events.LeaseContended: _once("LeasesContended"),
    events.LeaseTakenOver: _once("LeasesTakenOver"),
    events.LeaseLost: _once("LeasesLost"),
    events.LeaseLeaked: _leaked,
    events.LeaseRevoked: _once("LeasesRevoked"),
    events.JobsPending: _counted("JobsPending"),
    events.SharedFailed: _once("SharedErrors"),
    events.StoreRead: _counted("StoreReads"),
    events.StoreWritten: _counted("StoreWrites"),
}


def _is_traced() -> bool:
    """Tell whether this function is traced; the X-Ray SDK takes 400 ms to import."""
    off = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in {"1", "true", "yes", "on"}
    return not off and "LAMBDA_TASK_ROOT" in os.environ
