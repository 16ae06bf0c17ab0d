"""What was invalidated is not served, however it was missed, and never stored by a late load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from sekali import invalidation
from sekali.lifetimes import Loaded
from sekali.telemetry import events
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from redis import Redis


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


def filled(fleet: Fleet, value: object = "old", **options: Any) -> Box:  # Any: as in look_up
    """Return a container that holds k."""
    box = fleet.box()
    box.invoke().get_or_load("k", loader(value), **options)
    box.invoke().get_or_load("k", loader(value), **options)
    assert box.container.local.look("~/k") is not None
    return box


def flushes_of(box: Box) -> list[str]:
    return [one.cause for one in box.told(events.LocalFlushed)]


def test_ten_thousand_invalidations_missed_while_frozen_cost_one_round_trip(fleet: Fleet) -> None:
    box, other = filled(fleet, ttl_seconds=3_600), fleet.box()
    box.invoke().get_or_load("stays", loader("v"), ttl_seconds=3_600)
    cache = other.invoke()
    for start in range(0, 10_000, 1_000):
        cache.invalidate([f"x{number}" for number in range(start, start + 999)])
    cache.invalidate(["k"])
    box.clock.freeze(600)
    before = box.flushes

    began = time.perf_counter()
    assert box.invoke().get("unknown") is None
    took = time.perf_counter() - began

    assert box.flushes - before == 1
    assert box.container.local.look("~/k") is None
    assert box.container.local.look("~/stays") is not None
    assert flushes_of(box) == ["log_opened"]
    assert took < 30


def test_more_than_the_log_keeps_empties_the_local_tier(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invalidation, "MOST_MISSED_ENTRIES", 10)
    box = filled(fleet)
    fleet.box().invoke().invalidate([f"x{number}" for number in range(11)])

    box.invoke().get("unknown")

    assert box.container.local.look("~/k") is None
    assert flushes_of(box) == ["log_opened", "log_gap"]


def test_trimmed_log_empties_the_local_tier(fleet: Fleet, valkey: Redis) -> None:
    box = filled(fleet)
    fleet.box().invoke().invalidate(["x"])
    valkey.xtrim("sekali:log", maxlen=1, approximate=False)

    box.invoke().get("unknown")

    assert flushes_of(box) == ["log_opened", "log_gap"]


def test_flushed_server_serves_nothing_from_before(fleet: Fleet, valkey: Redis) -> None:
    box = filled(fleet, tags=["t"])
    valkey.flushall()
    fleet.box().invoke().get_or_load("k", loader("new"), tags=["t"])

    assert box.invoke().get_or_load("k", loader("newer"), tags=["t"]) == "new"
    assert flushes_of(box)[-1] == "log_gap"


def test_log_that_counts_anew_is_not_taken_for_the_old_one(fleet: Fleet, valkey: Redis) -> None:
    """Plain numbers showed no gap: a new log had reached the same count."""
    box = filled(fleet)
    newest: Any = valkey.xrevrange("sekali:log", count=1)  # Any: the stub's many shapes
    valkey.delete("sekali:log")
    valkey.xadd("sekali:log", {"k": "k", "name": "~/x", "mark": "0" * 16}, id=newest[0][0])

    box.invoke().get("unknown")

    assert flushes_of(box)[-1] == "log_gap"


@pytest.mark.parametrize("what", ["key", "named tag", "chosen tag"])
def test_invalidation_during_a_load_refuses_that_fill_in_both_tiers(
    fleet: Fleet, what: str
) -> None:
    here, other = fleet.box(), fleet.box()
    tags = ["t"] if what == "named tag" else []
    # So that the mark of the tag is known here, and not made up at the end of the load.
    here.invoke().get_or_load("warm", loader(1), tags=["t"])

    def invalidate() -> None:
        if what == "key":
            other.invoke().invalidate(["k"])
        else:
            other.invoke().invalidate(tags=["t"])

    value = Loaded("old", tags=["t"]) if what == "chosen tag" else "old"
    found = here.invoke().get_or_load("k", loader(value, during=invalidate), tags=tags)

    assert found == "old"
    assert here.container.local.look("~/k") is None
    assert here.invoke().get_or_load("k", loader("new"), tags=tags) == "new"
    assert fleet.box().invoke().get_or_load("k", loader("newer"), tags=tags) == "new"


def test_invalidation_by_this_container_during_its_own_load_counts_too(fleet: Fleet) -> None:
    box = fleet.box()
    cache = box.invoke()

    cache.get_or_load("k", loader("old", during=lambda: cache.invalidate(["k"])))

    assert cache.get_or_load("k", loader("new")) == "new"


def test_invalidation_during_the_load_of_many_refuses_its_fills(fleet: Fleet) -> None:
    here, other = fleet.box(), fleet.box()

    def load(keys: list[str]) -> dict[str, str]:
        other.invoke().invalidate(["b"], tags=["t"])
        return dict.fromkeys(keys, "old")

    here.invoke().get_or_load_many(["a", "b"], load)
    tagged = here.invoke().get_or_load_many(["c"], load, tags=["t"])

    assert tagged == {"c": "old"}
    assert here.invoke().get_many(["a", "b"]) == {"a": "old"}
    assert here.invoke().get_or_load("c", loader("new"), tags=["t"]) == "new"


@pytest.mark.parametrize("refresh", ["now", "end"])
def test_invalidation_during_a_refresh_refuses_its_fill(fleet: Fleet, refresh: Any) -> None:
    here, other = fleet.box(), fleet.box()
    soft: dict[str, Any] = {"soft_ttl_seconds": 10, "refresh": refresh}  # Any: keywords
    here.invoke().get_or_load("k", loader("old"), **soft)
    here.clock.sleep(11)
    cache = here.invoke()

    load = loader("refreshed", during=lambda: other.invoke().invalidate(["k"]))
    cache.get_or_load("k", load, **soft)
    cache.end()

    assert load.calls == 1
    assert here.invoke().get_or_load("k", loader("new"), **soft) == "new"


def test_two_containers_load_one_key_while_its_tag_falls(fleet: Fleet) -> None:
    first, second, other = fleet.box(), fleet.box(), fleet.box()
    found: list[object] = []

    def fall_and_load() -> None:
        other.invoke().invalidate(tags=["t"])
        found.append(second.invoke().get_or_load("k", loader("new"), tags=["t"], wait_seconds=0))

    found.append(first.invoke().get_or_load("k", loader("old", during=fall_and_load), tags=["t"]))

    assert found == ["new", "old"]
    for box in (first, second, fleet.box()):
        assert box.invoke().get_or_load("k", loader("newest"), tags=["t"]) == "newest" or (
            box is not first
        )
    assert fleet.box().invoke().get_or_load("k", loader("x"), tags=["t"]) == "newest"


def test_lease_that_ends_during_the_load_costs_the_fill_and_not_the_value(
    fleet: Fleet, valkey: Redis
) -> None:
    here, other = fleet.box(), fleet.box()
    taken: list[object] = []

    def expire_and_take() -> None:
        for key in valkey.keys("*lease*"):
            valkey.delete(key)
        taken.append(other.invoke().get_or_load("k", loader("newer")))

    found = here.invoke().get_or_load("k", loader("late", during=expire_and_take))

    assert (found, taken) == ("late", ["newer"])
    assert here.invoke().get_or_load("k", loader("x")) == "newer"
    assert [one.reason for one in here.told(events.FillRefused)] == ["superseded"]


def test_lease_that_ends_and_is_taken_by_nobody_still_fills(fleet: Fleet, valkey: Redis) -> None:
    def expire() -> None:
        for key in valkey.keys("*lease*"):
            valkey.delete(key)

    fleet.box().invoke().get_or_load("k", loader("late", during=expire))

    assert fleet.box().invoke().get("k") == "late"


def test_tag_chosen_by_the_loader_is_stored_by_the_first_load_of_all(fleet: Fleet) -> None:
    fleet.box().invoke().get_or_load("k", loader(Loaded("v", tags=["never seen"])))

    assert fleet.box().invoke().get("k") == "v"


def test_tag_chosen_by_a_loader_whose_mark_was_not_known_before_is_stored_next_time(
    fleet: Fleet,
) -> None:
    fleet.box().invoke().get_or_load("other", loader(1), tags=["t"])
    box = fleet.box()

    first = box.invoke().get_or_load("k", loader(Loaded("a", tags=["t"])))
    second = box.invoke().get_or_load("k", loader(Loaded("b", tags=["t"])))
    third = fleet.box().invoke().get_or_load("k", loader("c"))

    assert [first, second, third] == ["a", "b", "b"]
    assert [one.reason for one in box.told(events.FillRefused)] == ["tag_unknown"]


def leave_alone(valkey: Redis, tag: str, seconds: float) -> None:
    """Let a mark look as if nobody had set or read it for so long."""
    key = f"sekali:epoch:{tag}"
    left = valkey.pttl(key)
    assert isinstance(left, int)
    assert valkey.pexpire(key, left - int(seconds * 1000))


def test_tag_chosen_by_a_loader_is_stored_if_nobody_touched_its_mark_since(
    fleet: Fleet, valkey: Redis
) -> None:
    """Each container returned its first value of such a tag and stored none."""
    fleet.box().invoke().get_or_load("other", loader(1), tags=["t"])
    leave_alone(valkey, "t", 60)

    box = fleet.box()
    assert box.invoke().get_or_load("k", loader(Loaded("a", tags=["t"]))) == "a"
    many: Any = box.invoke().get_or_load_many(["m"], lambda _: {"m": Loaded("b", tags=["t"])})

    assert many == {"m": "b"}
    assert fleet.box().invoke().get_many(["k", "m"]) == {"k": "a", "m": "b"}
    assert box.told(events.FillRefused) == []
    fleet.box().invoke().invalidate(tags=["t"])
    assert fleet.box().invoke().get_many(["k", "m"]) == {}


@pytest.mark.parametrize("seconds", [0, 60, 600])
def test_tag_chosen_by_a_loader_during_whose_load_it_fell_is_not_stored(
    fleet: Fleet, valkey: Redis, seconds: int
) -> None:
    fleet.box().invoke().get_or_load("other", loader(1), tags=["t"])
    leave_alone(valkey, "t", 3_600)
    box = fleet.box()

    def load() -> Loaded[str]:
        fleet.box().invoke().invalidate(tags=["t"])
        leave_alone(valkey, "t", seconds)  # the load goes on for so long
        box.clock.sleep(seconds)
        return Loaded("old", tags=["t"])

    found: Any = box.invoke(900).get_or_load("k", load)  # Any: what was loaded, not Loaded

    assert found == "old"
    assert fleet.box().invoke().get("k") is None
    assert [one.reason for one in box.told(events.FillRefused)] == ["tag_unknown"]


def test_lost_mark_makes_values_of_its_tag_misses(fleet: Fleet, valkey: Redis) -> None:
    filled(fleet, tags=["t"])
    valkey.delete("sekali:epoch:t")

    assert fleet.box().invoke().get_or_load("k", loader("new"), tags=["t"]) == "new"


def test_mark_that_reached_the_log_out_of_order_costs_a_question_and_not_the_value(
    fleet: Fleet, valkey: Redis
) -> None:
    box = fleet.box()
    box.invoke().get_or_load("k", loader(Loaded("v", tags=["t"])))
    current = valkey.get("sekali:epoch:t")
    assert current is not None
    box.container.coherence.learn("t", "that of another invalidation")

    found = box.invoke().get_or_load("k", loader("new"))

    assert found == "v"


def test_failure_between_key_and_log_is_told_and_repeating_it_completes_it(
    fleet: Fleet, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sekali import SharedUnavailable, writing

    box, other = filled(fleet), fleet.box()
    valkey.set("sekali:log", "not a stream any more")
    monkeypatch.setattr(writing, "LONGEST_REPEAT_SECONDS", 0.0)

    with pytest.raises(SharedUnavailable, match="invalidate failed"):
        other.invoke().invalidate(["k"])
    valkey.delete("sekali:log")
    other.invoke().invalidate(["k"])

    assert box.invoke().get_or_load("k", loader("new")) == "new"


def test_invalidation_is_repeated_within_its_time(fleet: Fleet, valkey: Redis) -> None:
    other = fleet.box()
    cache = other.invoke()
    valkey.set("sekali:log", "not a stream")
    sleep, slept = other.clock.sleep, []

    def heal(seconds: float) -> None:
        slept.append(seconds)
        sleep(seconds)
        valkey.delete("sekali:log")

    cache._tiers.invocation.pause = heal  # noqa: SLF001 - where the time of the test passes
    cache.invalidate(["k"])

    assert len(slept) == 1
