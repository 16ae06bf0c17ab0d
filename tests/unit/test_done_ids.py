"""Ids that are done are known for their time, by both clocks, and the oldest make room."""

from __future__ import annotations

import tracemalloc

import pytest

from sekali.done_ids import DoneIds
from sekali.testing import FrozenClock

TTL_SECONDS = 3_600.0


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


def made(clock: FrozenClock, *, max_entries: int = 100, max_bytes: int = 100_000) -> DoneIds:
    return DoneIds(
        max_entries=max_entries, max_bytes=max_bytes, ttl_seconds=TTL_SECONDS, clock=clock
    )


def hashes(done: DoneIds) -> dict[str, str]:
    return {scoped_id: noted.payload_hash for scoped_id, noted in done.known().items()}


def test_what_was_noted_is_known_with_its_payload_hash(clock: FrozenClock) -> None:
    done = made(clock)

    done.note([("square/1", "a"), ("square/2", "b")])

    assert hashes(done) == {"square/1": "a", "square/2": "b"}


@pytest.mark.parametrize("passes", ["sleep", "freeze"])
def test_id_is_known_until_its_time_is_over_by_either_clock(
    clock: FrozenClock, passes: str
) -> None:
    done = made(clock)
    done.note([("square/1", "a")])
    getattr(clock, passes)(TTL_SECONDS - 1)
    done.note([("square/2", "b")])

    before = hashes(done)
    getattr(clock, passes)(1)
    after = hashes(done)

    assert (list(before), list(after)) == (["square/1", "square/2"], ["square/2"])


def test_id_that_is_noted_again_begins_anew(clock: FrozenClock) -> None:
    done = made(clock)
    done.note([("square/1", "a"), ("square/2", "b")])
    clock.sleep(TTL_SECONDS - 1)

    done.note([("square/1", "c")])
    clock.sleep(1)

    assert hashes(done) == {"square/1": "c"}


def test_nothing_is_known_after_the_clock_was_set_back(clock: FrozenClock) -> None:
    done = made(clock)
    done.note([("square/1", "a")])

    clock.step(-10)

    assert hashes(done) == {}
    done.note([("square/2", "b")])
    assert hashes(done) == {"square/2": "b"}


@pytest.mark.parametrize("bounds", [{"max_entries": 2}, {"max_bytes": 900}])
def test_what_came_first_makes_room(clock: FrozenClock, bounds: dict[str, int]) -> None:
    done = made(clock, **bounds)

    for n in range(5):
        done.note([(f"square/{n}", "a")])

    assert list(hashes(done)) == ["square/3", "square/4"]


def test_ids_make_room_by_the_memory_that_their_text_takes(clock: FrozenClock) -> None:
    done = made(clock, max_bytes=10_000)

    for n in range(8):
        done.note([(f"square/{n}" + "\N{PACKAGE}" * 500, "a")])

    assert len(hashes(done)) == 4


@pytest.mark.parametrize("batch", [1, 10])
def test_the_counted_bytes_are_close_to_the_real_ones(clock: FrozenClock, batch: int) -> None:
    bound = 500_000
    done = made(clock, max_entries=10_000, max_bytes=bound)

    tracemalloc.start()
    try:
        for first in range(0, 5_000, batch):
            done.note([(f"square/{n}", f"{n:064}") for n in range(first, first + batch)])
            clock.sleep(0.001)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(done.known()) < 5_000
    assert 0.8 < bound / taken < 1.25
