"""List everything that the library tells about itself, as frozen facts.

The core emits these and imports no telemetry library; whoever wants metrics, traces or log lines
takes them through a hook. A `name` is the name of a job, bounded in number and fit for a dimension
of a metric. A `key`, an `id` and an `owner` are not: they belong in log lines only. No event holds
a payload or a result. All times are float seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from sekali.light_dataclass import dataclass


class Event:
    """Stand above every event."""

    __slots__ = ()


Hook: TypeAlias = Callable[[Event], None]


# Jobs

Took: TypeAlias = tuple[float, float, float, float, float]
"""Seconds of claim, loads, waits for other loaders, store and finish, in this order: one field,
because each one of a frozen class costs a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSettled(Event):
    """Tell how one record of a batch ended; there is one for each, whatever happened.

    Queue time runs from the first sending to the claim, latency from the first sending to the end.
    Run time is the body's own, and holds the times of its loads and of its waits for other loaders.
    Claim, store and finish `took` as long for all records that shared them. `source` says where the
    answer came from (see `items`), and is empty where there is none; `trace` is the header that the
    message came with, else that of the invocation. `failure` is the class of what its body raised.
    """

    name: str
    id: str
    key: str
    outcome: str
    attempt: int = 0
    fence: int = 0
    source: str = ""
    deferrals: int = 0
    receives: int = 1
    queue_seconds: float = 0.0
    run_seconds: float = 0.0
    took: Took = (0.0, 0.0, 0.0, 0.0, 0.0)
    latency_seconds: float = 0.0
    retries: int = 0
    reason: str = ""
    failure: str = ""
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Event):
    """Tell that a body failed and its job will be tried again."""

    name: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """Tell that a message went to the dead letter queue, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred(Event):
    """Tell that a message was given back to be tried later, without spending an attempt."""

    name: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded(Event):
    """Tell that a job ran without the coordination layer, by its policy."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(Event):
    """Tell that a holder finished after a newer one: its result does not count."""

    name: str
    key: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationEnded(Event):
    """Tell that the invocation is over: whoever sums up writes now, or loses it in the freeze.

    `remaining_seconds` is what an observer may take of the invocation's time.
    """

    remaining_seconds: float = 1.0


# Cache tiers


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRead(Event):
    """Tell where a value came from.

    Local hits are too cheap for an event each: they are counted and told together, with `key`
    empty. `load_seconds` is the loader's own time.
    """

    name: str
    source: Literal["local", "shared", "loaded", "stale", "miss"]
    key: str = ""
    load_seconds: float = 0.0
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimedOut(Event):
    """Tell that a wait for another holder reached its bound, and what was done then."""

    name: str
    key: str
    policy: Literal["load", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableValue(Event):
    """Tell that a stored value was a miss because it could not be trusted."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRefused(Event):
    """Tell that a loaded value was returned but not kept in the shared tier.

    It was invalidated or superseded during the load (`superseded`), the codec cannot carry it
    (`unencodable`), it is above the limit (`too_large`), or the mark that one of its tags had
    before the load is not known (`tag_unknown`).
    """

    name: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFlushed(Event):
    """Tell that a container dropped its whole local cache.

    It read the log for the first time (`log_opened`) and may hold what is older than that; the log
    has lost its place (`log_gap`); the wall clock was set back (`clock`).
    """

    cause: str
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """Tell that the first invocation of a container begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thawed(Event):
    """Tell how long ago the container's last invocation ended: at most so long it was frozen."""

    gap_seconds: float


# Leases


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired(Event):
    """Tell that this container holds the lease of a key."""

    name: str
    key: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseContended(Event):
    """Tell that somebody else holds the lease of a key.

    `record` tells that a record of a batch found it, whose own line says so too.
    """

    name: str
    key: str
    owner: str
    record: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTakenOver(Event):
    """Tell that a lease was abandoned: its owner died without ending it."""

    name: str
    key: str
    dead_owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """Tell that this container's lease went to somebody else, or could not be kept."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeld(Event):
    """Tell how long a lease was held, when it ends."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLeaked(Event):
    """Tell that a lease was found overdue, or that its holder lasts too long."""

    name: str
    key: str
    owner: str
    state: Literal["overdue", "live", "long", "endless"]
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRevoked(Event):
    """Tell that an endless lease was taken away, by policy."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """Tell what a look for leaks has found: leases by their state, and jobs pending for too long.

    It is told also where there are none, so that whoever watches learns that all is well again.
    Leases are None where the shared cache could not be asked, `pending` where the table could not.
    """

    live: int | None
    overdue: int | None
    long: int | None
    endless: int | None
    pending: int | None


# Backends


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFailed(Event):
    """Tell that an operation on the shared cache failed."""

    operation: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRead(Event):
    """Tell that results were read from the durable store."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed(Event):
    """Tell that calls to the durable store failed, or did not end in time."""

    operation: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWritten(Event):
    """Tell that outcomes were written to the durable store."""

    count: int
