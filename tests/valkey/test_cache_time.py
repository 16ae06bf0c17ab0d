"""Values live as long as they may, whatever the clocks do, and are refreshed once in the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sekali.lifetimes import Loaded
from sekali.telemetry import events
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from redis import Redis

    from sekali.testing import FakeLoader
    from sekali.tiered import Tiered

SOFT: dict[str, Any] = {"ttl_seconds": 100, "soft_ttl_seconds": 10}
STALE: dict[str, Any] = {"ttl_seconds": 10, "stale_if_error_seconds": 60}
"""Options of the calls below; Any, because they are spread over keywords of several types."""


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box()


def forget_shared(valkey: Redis) -> None:
    """Let what is shared be gone, as its TTL would on the server's own clock."""
    for key in valkey.keys("*value*"):
        valkey.delete(key)


IN_THE_MIDDLE = pytest.mark.parametrize("middle", [False, True], ids=["next", "middle"])
"""Whether it is the next invocation that reads, or one in the middle, whose hits are not looked at
any further."""


def holding(valkey: Redis, box: Box) -> Tiered:
    """Return an invocation that has hit k, which is not shared any more."""
    cache = box.invoke()
    sources = [cache.look_up("k", loader("old"), ttl_seconds=60).source for _ in range(2)]
    assert sources == ["loaded", "local"]
    assert cache.get_or_load("k", loader("no"), ttl_seconds=60) == "old"
    cache.get_or_load("another", loader(1), ttl_seconds=86_400)
    forget_shared(valkey)
    return cache


@IN_THE_MIDDLE
@pytest.mark.parametrize("seconds", [600, 3_600])
def test_value_is_no_older_after_ten_minutes_frozen_with_its_clock(
    valkey: Redis, box: Box, seconds: float, middle: Any
) -> None:
    cache = holding(valkey, box)

    box.clock.freeze(seconds)

    cache = cache if middle else box.invoke()
    assert cache.get_or_load("k", loader("new"), ttl_seconds=60) == "new"


@IN_THE_MIDDLE
@pytest.mark.parametrize("hours", [1, -1])
def test_wall_clock_set_by_an_hour_serves_nothing_old(
    valkey: Redis, box: Box, hours: float, middle: Any
) -> None:
    cache = holding(valkey, box)

    box.clock.step(hours * 3_600)
    cache = cache if middle else box.invoke()
    cache.get("another")
    box.clock.sleep(61)

    cache = cache if middle else box.invoke()
    assert cache.get_or_load("k", loader("new"), ttl_seconds=60) == "new"


@IN_THE_MIDDLE
@pytest.mark.parametrize("monotonic", [1.0, 1_000_000.0])
def test_restored_snapshot_serves_nothing_from_before(
    valkey: Redis, box: Box, monotonic: float, middle: Any
) -> None:
    cache = holding(valkey, box)

    box.clock.restore(86_400, monotonic=monotonic)

    cache = cache if middle else box.invoke()
    assert cache.get_or_load("k", loader("new"), ttl_seconds=60) == "new"


def test_soft_ttl_lets_one_caller_refresh_while_the_others_get_what_there_is(fleet: Fleet) -> None:
    boxes = [fleet.box() for _ in range(3)]
    for one in boxes:
        one.invoke().get("to find the log's end")
        one.invoke().get_or_load("k", loader("old"), **SOFT)
        one.clock.sleep(11)
    met: list[object] = []
    others = iter(boxes[1:])

    def look() -> None:
        found = [one.invoke().look_up("k", loader("no"), **SOFT) for one in others]
        met.extend((one.value, one.source) for one in found)

    refreshed = boxes[0].invoke().look_up("k", loader("new", during=look), **SOFT)

    assert (refreshed.value, refreshed.source) == ("new", "loaded")
    assert met == [("old", "local")] * 2
    for one in boxes[1:]:
        one.clock.sleep(2)
        assert one.invoke().get_or_load("k", loader("no"), **SOFT) == "new"


def test_failed_refresh_serves_what_there_is_and_is_not_repeated_at_once(
    valkey: Redis, box: Box
) -> None:
    box.invoke().get_or_load("k", loader("old"), **SOFT)
    box.clock.sleep(11)
    broken = loader(OSError("no route"))

    found = [box.invoke().look_up("k", broken, **SOFT) for _ in range(5)]

    assert [(one.value, one.source) for one in found] == [("old", "local")] * 5
    assert broken.calls == 1
    box.clock.sleep(1.5)
    for lease in valkey.keys("*lease*"):
        valkey.delete(lease)
    box.invoke().look_up("k", broken, **SOFT)
    assert broken.calls == 2


def test_refresh_is_postponed_to_the_end_of_the_invocation(box: Box) -> None:
    box.invoke().get_or_load("k", loader("old"), **SOFT)
    box.clock.sleep(11)
    load = loader("new")
    cache = box.invoke()

    during = [cache.get_or_load("k", load, refresh="end", **SOFT) for _ in range(3)]
    calls_before_the_end = load.calls
    cache.end()

    assert during == ["old"] * 3
    assert (calls_before_the_end, load.calls) == (0, 1)
    assert cache.get_or_load("k", loader("no"), **SOFT) == "new"


def test_postponed_refresh_does_not_run_without_time_for_it(box: Box) -> None:
    box.invoke().get_or_load("k", loader("old"), **SOFT)
    box.clock.sleep(11)
    load = loader("new")
    cache = box.invoke(seconds=5)

    cache.get_or_load("k", load, refresh="end", **SOFT)
    cache.end()

    assert load.calls == 0


