"""Calls that nobody should make: each is a clear error, or the right answer all the same."""

from __future__ import annotations

import asyncio
import gc
import math
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from sekali import Loaded, Packing
from sekali.clock import SystemClock
from sekali.errors import KeyInvalid, SettingInvalid
from sekali.flights import Flight
from sekali.telemetry import events
from sekali.testing import FakeLoader
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

DEADLINE_SECONDS = 20
LENGTHS = (
    "ttl_seconds",
    "soft_ttl_seconds",
    "stale_if_error_seconds",
    "negative_ttl_seconds",
    "local_ttl_seconds",
)


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box()


# Options.


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan, math.inf, True, False, "60", [60], 1e9])
@pytest.mark.parametrize("name", LENGTHS)
def test_length_that_is_none_is_refused_before_anything_is_sent(
    box: Box, name: str, seconds: Any
) -> None:
    load = loader(1)

    with pytest.raises(SettingInvalid, match=rf"{name}.* must be 0 \(do not store\) or more"):
        box.invoke().get_or_load("k", load, **{name: seconds})

    assert (load.calls, box.flushes) == (0, 0)


@pytest.mark.parametrize("seconds", [-1, math.nan, True, "60", [60]])
def test_wait_that_is_none_is_refused(box: Box, seconds: Any) -> None:
    with pytest.raises(SettingInvalid, match="wait_seconds must be 0 or more"):
        box.invoke().get_or_load("k", loader(1), wait_seconds=seconds)


def test_endless_wait_is_cut_to_the_invocation(box: Box) -> None:
    assert box.invoke().get_or_load("k", loader(1), wait_seconds=math.inf) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("level", "eventual"),
        ("level", []),
        ("refresh", "later"),
        ("on_timeout", "ignore"),
        ("packing", None),
    ],
)
def test_word_that_an_option_does_not_know_is_refused(box: Box, option: str, value: Any) -> None:
    with pytest.raises(SettingInvalid, match=f"{option} must be"):
        box.invoke().get_or_load("k", loader(1), **{option: value})


def test_option_that_is_misspelt_is_named(box: Box) -> None:
    with pytest.raises(TypeError, match="there is no option 'tll_seconds'"):
        box.invoke().get_or_load("k", loader(1), tll_seconds=60)


# Keys and tags.

CALLS: dict[str, Callable[[Any, Any], object]] = {  # Any: a cache, and what is no key
    "get_or_load": lambda cache, key: cache.get_or_load(key, loader(1)),
    "get_or_load_async": lambda cache, key: asyncio.run(cache.get_or_load_async(key, loader(1))),
    "get_or_load_many": lambda cache, key: cache.get_or_load_many([key], dict.fromkeys),
    "get": lambda cache, key: cache.get(key),
    "get_many": lambda cache, key: cache.get_many([key]),
    "set": lambda cache, key: cache.set(key, 1),
    "invalidate": lambda cache, key: cache.invalidate([key]),
    "explain": lambda cache, key: cache.explain(key),
    "a tag of the call": lambda cache, tag: cache.get_or_load("k", loader(1), tags=[tag]),
    "a tag to invalidate": lambda cache, tag: cache.invalidate(tags=[tag]),
    "a tag of the loader": lambda cache, tag: cache.get_or_load("k", lambda: Loaded(1, tags=[tag])),
}


