"""Numbers of a queue that would lose messages cannot be put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.queue_numbers import QueueNumbers, QueueRuleBroken

GOOD = QueueNumbers(
    timeout_seconds=30,
    batch_size=10,
    batching_window_seconds=0,
    max_concurrency=10,
    reserved_concurrency=None,
    retention_seconds=345_600,
    record_ttl_seconds=1_296_000,
    lease_seconds=12,
    max_attempts=3,
)

POLLERS = {"max_concurrency": 0, "min_pollers": 2, "max_pollers": 5}


@pytest.mark.parametrize(
    ("changes", "rule", "use"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be between 1 and 900", 1),
        ({"timeout_seconds": 901}, "timeout_seconds must be between 1 and 900", 900),
        ({"lease_seconds": 901}, "lease_seconds must be between 1 and 900", 900),
        ({"max_attempts": 0}, "max_attempts must be between 1 and 100", 1),
        ({"batch_size": 10_001}, "batch_size must be between 1 and 10000", 10_000),
        ({"batch_size": 11, "fifo": True}, "batch_size must be between 1 and 10", 10),
        ({"batch_size": 11}, "batching_window_seconds must be at least 1", 1),
        (
            {"batching_window_seconds": 301},
            "batching_window_seconds must be between 0 and 300",
            300,
        ),
        (
            {"batching_window_seconds": 1, "fifo": True},
            "batching_window_seconds must be between 0 and 0",
            0,
        ),
        ({"max_concurrency": 1}, "max_concurrency must be between 2 and 1000", 2),
        ({"max_concurrency": 1001}, "max_concurrency must be between 2 and 1000", 1000),
        ({"reserved_concurrency": 9}, "reserved_concurrency must be at least max_concurrency", 10),
        ({"min_pollers": 2, "max_pollers": 5}, "max_concurrency must be 0 where max_pollers", 0),
        ({**POLLERS, "min_pollers": 1}, "min_pollers must be between 2 and 200", 2),
        ({**POLLERS, "min_pollers": 201}, "min_pollers must be between 2 and 200", 200),
        ({**POLLERS, "min_pollers": 6}, "max_pollers must be between 6 and 2000", 6),
        ({**POLLERS, "max_pollers": 2001}, "max_pollers must be between 2 and 2000", 2000),
        (
            {**POLLERS, "reserved_concurrency": 49},
            "reserved_concurrency must be at least ten times max_pollers",
            50,
        ),
        ({"retention_seconds": 1_209_600}, "retention_seconds must be between 60 and", 1_209_599),
        (
            {"retention_seconds": 180},
            "retention_seconds must be above the visibility timeout",
            345_600,
        ),
        (
            {"record_ttl_seconds": 345_599},
            "record_ttl_seconds must be at least retention_seconds",
            345_600,
        ),
        ({"max_receive_count": 7}, "max_receive_count must be between 8 and 1000", 8),
        (
            {"max_receive_count": 49, "fifo": True},
            "max_receive_count must be between 50 and 1000",
            50,
        ),
        ({"max_receive_count": 1001}, "max_receive_count must be between 8 and 1000", 1000),
    ],
)
def test_a_wrong_number_is_refused_with_the_rule_and_the_number_to_use(
    changes: dict[str, Any],  # A value of the field's type.
    rule: str,
    use: int,
) -> None:
    with pytest.raises(QueueRuleBroken) as broken:
        replace(GOOD, **changes)

    assert broken.value.rule.startswith(rule)
    assert broken.value.use == use
    assert str(broken.value).endswith(f"got {broken.value.value!r}, use {use!r}")


def test_the_visibility_is_six_timeouts_and_the_window() -> None:
    numbers = replace(GOOD, timeout_seconds=10, batching_window_seconds=5)

    assert numbers.visibility_seconds == 65


def test_the_receive_count_leaves_room_for_attempts_and_for_what_neighbours_cost() -> None:
    assert GOOD.receives == 8
    assert replace(GOOD, max_attempts=50).receives == 55
    assert replace(GOOD, max_receive_count=100).receives == 100


def test_on_fifo_a_holder_of_the_longest_kind_can_be_waited_for_second_by_second() -> None:
    numbers = replace(GOOD, fifo=True, timeout_seconds=900, lease_seconds=12)

    assert numbers.receives == 5 + 3 + 900 + 12


def test_the_number_to_use_is_accepted() -> None:
    with pytest.raises(QueueRuleBroken) as broken:
        replace(GOOD, batch_size=500)

    assert replace(GOOD, batch_size=500, batching_window_seconds=broken.value.use).batch_size == 500


@st.composite
def plausible(draw: st.DrawFn) -> dict[str, int | bool | None]:
    """Numbers of which about every second set is right: each is in range, or just beyond it."""
    timeout_seconds = draw(st.integers(0, 901))
    attempts = draw(st.integers(1, 100))
    concurrency = draw(st.integers(1, 1001))
    return {
        "timeout_seconds": timeout_seconds,
        "batch_size": draw(st.sampled_from([1, 10, 11, 500, 10_000])),
        "batching_window_seconds": draw(st.sampled_from([0, 1, 300])),
        "max_concurrency": concurrency,
        "reserved_concurrency": draw(st.none() | st.integers(concurrency - 1, concurrency + 1)),
        "retention_seconds": draw(st.integers(6 * timeout_seconds, 1_209_600)),
        "record_ttl_seconds": 1_209_600,
        "lease_seconds": draw(st.integers(1, 900)),
        "max_attempts": attempts,
        "fifo": draw(st.booleans()),
        **draw(
            st.sampled_from([{}, {}, {"min_pollers": 2, "max_pollers": 3, "max_concurrency": 0}])
        ),
        "max_receive_count": draw(st.none() | st.integers(attempts, 1001)),
    }


def test_any_numbers_are_refused_or_keep_every_rule_of_the_event_source_mapping() -> None:
    answers = {"accepted": 0, "refused": 0}

    @given(numbers=plausible())
    def check(numbers: dict[str, Any]) -> None:  # Any: a value of the field's type.
        try:
            checked = QueueNumbers(**numbers)
        except QueueRuleBroken:
            answers["refused"] += 1
            return
        answers["accepted"] += 1
        visibility = checked.visibility_seconds
        assert visibility == 6 * checked.timeout_seconds + checked.batching_window_seconds
        assert visibility < checked.retention_seconds < 1_209_600
        assert checked.retention_seconds <= checked.record_ttl_seconds
        assert checked.batch_size <= 10 or checked.batching_window_seconds >= 1
        assert not (checked.fifo and (checked.batching_window_seconds or checked.batch_size > 10))
        assert checked.provisioned != bool(checked.max_concurrency)
        assert checked.provisioned or 2 <= checked.max_concurrency <= 1000
        most = 10 * checked.max_pollers + checked.max_concurrency
        assert most == checked.most_invocations <= (checked.reserved_concurrency or most)
        assert 5 + checked.max_attempts <= checked.receives <= 1000

    check()

    assert min(answers.values()) >= 10, answers
