"""The local cache is bounded, ages by two clocks and aliases nothing."""

from __future__ import annotations

import sys
import threading
from enum import IntEnum
from typing import Any

import pytest

from sekali import codec
from sekali.clock import now
from sekali.entries import MISSING
from sekali.invalidation import new_mark
from sekali.local import Local
from sekali.telemetry.events import Event, LocalFlushed
from sekali.testing import FrozenClock


def new_local(clock: FrozenClock | None = None, **bounds: Any) -> Local:  # Any: arguments of Local
    settings = {"max_entries": 100, "max_bytes": 1_000_000, **bounds}
    return Local(clock=clock or FrozenClock(), **settings)


@pytest.mark.parametrize(
    "value",
    [None, False, 0, 0.0, "", b"", (), "text", b"raw", 7, (1, ("two", None)), frozenset({1})],
)
def test_an_immutable_value_is_handed_out_as_it_is(value: object) -> None:
    local = new_local()

    kept = local.put("k", value, ttl_seconds=60)

    assert kept
    assert local.get("k") is value


def test_a_key_that_was_never_put_is_missing() -> None:
    assert new_local().get("k") is MISSING


def test_a_change_to_a_value_reaches_nobody_else() -> None:
    local = new_local()
    given = {"rows": [1, 2]}
    local.put("k", given, ttl_seconds=60)

    given["rows"].append(3)
    first = local.get("k")
    assert isinstance(first, dict)
    first["rows"].append(4)

    assert local.get("k") == {"rows": [1, 2]}


@pytest.mark.parametrize("value", [([],), ({},), [1], {"a": (1,)}])
def test_a_tuple_with_something_mutable_inside_is_copied(value: object) -> None:
    local = new_local()
    local.put("k", value, ttl_seconds=60)

    assert local.get("k") is not local.get("k")


def test_an_instance_of_a_subclass_is_not_taken_for_immutable() -> None:
    class Grade(IntEnum):
        BEST = 1

    local = new_local()
    local.put("k", Grade.BEST, ttl_seconds=60)

    assert type(local.get("k")) is int


@pytest.mark.parametrize("value", [None, True, 7, "text", (1, 2), [1, (2,)], {"a": ()}])
def test_with_its_encoding_a_value_has_the_types_that_the_shared_tier_returns(
    value: object,
) -> None:
    local = new_local()
    body = codec.encode(value)

    local.put("k", value, encoded=body, ttl_seconds=60)

    found = local.get("k")
    assert (found, type(found)) == (codec.decode(body), type(codec.decode(body)))


def test_a_value_is_a_miss_from_the_end_of_its_ttl_on() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    local.put("k", "v", ttl_seconds=60)

    clock.sleep(59.5)
    before = local.get("k")
    clock.sleep(0.5)

    assert before == "v"
    assert local.get("k") is MISSING
    assert local.stats().entries == 0


def test_a_value_ages_while_its_container_is_frozen() -> None:
    """TTLs by the monotonic clock alone: values stayed for as long as the container slept."""
    clock = FrozenClock()
    local = new_local(clock)
    local.put("k", "v", ttl_seconds=60)

    clock.advance(wall=61.0, monotonic=0.0)

    assert local.get("k") is MISSING


def test_a_value_ages_while_the_wall_clock_stands() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    local.put("k", "v", ttl_seconds=60)

    clock.advance(wall=0.0, monotonic=61.0)

    assert local.get("k") is MISSING


def test_a_clock_that_was_set_back_drops_everything_and_says_so() -> None:
    clock = FrozenClock()
    told: list[Event] = []
    local = new_local(clock, on_event=told.append)
    local.put("a", "v", ttl_seconds=3_600)
    local.put("b", "v", ttl_seconds=3_600)

    clock.advance(wall=-600.0, monotonic=0.0)
    found = local.get("a")
    clock.advance(wall=3_590.0, monotonic=0.0)

    assert found is MISSING
    assert local.get("b") is MISSING
    assert told == [LocalFlushed(cause="clock", entries=2)]


def test_a_clock_that_was_set_back_by_less_than_a_sleep_before_is_noticed_too() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    local.put("k", "v", ttl_seconds=3_600)

    clock.advance(wall=600.0, monotonic=0.0)
    after_sleep = local.get("k")
    clock.advance(wall=-300.0, monotonic=0.0)

    assert after_sleep == "v"
    assert local.get("k") is MISSING


