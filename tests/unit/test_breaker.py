"""The breaker refuses at once, probes once, and spends no more than the budget."""

from __future__ import annotations

from sekali.breaker import OPEN_SECONDS, Breaker
from sekali.testing import FrozenClock


def pass_time(clock: FrozenClock, seconds: float) -> None:
    clock.advance(wall=seconds, monotonic=seconds)


def opened(clock: FrozenClock) -> Breaker:
    breaker = Breaker(clock)
    breaker.begin(5.0)
    breaker.failed(0.5)
    return breaker


def test_closed_breaker_lets_everything_through() -> None:
    breaker = Breaker(FrozenClock())

    assert [breaker.allows(), breaker.allows()] == [True, True]


def test_failure_refuses_calls_until_the_pause_is_over() -> None:
    clock = FrozenClock()
    breaker = opened(clock)

    assert not breaker.allows()
    pass_time(clock, OPEN_SECONDS)
    assert breaker.allows()


def test_one_probe_is_let_through_at_a_time() -> None:
    clock = FrozenClock()
    breaker = opened(clock)
    pass_time(clock, OPEN_SECONDS)

    assert [breaker.allows() for _ in range(3)] == [True, False, False]


def test_successful_probe_closes() -> None:
    clock = FrozenClock()
    breaker = opened(clock)
    pass_time(clock, OPEN_SECONDS)
    breaker.allows()

    assert breaker.succeeded()
    assert [breaker.allows(), breaker.allows()] == [True, True]
    assert not breaker.succeeded()


def test_failed_probe_opens_again() -> None:
    clock = FrozenClock()
    breaker = opened(clock)
    pass_time(clock, OPEN_SECONDS)
    breaker.allows()
    breaker.failed(0.5)

    assert not breaker.allows()


def test_probe_whose_outcome_was_never_told_does_not_block_for_ever() -> None:
    clock = FrozenClock()
    breaker = opened(clock)
    pass_time(clock, OPEN_SECONDS)
    breaker.allows()
    pass_time(clock, OPEN_SECONDS)

    assert breaker.allows()


def test_spent_budget_refuses_probes_until_the_next_invocation() -> None:
    clock = FrozenClock()
    breaker = Breaker(clock)
    breaker.begin(1.0)
    breaker.failed(1.5)
    pass_time(clock, 10 * OPEN_SECONDS)

    assert not breaker.allows()
    breaker.begin(1.0)
    assert breaker.allows()


def test_frozen_container_probes_with_its_first_call() -> None:
    clock = FrozenClock()
    breaker = opened(clock)
    clock.advance(wall=600, monotonic=0.01)

    assert breaker.allows()
