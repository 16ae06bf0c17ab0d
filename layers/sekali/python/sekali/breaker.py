"""Stop asking what does not answer, and notice within seconds that it answers again.

    closed   every call goes through; one that fails opens the breaker
    open     calls are refused at once, for a second
    probing  one call goes through; if it succeeds the breaker closes, else it opens again

    t=0.0   flush: no reply within its time-outs                 open
    t=0.1   flush: refused at once, nothing is waited for
    t=1.1   flush: the one probe; others are refused meanwhile   no reply: open again
    t=2.2   flush: the next probe                                answered: closed

An invocation also has a budget: the seconds that it may lose to calls that fail. Once they are
spent everything is refused until the next invocation, so that a server that hangs cannot take more
of a function's time than that, however often it is probed.

A container that was frozen finds the pause over by either clock, and probes with its first call.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from sekali.clock import age_seconds, now

if TYPE_CHECKING:
    from sekali.clock import Clock, Moment

OPEN_SECONDS: Final = 1.0
BUDGET_SECONDS: Final = 5.0
"""What an invocation may lose to failing calls where nobody set less."""


class Breaker:
    """Decide whether a call may be made. Safe for threads."""

    def __init__(self, clock: Clock, *, open_seconds: float = OPEN_SECONDS) -> None:
        """Start closed."""
        self._clock = clock
        self._open_seconds = open_seconds
        self._lock = threading.Lock()
        self._opened: Moment | None = None
        self._probing: Moment | None = None
        self._left_seconds = BUDGET_SECONDS
        self.closed: bool = True
        """Whether every call may be made, which is nearly always so and worth no call of ours."""

    def begin(self, budget_seconds: float) -> None:
        """Begin an invocation that may lose `budget_seconds` to calls that fail."""
        with self._lock:
            self._left_seconds = budget_seconds

    def allows(self) -> bool:
        """Tell whether a call may be made now; if it is the probe, its outcome must be told."""
        with self._lock:
            if self._opened is None:
                return True
            if self._left_seconds <= 0 or self._within(self._opened):
                return False
            # A probe that never told its outcome, because its thread died, does not block for ever.
            if self._probing is not None and self._within(self._probing):
                return False
            self._probing = now(self._clock)
            return True

    def succeeded(self) -> bool:
        """Close; True if it was open."""
        with self._lock:
            was_open = self._opened is not None
            self._opened = self._probing = None
            self.closed = True
            return was_open

    def failed(self, seconds: float) -> None:
        """Open, after a call that took `seconds` to fail."""
        with self._lock:
            self._opened, self._probing = now(self._clock), None
            self.closed = False
            self._left_seconds -= seconds

    def _within(self, since: Moment) -> bool:
        return age_seconds(since, self._clock) < self._open_seconds