def test_the_jitter_between_two_readings_is_no_step() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    local.put("k", "v", ttl_seconds=60)

    clock.advance(wall=-0.01, monotonic=0.01)

    assert local.get("k") == "v"


def test_a_value_is_as_old_as_the_request_that_brought_it() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    sent = now(clock)
    clock.advance(wall=50.0, monotonic=0.0)

    local.put("k", "v", ttl_seconds=60, since=sent)
    clock.sleep(10.0)

    assert local.get("k") is MISSING


def test_a_value_is_not_kept_if_the_clock_was_set_back_since_its_request() -> None:
    clock = FrozenClock()
    local = new_local(clock)
    sent = now(clock)
    clock.advance(wall=-50.0, monotonic=1.0)

    kept = local.put("k", "v", ttl_seconds=60, since=sent)

    assert not kept
    assert local.get("k") is MISSING


def test_a_ttl_of_zero_stores_nothing_and_drops_what_was_there() -> None:
    local = new_local()
    local.put("k", "old", ttl_seconds=60)

    kept = local.put("k", "new", ttl_seconds=0)

    assert not kept
    assert local.get("k") is MISSING


@pytest.mark.parametrize("ttl_seconds", [-1, -0.001, float("nan"), float("inf")])
def test_a_ttl_that_bounds_nothing_is_refused(ttl_seconds: float) -> None:
    local = new_local()

    with pytest.raises(ValueError, match="ttl_seconds must be finite and not negative"):
        local.put("k", "v", ttl_seconds=ttl_seconds)


def test_a_value_that_is_not_json_is_not_kept_and_what_was_there_goes() -> None:
    local = new_local()
    local.put("k", "old", ttl_seconds=60)

    kept = local.put("k", [object()], ttl_seconds=60)

    assert not kept
    assert local.get("k") is MISSING


def test_a_value_of_an_older_fence_does_not_replace_a_newer_one() -> None:
    local = new_local()
    local.put("k", "newer", ttl_seconds=60, fence=2)

    kept = local.put("k", "older", ttl_seconds=60, fence=1)

    assert not kept
    assert local.get("k") == "newer"


def test_the_number_of_entries_is_bounded() -> None:
    local = new_local(max_entries=3)

    for number in range(5):
        local.put(f"k{number}", number, ttl_seconds=60)

    assert [local.get(f"k{number}") for number in range(5)] == [MISSING, MISSING, 2, 3, 4]
    assert (local.stats().entries, local.stats().evictions) == (3, 2)


def test_what_was_used_gets_a_second_chance() -> None:
    local = new_local(max_entries=3)
    for name in "abc":
        local.put(name, name, ttl_seconds=60)

    local.get("a")
    local.put("d", "d", ttl_seconds=60)

    assert local.get("a") == "a"
    assert local.get("b") is MISSING


def test_room_is_made_even_if_everything_was_used() -> None:
    local = new_local(max_entries=3)
    for name in "abc":
        local.put(name, name, ttl_seconds=60)
        local.get(name)

    local.put("d", "d", ttl_seconds=60)

    assert local.get("d") == "d"
    assert local.stats().entries == 3


def test_bytes_are_bounded_and_given_back() -> None:
    local = new_local(max_bytes=20_000)

    for number in range(10):
        local.put(f"k{number}", "x" * 5_000, ttl_seconds=60)
    full = local.stats()
    for number in range(10):
        local.drop(f"k{number}")

    assert full.entries == 3
    assert full.bytes <= 20_000
    assert (local.stats().entries, local.stats().bytes) == (0, 0)


def test_a_value_larger_than_the_cache_is_not_kept_and_evicts_nothing_else() -> None:
    local = new_local(max_bytes=20_000)
    local.put("other", "v", ttl_seconds=60)
    local.put("k", "old", ttl_seconds=60)

    kept = local.put("k", "x" * 20_000, ttl_seconds=60)

    assert not kept
    assert local.get("k") is MISSING
    assert local.get("other") == "v"


