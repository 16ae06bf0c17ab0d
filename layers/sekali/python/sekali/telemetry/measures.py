"""Turn events into measures: the one table of metrics, for every observer that keeps them.

A measure has no dimension but the job's name, which is bounded; never a key or an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.telemetry.events import Event

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
MEASURES: Final[dict[type[Event], Callable[[Any], Iterator[Measure]]]] = {
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