def test_failing_postponed_refresh_harms_nobody(box: Box) -> None:
    box.invoke().get_or_load("k", loader("old"), **SOFT)
    box.clock.sleep(11)
    cache = box.invoke()

    cache.get_or_load("k", loader(OSError("no route")), refresh="end", **SOFT)
    cache.end()

    assert cache.get_or_load("k", loader("no"), **SOFT) == "old"


def test_long_load_is_refreshed_early_by_chance(fleet: Fleet) -> None:
    """Of 100 containers some refresh before the end, and no more than a few."""
    first = fleet.box()
    slow = loader("old", during=lambda: first.clock.sleep(10))
    first.invoke().get_or_load("k", slow, ttl_seconds=100, local_ttl_seconds=0)
    boxes = [fleet.box() for _ in range(100)]

    due = 0
    for one in boxes:
        one.invoke().get("to find the log's end")
        one.invoke().get("k")
        one.clock.sleep(88)
        seen = one.container.local.look("~/k")
        due += seen is None or not seen.fresh

    assert 0 < due < 100


def test_stale_value_is_served_where_the_loader_fails_and_only_there(fleet: Fleet) -> None:
    box = fleet.box()
    box.invoke().get_or_load("k", loader("old"), **STALE)
    box.clock.sleep(11)
    broken = loader(OSError("no route"))

    stale = box.invoke().look_up("k", broken, **STALE)
    again = box.invoke().look_up("k", broken, **STALE)

    assert (stale.value, stale.source) == ("old", "stale")
    assert stale.age_seconds > 10
    assert again.source == "stale"
    assert broken.calls == 1
    with pytest.raises(OSError, match="no route"):
        fleet.box(box.clock).invoke().look_up("other", broken, **STALE)


def test_stale_value_ends_with_its_time(valkey: Redis, box: Box) -> None:
    box.invoke().get_or_load("k", loader("old"), **STALE)
    forget_shared(valkey)
    box.clock.sleep(71)

    with pytest.raises(OSError, match="no route"):
        box.invoke().look_up("k", loader(OSError("no route")), **STALE)


def test_stale_value_of_the_shared_tier_serves_a_new_container(fleet: Fleet) -> None:
    fleet.box().invoke().get_or_load("k", loader("old"), ttl_seconds=0.02, stale_if_error_seconds=9)
    box = fleet.box()
    broken = loader(OSError("no route"))
    while (seen := box.invoke().explain("k").shared) and seen.left_seconds > 0:
        pass

    found = box.invoke().look_up("k", broken, ttl_seconds=1, stale_if_error_seconds=9)

    assert (found.value, found.source) == ("old", "stale")
    assert box.invoke().get("k") is None


def test_stale_value_is_served_at_once_while_the_key_cools_after_a_failure_elsewhere(
    fleet: Fleet,
) -> None:
    """Every caller of the fleet waited for the cooling, a second for each, and then tried again."""
    here, elsewhere = fleet.box(), fleet.box()
    brief: dict[str, Any] = {"ttl_seconds": 0.02, "stale_if_error_seconds": 60}
    here.invoke().get_or_load("k", loader("old"), **brief)
    while (seen := here.invoke().explain("k").shared) and seen.left_seconds > 0:
        pass
    broken = loader(OSError("no route"))
    here.invoke().get_or_load("k", broken, **brief)
    before = elsewhere.clock.monotonic()

    found = [elsewhere.invoke().look_up("k", broken, **brief) for _ in range(3)]

    assert [(one.value, one.source) for one in found] == [("old", "stale")] * 3
    assert broken.calls == 1
    assert elsewhere.clock.monotonic() == before


def test_failed_load_cools_the_key_for_the_fleet_where_stale_values_are_served(
    fleet: Fleet,
) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    broken = loader(OSError("no route"))
    for one in (here, elsewhere):
        one.invoke().get_or_load("k", loader("old"), **SOFT)
        one.clock.sleep(11)

    found = [one.invoke().get_or_load("k", broken, **SOFT) for one in (here, elsewhere)]

    assert found == ["old", "old"]
    assert broken.calls == 1


def test_loader_without_a_value_to_fall_back_on_fails_its_caller(box: Box) -> None:
    load = loader(OSError("no route"), "v")

    with pytest.raises(OSError, match="no route"):
        box.invoke().get_or_load("k", load, **STALE)

    assert box.invoke().get_or_load("k", load, **STALE) == "v"


def test_value_of_a_failed_container_is_not_invalid_for_ever(fleet: Fleet, box: Box) -> None:
    def leave() -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        box.invoke().get_or_load("k", loader("v", during=leave))

    assert fleet.box().invoke().get_or_load("k", loader("w")) == "w"


@pytest.mark.parametrize("decides", [True, False])
def test_stored_ttl_is_shortened_by_chance_and_never_lengthened(
    fleet: Fleet, *, decides: bool
) -> None:
    cache = fleet.box().invoke()
    value = Loaded("v", ttl_seconds=100) if decides else "v"
    for number in range(20):
        cache.get_or_load(f"k{number}", lambda: value, ttl_seconds=100)

    left = [cache.explain(f"k{number}").shared for number in range(20)]

    lives = [round(one.left_seconds, 1) for one in left if one is not None]
    assert len(lives) == 20
    assert all(89 <= seconds <= 100 for seconds in lives)
    assert len(set(lives)) > 5


def loads_told(box: Box, load: FakeLoader) -> bool:
    told = [one for one in box.told(events.CacheRead) if one.source == "loaded"]
    return len(told) == load.calls


def test_each_load_is_told_once(box: Box) -> None:
    load = loader("v")

    box.invoke().get_or_load("k", load)
    box.invoke().get_or_load("k", load)

    assert loads_told(box, load)
