"""Ages are right when the container was frozen or the wall clock stepped."""

from __future__ import annotations

import time

import pytest

from sekali.clock import Moment, SystemClock, age_seconds, now
from sekali.testing import FrozenClock


def test_an_age_counts_the_time_spent_frozen() -> None:
    clock = FrozenClock()
    stored = now(clock)

    clock.advance(wall=600.0, monotonic=1.0)

    assert age_seconds(stored, clock) == 600.0


def test_an_age_does_not_shrink_when_the_wall_clock_is_set_back() -> None:
    clock = FrozenClock()
    stored = now(clock)

    clock.advance(wall=-3_600.0, monotonic=7.0)

    assert age_seconds(stored, clock) == 7.0


def test_an_age_is_never_negative() -> None:
    clock = FrozenClock(wall=100.0, monotonic=10.0)

    assert age_seconds(Moment(wall=200.0, monotonic=20.0), clock) == 0.0


def test_the_system_clock_reads_the_machine() -> None:
    before = time.monotonic(), time.time()
    moment = now(SystemClock())
    after = time.monotonic(), time.time()

    assert before[0] <= moment.monotonic <= after[0]
    assert before[1] <= moment.wall <= after[1]


def test_the_frozen_clock_refuses_to_turn_the_monotonic_clock_back() -> None:
    clock = FrozenClock()

    with pytest.raises(ValueError, match="monotonic must not be negative"):
        clock.advance(wall=0.0, monotonic=-1.0)
