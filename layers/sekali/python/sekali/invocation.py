"""Bound one invocation: its time, its owner's name, its claims and its heartbeat.

All times of an invocation are seconds on one line, `now()`, which is the monotonic clock plus
whatever the wall clock gained on it since the invocation began. A container that was frozen or
stopped in between therefore finds its leases expired, although its monotonic clock stood still:

    t=0     claim sent, lease of 12 s           expires at 12
    t=3     stopped; the monotonic clock stands still
    t=60    resumed: monotonic 3, wall 60       now() is 60: the lease is over

A wall clock stepped forward has the same effect, which costs a renewal and breaks nothing. One that
is stepped backward changes nothing.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sekali import clock as clocks
from sekali.heartbeat import KILL_SLOP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import Lease
    from sekali.claims import Claims
    from sekali.clock import Clock
    from sekali.heartbeat import Heartbeat


LAST_FLUSH_SECONDS = 0.5
"""Time kept free before the deadline, for the last flush and the last letters."""


class Timeline:
    """Tell seconds that never run slower than either clock."""

    def __init__(self, clock: Clock) -> None:
        """Start the line at this moment of `clock`."""
        self.clock = clock
        start = clocks.now(clock)
        self._apart = start.wall - start.monotonic
        self._gap = 0.0
        self._lock = threading.Lock()
        # Looked up once: a record asks for the time half a dozen times.
        self._wall, self._monotonic = clock.wall, clock.monotonic

    def now(self) -> float:
        """Return seconds on the line; the difference of two of them is an age."""
        wall, monotonic = self._wall(), self._monotonic()
        gained = wall - monotonic - self._apart
        if gained > self._gap:
            with self._lock:
                self._gap = max(self._gap, gained)
        return monotonic + self._gap


CURRENT: ContextVar[Invocation | None] = ContextVar("sekali_invocation", default=None)
"""The invocation whose time and heartbeat a lock taken in this context belongs to."""


class Invocation:
    """One call of the Lambda handler."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        remaining_seconds: float,
        claims: Claims,
        heartbeat: Heartbeat,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Fix the deadline: now plus `remaining_seconds`, where 0 is a number like any other."""
        self.claims = claims
        self.heartbeat = heartbeat
        self.pause = pause
        self.now: Callable[[], float] = timeline.now
        self._clock = timeline.clock
        self._began = timeline.now()
        self.deadline: float = self._began + remaining_seconds
        heartbeat.deadline = self.deadline

    def remaining_seconds(self) -> float:
        """Return the seconds left, negative after the deadline."""
        return self.deadline - self.now()

    def elapsed_seconds(self) -> float:
        """Return the seconds since the invocation began."""
        return self.now() - self._began

    def monotonic_deadline(self) -> float:
        """Return until when the table may be waited for, as a reading of the monotonic clock.

        It leaves time to tell the cache and the queue: `LAST_FLUSH_SECONDS`, or half of the time
        left where that is less.
        """
        left = self.remaining_seconds()
        return self._clock.monotonic() + left - min(LAST_FLUSH_SECONDS, max(left, 0.0) / 2)

    def bounded_lease_seconds(self, lease_seconds: float) -> float:
        """Cut a lease so that it ends soon after the function would be killed.

        Without a heartbeat to renew it, a lease is as long as that from the start.
        """
        longest = max(self.remaining_seconds() + KILL_SLOP_SECONDS, 0.001)
        return min(lease_seconds, longest) if self.heartbeat.enabled else longest

    def holds(self, lease: Lease) -> bool:
        """Tell whether `lease` is ours by our own clock, counted from before it was asked for."""
        return not lease.lost and self.now() < lease.expires_at
