"""The two tiers answer, store and forget as the page docs/cache.md says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from sekali.errors import KeyInvalid, SettingInvalid
from sekali.lifetimes import Loaded
from sekali.packing import Packing
from sekali.telemetry import events
from sekali.testing import FrozenClock
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from redis import Redis


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box()


@pytest.mark.parametrize("value", [None, False, 0, 0.0, "", [], {}, "text", {"a": [1, None]}])
def test_every_value_is_a_value(fleet: Fleet, value: object) -> None:
    load = loader(value)
    here, elsewhere = fleet.box(), fleet.box()

    found = [
        here.invoke().get_or_load("k", load),
        here.invoke().get_or_load("k", load),
        elsewhere.invoke().get_or_load("k", load),
    ]

    assert found == [value, value, value]
    assert load.calls == 1


def test_result_carries_its_source_and_age(fleet: Fleet) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    load = loader("v")

    loaded = here.invoke().look_up("k", load, ttl_seconds=100)
    here.clock.sleep(5)
    local = here.invoke().look_up("k", load, ttl_seconds=100)
    shared = elsewhere.invoke().look_up("k", load, ttl_seconds=100)

    assert [loaded.source, local.source, shared.source] == ["loaded", "local", "shared"]
    assert loaded.age_seconds == 0
    assert local.age_seconds == pytest.approx(5)
    assert shared.age_seconds == pytest.approx(0, abs=1)


def test_result_on_a_loop_carries_them_too(fleet: Fleet) -> None:
    async def load() -> str:
        return "v"

    async def sources() -> list[str]:
        one, other = fleet.box().invoke(), fleet.box().invoke()
        return [
            (await cache.look_up_async("k", load, ttl_seconds=60)).source
            for cache in (one, one, other)
        ]

    assert asyncio.run(sources()) == ["loaded", "local", "shared"]


def test_miss_and_fill_take_two_round_trips_and_a_shared_hit_one(fleet: Fleet) -> None:
    fleet.warm_scripts()
    here, elsewhere = fleet.box(), fleet.box()

    here.invoke().get_or_load("k", loader(1), tags=["t"])
    filled = here.flushes
    elsewhere.invoke().get_or_load("k", loader(2), tags=["t"])
    here.invoke().get_or_load("k", loader(3), tags=["t"])

    assert filled == 2
    assert elsewhere.flushes == 1
    assert here.flushes == 3


def test_second_read_of_an_invocation_asks_nobody(box: Box) -> None:
    cache = box.invoke()
    cache.get_or_load("k", loader(1))
    before = box.flushes

    found = [cache.get_or_load("k", loader(2)) for _ in range(3)]
    cache.end()

    assert found == [1, 1, 1]
    assert box.flushes == before
    hits = [one for one in box.told(events.CacheRead) if one.source == "local"]
    assert [one.count for one in hits] == [3]


@pytest.mark.parametrize(
    "name",
    ["ttl_seconds", "soft_ttl_seconds", "stale_if_error_seconds", "negative_ttl_seconds"],
)
@pytest.mark.parametrize("seconds", [-5, float("nan"), float("inf")])
def test_negative_or_endless_length_is_an_error(box: Box, name: str, seconds: float) -> None:
    options: dict[str, Any] = {name: seconds}

    with pytest.raises(SettingInvalid, match=name):
        box.invoke().get_or_load("k", loader(1), **options)


def test_ttl_of_zero_stores_nothing(fleet: Fleet, box: Box) -> None:
    load = loader(1, 2, 3)

    found = [box.invoke().get_or_load("k", load, ttl_seconds=0) for _ in range(2)]

    assert found == [1, 2]
    assert fleet.box().invoke().get("k") is None


def test_default_ttl_is_that_of_the_page(valkey: Redis, box: Box) -> None:
    box.invoke().get_or_load("k", loader(1), ttl_seconds=None)

    (key,) = valkey.keys("*value*")
    assert 210 <= valkey.ttl(key) <= 300


def test_nothing_found_has_a_ttl_of_its_own(fleet: Fleet, box: Box) -> None:
    load = loader(None, "there")
    box.invoke().get_or_load("k", load, ttl_seconds=100, negative_ttl_seconds=5)

    box.clock.sleep(5)

    assert box.container.local.get("~/k").__class__.__name__ == "Missing"
    assert fleet.box().invoke().explain("k").shared is not None
    assert fleet.box().invoke().explain("k").shared.left_seconds <= 5  # type: ignore[union-attr]


def test_loader_decides_ttl_and_tags_from_the_value(fleet: Fleet, box: Box) -> None:
    load = loader(Loaded("a", ttl_seconds=7, tags=["x"]), "b")
    box.invoke().get_or_load("k", load, ttl_seconds=100)

    shared = fleet.box().invoke().explain("k").shared
    box.invoke().invalidate(tags=["x"])

    assert shared is not None
    assert shared.left_seconds <= 7
    assert shared.tags == ("x",)
    assert box.invoke().get_or_load("k", load) == "b"


def test_loader_cannot_decide_a_negative_ttl(fleet: Fleet, box: Box) -> None:
    with pytest.raises(SettingInvalid, match="ttl_seconds"):
        box.invoke().get_or_load("k", loader(Loaded("a", ttl_seconds=-1)))

    assert fleet.box().invoke().get_or_load("k", loader("b")) == "b"


def test_local_copy_never_outlives_the_shared_one(fleet: Fleet) -> None:
    """A clock that was behind made a container keep a copy for a day too long."""
    here = fleet.box()
    here.invoke().get_or_load("k", loader("old"), ttl_seconds=60)
    behind = fleet.box(FrozenClock(wall=here.clock.wall() - 86_400))
    behind.invoke().get_or_load("k", loader("new"), ttl_seconds=60)

    behind.clock.sleep(61)

    assert behind.container.local.look("~/k") is None


def test_local_ttl_may_be_shorter(box: Box) -> None:
    box.invoke().get_or_load("k", loader(1), ttl_seconds=100, local_ttl_seconds=5)

    box.clock.sleep(5)

    assert box.invoke().look_up("k", loader(2), ttl_seconds=100).source == "shared"


def test_get_finds_in_both_tiers_and_loads_nothing(fleet: Fleet, box: Box) -> None:
    box.invoke().set("k", {"a": 1})

    assert box.invoke().get("k") == {"a": 1}
    assert fleet.box().invoke().get("k") == {"a": 1}
    assert fleet.box().invoke().get("other", "default") == "default"


def test_get_many_takes_one_flush(fleet: Fleet, box: Box) -> None:
    cache = box.invoke()
    for number in range(5):
        cache.set(f"k{number}", number)
    fleet.warm_scripts()
    elsewhere = fleet.box()

    found = elsewhere.invoke().get_many([f"k{number}" for number in range(7)])

    assert found == {f"k{number}": number for number in range(5)}
    assert elsewhere.flushes == 1


def test_get_or_load_many_calls_the_loader_once_for_what_is_missing(fleet: Fleet, box: Box) -> None:
    asked: list[list[str]] = []

    def load(keys: list[str]) -> dict[str, int]:
        asked.append(keys)
        return {key: int(key) for key in keys if key != "9"}

    fleet.warm_scripts()
    cache = box.invoke()
    cache.set("1", 1)
    before = box.flushes
    found = cache.get_or_load_many(["1", "2", "3", "9", "2"], load)
    elsewhere = fleet.box().invoke().get_or_load_many(["1", "2", "3"], load)

    assert found == elsewhere == {"1": 1, "2": 2, "3": 3}
    assert asked == [["2", "3", "9"]]
    assert box.flushes - before == 2
    assert len(box.container.flights) == 0


def test_failed_load_of_many_stores_nothing_and_leaves_no_lease(fleet: Fleet, box: Box) -> None:
    def fail(keys: list[str]) -> dict[str, int]:
        raise OSError(str(keys))

    with pytest.raises(OSError, match="1"):
        box.invoke().get_or_load_many(["1", "2"], fail)

    found = fleet.box().invoke().get_or_load_many(["1", "2"], lambda keys: dict.fromkeys(keys, 7))
    assert found == {"1": 7, "2": 7}


def test_set_is_seen_at_once_here_and_at_the_next_invocation_elsewhere(fleet: Fleet) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    here.invoke().get_or_load("k", loader("old"))
    elsewhere.invoke().get_or_load("k", loader("old"))

    stored = here.invoke().set("k", "new")

    assert stored
    assert here.invoke().get_or_load("k", loader("loaded")) == "new"
    assert elsewhere.invoke().get_or_load("k", loader("loaded")) == "new"


def test_set_is_not_undone_by_a_load_that_began_before(fleet: Fleet) -> None:
    here, elsewhere = fleet.box(), fleet.box()

    def set_meanwhile() -> None:
        assert not elsewhere.invoke(seconds=0.1).set("k", "new", wait_seconds=0)

    found = here.invoke().get_or_load("k", loader("old", during=set_meanwhile))

    assert found == "old"
    assert here.invoke().get_or_load("k", loader("newer")) == "newer"


def test_set_inside_the_load_of_its_own_key_does_not_wait_for_itself(box: Box) -> None:
    cache = box.invoke()

    found = cache.get_or_load("k", loader("old", during=lambda: cache.set("k", "inner")))

    assert found == "old"
    assert cache.get_or_load("k", loader("next")) == "next"


@pytest.mark.parametrize("level", ["per_invocation", "strict"])
def test_invalidated_key_is_loaded_anew_everywhere(fleet: Fleet, level: Any) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    for one in (here, elsewhere):
        one.invoke().get_or_load("k", loader("old"))
    reading = elsewhere.invoke()

    here.invoke().invalidate(["k"])

    assert here.invoke().get_or_load("k", loader("new"), level=level) == "new"
    assert reading.get_or_load("k", loader("newer"), level=level) == "new"


def test_strict_read_sees_what_fell_during_the_invocation(fleet: Fleet) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    cache = here.invoke()
    cache.get_or_load("k", loader("old"), tags=["t"])
    cache.get_or_load("j", loader("old"))

    elsewhere.invoke().invalidate(["j"], tags=["t"])

    assert cache.get_or_load("k", loader("new"), tags=["t"]) == "old"
    assert cache.get_or_load("k", loader("new"), tags=["t"], level="strict") == "new"
    assert cache.get_or_load("j", loader("new"), level="strict") == "new"


def test_level_ttl_asks_nobody(fleet: Fleet, box: Box) -> None:
    box.invoke().get_or_load("k", loader("old"), level="ttl")
    fleet.box().invoke().invalidate(["k"])
    before = box.flushes

    found = box.invoke().get_or_load("k", loader("new"), level="ttl")

    assert found == "old"
    assert box.flushes == before


def test_tag_invalidates_what_carries_it_and_nothing_else(fleet: Fleet) -> None:
    here, elsewhere = fleet.box(), fleet.box()
    for one in (here, elsewhere):
        cache = one.invoke()
        cache.get_or_load("a", loader(1), tags=["x"])
        cache.get_or_load("b", loader(1), tags=["x", "y"])
        cache.get_or_load("c", loader(1), tags=["z"])

    elsewhere.invoke().invalidate(tags=["x"])

    for one in (here, elsewhere):
        cache = one.invoke()
        assert cache.look_up("c", loader(2), tags=["z"]).source == "local"
        found = [cache.get_or_load(key, loader(2), tags=tags) for key, tags in _TAGGED.items()]
        assert found == [2, 2, 1]


_TAGGED = {"a": ["x"], "b": ["x", "y"], "c": ["z"]}


def test_value_without_the_tag_that_the_caller_relies_on_is_a_miss(fleet: Fleet, box: Box) -> None:
    box.invoke().get_or_load("k", loader("untagged"))

    found = fleet.box().invoke().get_or_load("k", loader("tagged"), tags=["t"])

    assert found == "tagged"


def test_invalidating_nothing_is_an_error(box: Box) -> None:
    with pytest.raises(KeyInvalid, match="needs a key or a tag"):
        box.invoke().invalidate()


def test_value_that_cannot_be_stored_is_returned_and_the_older_one_goes(
    fleet: Fleet, box: Box
) -> None:
    box.invoke().set("k", "old")
    box.container.local.flush("test")
    odd = {1, 2}

    found = box.invoke().get_or_load("k2", loader(odd))
    large = box.invoke().get_or_load("k3", loader("x" * 100), packing=Packing(most_bytes=50))
    box.invoke().set("k", odd)

    assert (found, large) == (odd, "x" * 100)
    assert [one.reason for one in box.told(events.FillRefused)] == [
        "unencodable",
        "too_large",
        "unencodable",
    ]
    assert fleet.box().invoke().get_many(["k", "k2", "k3"]) == {}


def test_older_copy_goes_when_a_refresh_brings_what_cannot_be_stored(
    fleet: Fleet, box: Box
) -> None:
    box.invoke().get_or_load("k", loader("old"), soft_ttl_seconds=0)

    assert box.invoke().get_or_load("k", loader({1, 2}), soft_ttl_seconds=0) == {1, 2}
    assert box.container.local.look("~/k") is None
    assert fleet.box().invoke().get("k") is None


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda _: b"not ours at all", "garbage"),
        (lambda value: value[:-1] + b"X", "checksum"),
        (lambda value: value[:16] + b"99" + value[18:], "version"),
    ],
)
def test_damaged_value_is_a_miss_with_its_reason(
    fleet: Fleet, valkey: Redis, damage: Any, reason: str
) -> None:
    fleet.box().invoke().set("k", "good")
    (key,) = valkey.keys("*value*")
    valkey.set(key, damage(valkey.get(key)), keepttl=True)
    box = fleet.box()

    found = box.invoke().get_or_load("k", loader("loaded"))

    assert found == "loaded"
    assert [one.reason for one in box.told(events.UnreadableValue)] == [reason]
    assert fleet.box().invoke().get("k") == "loaded"


def test_value_of_another_key_is_a_miss(fleet: Fleet, valkey: Redis) -> None:
    cache = fleet.box().invoke()
    cache.set("a", "of a")
    cache.set("b", "of b")
    (of_a,) = valkey.keys("*value:~/a")
    (of_b,) = valkey.keys("*value:~/b")
    valkey.set(of_a, valkey.get(of_b) or b"", keepttl=True)
    box = fleet.box()

    assert box.invoke().get_or_load("a", loader("loaded")) == "loaded"
    assert [one.reason for one in box.told(events.UnreadableValue)] == ["key"]


def test_value_of_another_schema_is_a_miss(fleet: Fleet) -> None:
    first, second = Packing(fingerprint="rows-1"), Packing(fingerprint="rows-2")
    fleet.box().invoke().set("k", "old", packing=first)
    box = fleet.box()

    found = box.invoke().get_or_load("k", loader("new"), packing=second)

    assert found == "new"
    assert [one.reason for one in box.told(events.UnreadableValue)] == ["fingerprint"]


def test_change_to_a_value_reaches_nobody_else(fleet: Fleet, box: Box) -> None:
    cache = box.invoke()
    first = cache.get_or_load("k", lambda: {"rows": [1]})
    first["rows"].append(2)

    second = cache.get_or_load("k", lambda: {"rows": [1]})
    second["rows"].append(3)

    assert cache.get_or_load("k", lambda: {"rows": [1]}) == {"rows": [1]}
    assert fleet.box().invoke().get("k") == {"rows": [1]}


def test_explain_calls_a_key_of_another_kind_garbage(valkey: Redis, box: Box) -> None:
    """It raised a TypeError from its inside, where the person asked why nothing is served."""
    box.invoke().get_or_load("k", loader("v"))
    (name,) = valkey.keys("*value*")
    valkey.delete(name)
    valkey.lpush(name, "not a string")

    told = box.invoke().explain("k")

    assert (told.shared, told.unreadable) == (None, "garbage")


def test_explain_tells_both_tiers_the_holder_and_the_tombstone(fleet: Fleet, box: Box) -> None:
    told: list[Any] = []
    other = fleet.box()

    def look() -> None:
        told.append(other.invoke().explain("k"))
        other.invoke().invalidate(["k"])
        told.append(other.invoke().explain("k"))

    empty = other.invoke().explain("k")
    box.invoke().get_or_load("k", loader("v", during=look), tags=["t"])
    box.invoke().get_or_load("k", loader("v"), tags=["t"])
    full = box.invoke().explain("k")

    assert (empty.local, empty.shared, empty.holder) == (None, None, "")
    assert told[0].holder == "test"
    assert not told[0].invalidated
    assert told[1].invalidated
    assert full.local is not None
    assert full.shared is not None
    assert full.shared.tags == ("t",)
    assert full.shared.outdated_tags == ()


def test_real_clock_works_as_well(fleet: Fleet) -> None:
    box = fleet.box(SystemClock())

    assert [box.invoke().get_or_load("k", loader(1)) for _ in range(2)] == [1, 1]
