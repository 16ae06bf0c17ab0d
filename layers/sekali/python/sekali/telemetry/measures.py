"""Turn events into measures: the one table of metrics, for every observer that keeps them.

A measure has no dimension but the job's name, which is bounded; never a key or an id. `METRICS` is
the list that docs/telemetry.md, the dashboards and the alarms are compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from sekali.light_dataclass import dataclass
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.telemetry.events import Event

Measure = tuple[str, str, float]
"""A metric's name, its unit, one value."""
Measures = tuple[Measure, ...]

COUNT: Final = "Count"
MILLISECONDS: Final = "Milliseconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """Describe one metric.

    A `count` is added up, a `time` is kept value by value for its percentiles, a `level` stands
    until it is told again. Metrics `of` a job are told for it and for the service as a whole;
    the others for the service alone.
    """

    name: str
    of: Literal["job", "service"]
    kind: Literal["count", "time", "level"]
    when: str

    @property
    def unit(self) -> str:
        """Return the unit, as CloudWatch calls it."""
        return MILLISECONDS if self.kind == "time" else COUNT


METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("Records", "job", "count", "A record of a batch was taken, whatever became of it."),
        Metric("JobsCompleted", "job", "count", "A message was let go: its id is done."),
        Metric("JobsComputed", "job", "count", "Of these, by this record's own body."),
        Metric("JobsServed", "job", "count", "Of these, by the value of its key."),
        Metric("JobsDuplicate", "job", "count", "Of these, because its id was done before."),
        Metric("JobsFailed", "job", "count", "A job ended without a result, for good."),
        Metric("JobsRetried", "job", "count", "A body failed, and its job is tried again."),
        Metric("JobsDeferred", "job", "count", "A message was given back without an attempt."),
        Metric("JobsReturned", "job", "count", "A message returned to its queue as a failure."),
        Metric("JobsDegraded", "job", "count", "A job ran without the shared cache, by policy."),
        Metric("JobsDeadLettered", "job", "count", "A message became a dead letter."),
        Metric("QueueToFinishLatency", "job", "time", "Of a completed job, since its sending."),
        Metric("QueueDelay", "job", "time", "Of a completed job, from its sending to its claim."),
        Metric("RunTime", "job", "time", "Of a body that completed its job."),
        Metric("CacheLocalHits", "job", "count", "A value was in the local tier."),
        Metric("CacheSharedHits", "job", "count", "A value was in the shared tier."),
        Metric("CacheMisses", "job", "count", "A job's value was in neither, and its body runs."),
        Metric("CacheLoads", "service", "count", "A value was in neither, and a loader ran."),
        Metric("CacheStaleServed", "service", "count", "An old value was served where allowed."),
        Metric("LoadTime", "service", "time", "Of a loader that returned."),
        Metric("LoadTimeouts", "service", "count", "A wait for another loader reached its bound."),
        Metric("CacheFillsRefused", "service", "count", "A value was returned and not kept."),
        Metric("CacheUnreadableValues", "job", "count", "A stored value could not be trusted."),
        Metric("LocalFlushesOpened", "service", "count", "A container read the log first."),
        Metric("LocalFlushesGap", "service", "count", "The log lost a container's place."),
        Metric("LocalFlushesClock", "service", "count", "The wall clock was set back."),
        Metric("ThawGap", "service", "time", "Between two invocations of a container."),
        Metric("ColdStarts", "service", "count", "The first invocation of a container."),
        Metric("LeasesAcquired", "job", "count", "A claim got the lease of its key."),
        Metric("LeasesContended", "job", "count", "A claim found its key held, or cooling."),
        Metric("LeasesTakenOver", "job", "count", "A claim found a dead holder's lease."),
        Metric("LeasesLost", "job", "count", "A holder's lease went to somebody else, or ended."),
        Metric("LeaseHeldTime", "job", "time", "Of a lease that its holder ended."),
        Metric("HoldersSuperseded", "job", "count", "A result came after a newer holder's."),
        Metric("LeasesLive", "service", "level", "Recovery looked: leases within their bounds."),
        Metric("LeasesOverdue", "service", "level", "Recovery looked: ended, not claimed again."),
        Metric("LeasesLong", "service", "level", "Recovery looked: over five usual runs."),
        Metric("LeasesEndless", "service", "level", "Recovery looked: over any invocation."),
        Metric("LeasesRevoked", "service", "count", "Recovery took an endless lease away."),
        Metric("JobsPending", "service", "level", "Recovery looked: waiting for the cache."),
        Metric("SharedErrors", "service", "count", "An operation on the shared cache failed."),
        Metric("StoreReads", "service", "count", "Ids were looked up in the table."),
        Metric("StoreWrites", "service", "count", "Outcomes were recorded in the table."),
        Metric("StoreErrors", "service", "count", "A call to table or bucket failed."),
    )
}


def _count(name: str, value: float = 1) -> Measure:
    return name, COUNT, value


def _time(name: str, seconds: float) -> Measure:
    return name, MILLISECONDS, round(seconds * 1000, 3)


_RECORD: Final = _count("Records")
_OUTCOMES: Final = {
    "delete": _count("JobsCompleted"),
    "defer": _count("JobsDeferred"),
    "dead_letter": _count("JobsDeadLettered"),
    "return": _count("JobsReturned"),
}
_COMPUTED: Final = _count("JobsComputed")
_DUPLICATE: Final = _count("JobsDuplicate")
_SERVED: Final = _count("JobsServed")
_FAILED: Final = _count("JobsFailed")
_BY_SOURCE: Final = {
    **dict.fromkeys(("local_record", "record", "table", "repeat"), _DUPLICATE),
    **dict.fromkeys(("local", "shared", "followed"), _SERVED),
}
_NOT_FAILED: Final = frozenset({"payload_mismatch", "payload_rejected", "waited_too_long"})
"""Dead letters of messages whose job was never tried, or not to its end."""
_READS: Final = {
    "local": "CacheLocalHits",
    "shared": "CacheSharedHits",
    "loaded": "CacheLoads",
    "stale": "CacheStaleServed",
    "miss": "CacheMisses",
}
_FLUSHES: Final = {
    "log_opened": "LocalFlushesOpened",
    "log_gap": "LocalFlushesGap",
    "clock": "LocalFlushesClock",
}


def _settled(event: Any) -> Measures:  # Any: the table below pairs it with its type
    outcome = _OUTCOMES.get(event.outcome) or _OUTCOMES["return"]
    if event.outcome == "dead_letter":
        failed = event.name and event.reason not in _NOT_FAILED
        return (_RECORD, outcome, _FAILED) if failed else (_RECORD, outcome)
    if event.outcome != "delete":
        return _RECORD, outcome
    latency = _time("QueueToFinishLatency", event.latency_seconds)
    delay = _time("QueueDelay", event.queue_seconds)
    if event.source == "body":
        return _RECORD, outcome, latency, delay, _COMPUTED, _time("RunTime", event.run_seconds)
    source = _BY_SOURCE.get(event.source)
    return (_RECORD, outcome, latency, delay, *([source] if source else ()))


def _read(event: Any) -> Measures:  # Any: as above
    read = _count(_READS[event.source], event.count)
    return (read, _time("LoadTime", event.load_seconds)) if event.source == "loaded" else (read,)


def _flushed(event: Any) -> Measures:  # Any: as above
    return (_count(_FLUSHES[event.cause]),)


def _looked(event: Any) -> Measures:  # Any: as above
    levels = (
        ("LeasesLive", event.live),
        ("LeasesOverdue", event.overdue),
        ("LeasesLong", event.long),
        ("LeasesEndless", event.endless),
        ("JobsPending", event.pending),
    )
    return tuple(_count(name, value) for name, value in levels if value is not None)


def _once(name: str) -> Callable[[Any], Measures]:  # Any: as above
    measures = (_count(name),)
    return lambda _: measures


def _counted(name: str) -> Callable[[Any], Measures]:  # Any: as above
    return lambda event: (_count(name, event.count),)


# Any: each function is paired with the type of event that it reads.
MEASURES: Final[Mapping[type[Event], Callable[[Any], Measures]]] = {
    events.RecordSettled: _settled,
    events.CacheRead: _read,
    events.Retried: _once("JobsRetried"),
    events.Degraded: _once("JobsDegraded"),
    events.Superseded: _once("HoldersSuperseded"),
    events.UnreadableValue: _once("CacheUnreadableValues"),
    events.FillRefused: _once("CacheFillsRefused"),
    events.LocalFlushed: _flushed,
    events.LoadTimedOut: _once("LoadTimeouts"),
    events.Started: _once("ColdStarts"),
    events.Thawed: lambda event: (_time("ThawGap", event.gap_seconds),),
    events.LeaseAcquired: _once("LeasesAcquired"),
    events.LeaseContended: _once("LeasesContended"),
    events.LeaseTakenOver: _once("LeasesTakenOver"),
    events.LeaseLost: _once("LeasesLost"),
    events.LeaseHeld: lambda event: (_time("LeaseHeldTime", event.seconds),),
    events.LeaseRevoked: _once("LeasesRevoked"),
    events.Recovered: _looked,
    events.SharedFailed: _once("SharedErrors"),
    events.StoreRead: _counted("StoreReads"),
    events.StoreWritten: _counted("StoreWrites"),
    events.StoreFailed: _counted("StoreErrors"),
}
