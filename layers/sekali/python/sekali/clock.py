"""Tell the time in an environment that is frozen, restored and stepped.

A Lambda container stops between invocations. Its monotonic clock may stand still meanwhile, and
its wall clock may step, forwards or backwards, when it is corrected. Neither alone tells how old a
value is, so an age here is the greater of the two differences:

    t=0    stored at wall 1000, monotonic 50
    t=1    frozen
    t=601  thawed: wall 1601, monotonic 51     age 601, although the monotonic clock says 1
    t=602  wall clock stepped back to 1002     age 2 by either clock: not detected here

No arithmetic on two moments can see the last line. Whoever keeps values for long therefore watches
the difference between the clocks and drops the values when it shrinks (see `local`).

This module decides every TTL and every lease of the library; nothing else reads a clock.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Be asked for the time by whoever needs it."""

    def wall(self) -> float:
        """Return Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed start, never going backwards."""
        ...


jitter = random.SystemRandom().uniform
"""Draw from a range. The system's own randomness has no state that a snapshot or a fork would
clone, so that a thousand restored containers do not all wait for the same time."""


class SystemClock:
    """Read the clocks of this machine.

    The two are the plain functions of `time`, not methods around them, because a local cache hit
    reads both and a Python call would cost more than the rest of it.
    """

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class Moment(NamedTuple):
    """Remember both clocks at one instant."""

    wall: float
    monotonic: float


def now(clock: Clock) -> Moment:
    """Return the present moment of `clock`."""
    return Moment(clock.wall(), clock.monotonic())


def seconds_between(earlier: Moment, later: Moment) -> float:
    """Return the greater of the two clocks' differences, never below zero."""
    return max(later.wall - earlier.wall, later.monotonic - earlier.monotonic, 0.0)


def age_seconds(since: Moment, clock: Clock) -> float:
    """Return the greater of the two clocks' differences since `since`, never below zero."""
    return seconds_between(since, now(clock))