@pytest.mark.parametrize("bounds", [{"max_entries": 0}, {"max_bytes": 0}])
def test_a_bound_of_zero_switches_it_off(bounds: Any) -> None:  # Any: as in new_local
    local = new_local(**bounds)

    assert not local.put("k", "v", ttl_seconds=60)
    assert local.get("k") is MISSING


@pytest.mark.parametrize("tags", [0, 1, 5])
def test_the_counted_bytes_are_close_to_the_real_ones(tags: int) -> None:
    import tracemalloc

    local = new_local(max_entries=10_000, max_bytes=2**30)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(2_000):
        local.put(
            f"flights/{number}",
            {"carrier": f"carrier {number}"},
            ttl_seconds=60,
            epochs={f"month:{number}:{tag}": new_mark() for tag in range(tags)},
        )
    real = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert 0.8 < local.stats().bytes / real < 1.25


def test_dropping_tells_whether_something_was_there() -> None:
    local = new_local()
    local.put("k", "v", ttl_seconds=60)

    assert (local.drop("k"), local.drop("k")) == (True, False)
    assert local.get("k") is MISSING


def test_an_invalidated_tag_drops_the_values_from_before_it() -> None:
    local = new_local()
    local.put("old", 1, ttl_seconds=60, epochs={"flights": "m1"})
    local.put("new", 2, ttl_seconds=60, epochs={"flights": "m2", "carriers": "m1"})
    local.put("other", 3, ttl_seconds=60, epochs={"carriers": "m1"})
    local.put("plain", 4, ttl_seconds=60)

    dropped = local.drop_tag("flights", mark="m2")

    assert dropped == 1
    assert [local.get(key) for key in ("old", "new", "other", "plain")] == [MISSING, 2, 3, 4]


def test_an_invalidated_tag_drops_every_value_where_its_mark_is_not_known() -> None:
    local = new_local()
    local.put("a", 1, ttl_seconds=60, epochs={"flights": "m1"})
    local.put("b", 2, ttl_seconds=60, epochs={"flights": "m2"})

    assert local.drop_tag("flights") == 2
    assert local.drop_tag("flights") == 0


def test_a_replaced_or_evicted_value_leaves_no_tag_behind() -> None:
    local = new_local(max_entries=1)
    local.put("a", 1, ttl_seconds=60, epochs={"flights": "m1"})
    local.put("a", 2, ttl_seconds=60)
    local.put("b", 3, ttl_seconds=60, epochs={"flights": "m1"})
    local.put("c", 4, ttl_seconds=60)

    assert local.drop_tag("flights") == 0
    assert local.get("c") == 4


def test_a_flush_forgets_everything_and_tells_the_cause() -> None:
    told: list[Event] = []
    local = new_local(on_event=told.append)
    local.put("k", "v", ttl_seconds=60, epochs={"flights": "m1"})

    entries = local.flush("log")

    assert entries == 1
    assert local.get("k") is MISSING
    assert (local.stats().entries, local.stats().bytes) == (0, 0)
    assert told == [LocalFlushed(cause="log", entries=1)]


def test_a_hook_may_use_the_cache_that_tells_it() -> None:
    local: Local | None = None

    def refill(_: Event) -> None:
        assert local is not None
        local.put("k", "again", ttl_seconds=60)

    local = new_local(on_event=refill)
    local.put("k", "v", ttl_seconds=60)

    local.flush("log")

    assert local.get("k") == "again"


def test_threads_that_race_leave_it_whole() -> None:
    """One thread's put, drop or eviction at any instant of another one's read."""
    local = new_local(max_entries=8, max_bytes=4_000)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for turn in range(1_500):
            key = f"k{(seed * 7 + turn * 5) % 13}"
            if turn % 3 == 0:
                local.put(key, {"of": key}, ttl_seconds=60, epochs={"t": "m"})
            found = local.get(key)
            if found is not MISSING and found != {"of": key}:
                wrong.append(found)
            if turn % 11 == 0:
                local.drop(key)
            if turn % 97 == 0:
                local.drop_tag("t")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    finally:
        sys.setswitchinterval(interval)

    assert wrong == []
    assert local.stats().entries <= 8
    local.drop_tag("t")
    assert (local.stats().entries, local.stats().bytes) == (0, 0)