@pytest.mark.parametrize("text", ["", 5, None, b"k", 1.5, ("t",), ["l"], "\ud800"], ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_key_or_tag_that_is_no_text_is_refused(box: Box, call: str, text: Any) -> None:
    with pytest.raises(KeyInvalid, match=r"(key|tag) must be text that"):
        CALLS[call](box.invoke(), text)


@pytest.mark.parametrize("key", ["k" * 600, "ключ", "a\x00b", "{slot}", "a b\r\n"])
def test_any_other_text_is_a_key(fleet: Fleet, box: Box, key: str) -> None:
    assert box.invoke().get_or_load(key, loader("v"), tags=[key]) == "v"
    assert fleet.box().invoke().get(key) == "v"

    box.invoke().invalidate(tags=[key])

    assert fleet.box().invoke().get(key) is None


def test_one_text_is_one_key_and_one_tag_and_not_its_letters(fleet: Fleet, box: Box) -> None:
    cache = box.invoke()
    assert cache.get_or_load_many("ab", dict.fromkeys) == {"ab": None}
    cache.get_or_load("k", lambda: Loaded("v", tags="xy"))
    cache.set("a", 1)

    cache.invalidate(tags="xy")
    cache.invalidate("a")

    assert fleet.box().invoke().get_many("a") == {}
    assert fleet.box().invoke().get("k") is None
    assert cache.get_many("ab") == {"ab": None}


@pytest.mark.parametrize("tags", [None, (), [], iter(()), set()])
def test_no_tags_may_be_said_in_any_way(box: Box, tags: Any) -> None:
    assert box.invoke().get_or_load("k", loader(1), tags=tags) == 1


# Loaders.


async def awaited() -> int:
    return 1


@pytest.mark.parametrize("load", [awaited, partial(awaited)], ids=["function", "partial"])
def test_coroutine_where_nobody_awaits_is_an_error_that_says_what_to_call(
    box: Box, load: Callable[[], Any]
) -> None:
    with pytest.raises(TypeError, match="use get_or_load_async"):
        box.invoke().get_or_load("k", load)

    assert asyncio.run(box.invoke().get_or_load_async("k", load)) == 1


@pytest.mark.parametrize("load", [None, 5, "text"])
def test_loader_that_cannot_be_called_is_refused_before_a_claim(box: Box, load: Any) -> None:
    with pytest.raises(TypeError, match="must be callable"):
        box.invoke().get_or_load("k", load)

    assert box.flushes == 0


@pytest.mark.parametrize("returned", [None, [1], "ab"])
def test_loader_of_many_that_returns_no_mapping_is_told_so(box: Box, returned: Any) -> None:
    with pytest.raises(TypeError, match="must return a mapping by key"):
        box.invoke().get_or_load_many(["a", "b"], lambda _: returned)

    assert box.invoke().get_or_load_many(["a", "b"], dict.fromkeys) == {"a": None, "b": None}


def test_generator_is_returned_to_its_caller_and_to_nobody_else(box: Box) -> None:
    def load() -> Iterator[int]:
        yield from (1, 2)

    cache = box.invoke()

    assert [list(cache.get_or_load("k", load)) for _ in range(2)] == [[1, 2], [1, 2]]
    assert [one.reason for one in box.told(events.FillRefused)] == ["unencodable"] * 2


# Codecs that break.


class Broken:
    """A codec that fails as it is told to."""

    name = "broken"

    def __init__(self, encode: Any = b"1", decode: Any = 1) -> None:  # Any: returned or raised
        self.writes, self.reads = encode, decode

    def encode(self, value: Any) -> Any:  # Any: as told
        del value
        return self._do(self.writes)

    def decode(self, body: bytes) -> Any:  # Any: as told
        del body
        return self._do(self.reads)

    def _do(self, outcome: Any) -> Any:  # Any: as told
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.mark.parametrize(
    "written",
    [
        ValueError("no"),
        RecursionError(),
        AttributeError("x"),
        KeyError("y"),
        OSError("z"),
        "text",
        5,
    ],
)
def test_value_that_its_codec_does_not_carry_is_returned_and_not_stored(
    box: Box, written: Any
) -> None:
    cache, packing = box.invoke(), Packing(codec=Broken(encode=written))

    assert cache.get_or_load("k", loader("v"), packing=packing) == "v"
    assert cache.explain("k", packing=packing).shared is None


@pytest.mark.parametrize("read", [ValueError("no"), RecursionError(), struct.error("x")])
def test_value_that_its_codec_wrote_and_does_not_read_is_a_miss_and_no_error(
    box: Box, read: Any
) -> None:
    """A hit of the local tier raised the codec's error to the caller, for as long as the TTL."""
    packing = Packing(codec=Broken(decode=read))
    cache = box.invoke()
    load = FakeLoader(["v"], ["w"], ["x"])

    found = [cache.get_or_load("k", load, packing=packing) for _ in range(3)]

    assert found == [["v"], ["w"], ["x"]]
    assert cache.get("k", "none", packing=packing) == "none"


# Threads and loops.


@pytest.mark.slow
def test_call_that_blocks_the_loop_its_own_load_runs_on_computes_through(fleet: Fleet) -> None:
    """It waited for a task of the loop that it blocked, until half of the invocation was over."""
    box = fleet.box(SystemClock())

    async def scene() -> Any:
        cache = box.invoke(600)
        leading = asyncio.Event()

        async def slow() -> str:
            leading.set()
            await asyncio.sleep(0.05)
            return "led"

        task = asyncio.create_task(cache.get_or_load_async("k", slow))
        await leading.wait()
        through = cache.get_or_load("k", loader("through"))
        return through, await task

    began = time.monotonic()
    assert asyncio.run(scene()) == ("through", "led")
    assert time.monotonic() - began < DEADLINE_SECONDS


def test_task_that_waits_for_what_cannot_be_copied_awaits_a_load_of_its_own(fleet: Fleet) -> None:
    """It was handed a coroutine that nobody awaited."""
    box = fleet.box(SystemClock())

    async def load() -> object:
        await asyncio.sleep(0.02)
        return {1, 2}

    async def scene() -> list[Any]:
        cache = box.invoke()
        return await asyncio.gather(*(cache.get_or_load_async("k", load) for _ in range(3)))

    assert asyncio.run(scene()) == [{1, 2}] * 3


def test_one_bound_covers_the_wait_for_a_leader_and_the_wait_for_a_container(
    fleet: Fleet, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a leader that left, the whole bound was waited once more for another container."""
    box = fleet.box()
    cache, other = box.invoke(600), fleet.box().invoke(600)
    leading, waiting, holding, over = (threading.Event() for _ in range(4))
    wait = Flight.wait

    def watched(flight: Flight[Any], seconds: float) -> Any:
        waiting.set()
        return wait(flight, seconds)

    def leave() -> None:
        leading.set()
        assert waiting.wait(DEADLINE_SECONDS)
        box.clock.sleep(90)
        valkey.flushall()  # the lease too, which the other container takes
        pool.submit(other.get_or_load, "k", hold)
        assert holding.wait(DEADLINE_SECONDS)
        raise SystemExit(1)

    def hold() -> None:
        holding.set()
        assert over.wait(DEADLINE_SECONDS)

    def lead() -> None:
        with pytest.raises(SystemExit):
            cache.get_or_load("k", leave)

    monkeypatch.setattr(Flight, "wait", watched)
    with ThreadPoolExecutor(3) as pool:
        leader = pool.submit(lead)
        assert leading.wait(DEADLINE_SECONDS)
        began = box.clock.monotonic()
        found = cache.get_or_load("k", loader("own"), wait_seconds=100)
        leader.result(DEADLINE_SECONDS)
        over.set()

    assert found == "own"
    assert 90 < box.clock.monotonic() - began < 110


def test_load_that_fails_when_nobody_waits_any_more_is_no_complaint_of_the_loop(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    box = fleet.box(SystemClock())
    failed = threading.Event()

    async def scene() -> None:
        cache = box.invoke()
        leaving = asyncio.Event()

        async def fail() -> None:
            leaving.set()
            await asyncio.sleep(0.01)
            failed.set()
            raise OSError("no route")

        caller = asyncio.create_task(cache.get_or_load_async("k", fail))
        await leaving.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        while len(box.container.flights):  # noqa: ASYNC110 - a table is no event
            await asyncio.sleep(0.005)

    asyncio.run(scene())
    gc.collect()

    assert failed.is_set()
    assert [one for one in caplog.records if one.name == "asyncio"] == []
