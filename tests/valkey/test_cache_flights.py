"""One load for a cold key, however many ask, and nobody's failure is another one's."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from sekali.errors import LoadTimeout
from sekali.telemetry import events
from sekali.testing import FakeLoader, FrozenClock
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

LOAD_SECONDS = 0.1


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box(SystemClock())


def in_threads(number: int, call: Callable[[], Any]) -> list[Any]:
    """Call from many threads that start together; errors are returned in place."""
    start = threading.Barrier(number)

    def one() -> Any:
        start.wait(60)
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error

    with ThreadPoolExecutor(number) as pool:
        return [future.result(60) for future in [pool.submit(one) for _ in range(number)]]


def test_64_threads_on_one_cold_key_load_once_and_share_nothing(box: Box) -> None:
    load = FakeLoader({"rows": []}, seconds=LOAD_SECONDS)
    cache = box.invoke()

    found = in_threads(64, lambda: cache.get_or_load("k", load))

    assert found == [{"rows": []}] * 64
    assert len({id(value) for value in found}) == 64
    assert load.calls == 1
    assert len(box.container.flights) == 0


def test_1000_coroutines_on_one_cold_key_load_once(box: Box) -> None:
    calls = 0

    async def load() -> list[int]:
        nonlocal calls
        calls += 1
        await asyncio.sleep(LOAD_SECONDS)
        return [1]

    async def everybody() -> list[Any]:
        cache = box.invoke()
        return await asyncio.gather(*(cache.get_or_load_async("k", load) for _ in range(1_000)))

    began = time.monotonic()
    found = asyncio.run(everybody())

    assert found == [[1]] * 1_000
    assert len({id(value) for value in found}) == 1_000
    assert calls == 1
    assert time.monotonic() - began < LOAD_SECONDS + 30
    assert len(box.container.flights) == 0


def test_threads_and_coroutines_share_one_table(box: Box) -> None:
    load = FakeLoader("v", seconds=LOAD_SECONDS)
    cache = box.invoke()

    async def asking() -> Any:
        return await cache.get_or_load_async("k", load)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_load, "k", load)
        second = pool.submit(lambda: asyncio.run(asking()))
        found = [first.result(60), second.result(60)]

    assert found == ["v", "v"]
    assert load.calls == 1


def test_containers_load_one_key_once(fleet: Fleet) -> None:
    load = FakeLoader("v", seconds=LOAD_SECONDS)
    boxes = iter([fleet.box(SystemClock()) for _ in range(4)])
    lock = threading.Lock()

    def one() -> Any:
        with lock:
            cache = next(boxes).invoke()
        return cache.get_or_load("k", load)

    assert in_threads(4, one) == ["v"] * 4
    assert load.calls == 1


def test_waiter_asks_the_shared_tier_at_most_ten_times_a_second(fleet: Fleet) -> None:
    here, waiting = fleet.box(), fleet.box()
    fleet.warm_scripts()
    waiting.invoke().get("to find the log's end")
    before = waiting.flushes

    def wait() -> None:
        with pytest.raises(LoadTimeout):
            waiting.invoke().get_or_load("k", loader("no"), wait_seconds=5, on_timeout="raise")

    here.invoke().get_or_load("k", loader("v", during=wait))

    # The lease has 12 s left, so the pauses grow: far fewer than the 50 that would be allowed.
    assert 2 <= waiting.flushes - before <= 12


class PausingClock(FrozenClock):
    """Keeps how long was slept each time."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().sleep(seconds)


def test_waiter_of_a_long_load_is_answered_within_two_seconds_of_its_end(fleet: Fleet) -> None:
    """A pause grew to two seconds and was stretched by up to a third after that."""
    clock = PausingClock()
    here, waiting = fleet.box(), fleet.box(clock)

    def wait() -> None:
        with pytest.raises(LoadTimeout):
            waiting.invoke().get_or_load("k", loader("no"), wait_seconds=25, on_timeout="raise")

    here.invoke().get_or_load("k", loader("v", during=wait))

    assert sum(clock.pauses) >= 24.9
    assert max(clock.pauses) <= 2.0


def test_concurrent_waiters_get_the_leaders_error_and_later_callers_do_not(box: Box) -> None:
    load = FakeLoader(OSError("no route"), "v", seconds=LOAD_SECONDS)
    cache = box.invoke()

    found = in_threads(8, lambda: cache.get_or_load("k", load))

    failed = [one for one in found if isinstance(one, OSError)]
    assert failed
    assert set(map(str, failed)) == {"no route"}
    assert all(one == "v" for one in found if one not in failed)
    assert cache.get_or_load("k", load) == "v"
    assert len(box.container.flights) == 0


def test_killed_leader_lets_a_waiter_take_over(box: Box) -> None:
    leading = threading.Event()
    cache = box.invoke()

    def leave() -> None:
        leading.set()
        time.sleep(LOAD_SECONDS)
        raise SystemExit(1)

    def lead() -> None:
        with pytest.raises(SystemExit):
            cache.get_or_load("k", leave)

    thread = threading.Thread(target=lead)
    thread.start()
    assert leading.wait(30)
    found = cache.get_or_load("k", loader("v"))
    thread.join()

    assert found == "v"


def test_cancelled_caller_stops_neither_the_load_nor_its_waiters(box: Box) -> None:
    calls = 0

    async def load() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(LOAD_SECONDS)
        return "v"

    async def scene() -> list[Any]:
        cache = box.invoke()
        leader = asyncio.create_task(cache.get_or_load_async("k", load))
        await asyncio.sleep(LOAD_SECONDS / 4)
        waiters = [asyncio.create_task(cache.get_or_load_async("k", load)) for _ in range(3)]
        await asyncio.sleep(0)
        leader.cancel()
        waiters[0].cancel()
        return await asyncio.gather(leader, *waiters, return_exceptions=True)

    found = asyncio.run(scene())

    assert isinstance(found[0], asyncio.CancelledError)
    assert isinstance(found[1], asyncio.CancelledError)
    assert found[2:] == ["v", "v"]
    assert calls == 1


def test_waiter_out_of_time_loads_for_itself_and_the_leader_goes_on(box: Box) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def until_told() -> None:
        begun.set()
        assert may_end.wait(60)

    load = FakeLoader("v", during=until_told)
    cache = box.invoke()
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(cache.get_or_load, "k", load)
        assert begun.wait(60)
        alone = cache.get_or_load("k", loader("own"), wait_seconds=0.01)
        with pytest.raises(LoadTimeout):
            cache.get_or_load("k", loader("no"), wait_seconds=0.01, on_timeout="raise")
        may_end.set()

        assert alone == "own"
        assert leading.result(60) == "v"
    assert [one.policy for one in box.told(events.LoadTimedOut)] == ["load", "raise"]


def test_load_that_asks_for_its_own_key_computes_through(box: Box) -> None:
    cache = box.invoke()
    depth = 0

    def load() -> int:
        nonlocal depth
        depth += 1
        return depth if depth == 3 else cache.get_or_load("k", load)

    assert cache.get_or_load("k", load) == 3
    assert cache.get_or_load("k", loader(0)) == 3


def test_task_inside_a_load_that_asks_for_its_key_computes_through(box: Box) -> None:
    async def scene() -> Any:
        cache = box.invoke()

        async def inner() -> str:
            return "inner"

        async def outer() -> Any:
            return await asyncio.create_task(cache.get_or_load_async("k", inner))

        return await asyncio.wait_for(cache.get_or_load_async("k", outer), 60)

    assert asyncio.run(scene()) == "inner"


def test_crossing_loads_part_at_the_bound_of_their_wait(box: Box) -> None:
    cache = box.invoke()
    met = threading.Barrier(2)

    def crossing(own: str, other: str) -> Any:
        def load() -> str:
            met.wait(30)
            inner = cache.get_or_load(other, lambda: f"{other} alone", wait_seconds=0.05)
            return f"{own} with {inner}"

        return cache.get_or_load(own, load)

    with ThreadPoolExecutor(2) as pool:
        a = pool.submit(copy_context().run, crossing, "a", "b")
        b = pool.submit(copy_context().run, crossing, "b", "a")
        found = {a.result(60), b.result(60)}

    assert "a with b alone" in found or "b with a alone" in found
    assert box.told(events.LoadTimedOut)
    assert len(box.container.flights) == 0


def test_waiters_of_a_value_that_cannot_be_copied_load_for_themselves(box: Box) -> None:
    load = FakeLoader(threading.Lock(), seconds=LOAD_SECONDS)
    cache = box.invoke()

    found = in_threads(4, lambda: cache.get_or_load("k", load))

    assert len(found) == 4
    assert load.calls == 4


@pytest.mark.parametrize(
    "value", [{1, 2}, {"day": date(2013, 1, 1)}, random.Random(1).randbytes(1_200_000).hex()]
)
def test_value_that_cannot_be_stored_is_loaded_once_for_those_who_wait(
    box: Box, value: object
) -> None:
    """Each of them loaded it: a stampede on whatever is too large or no JSON."""
    load = FakeLoader(value, seconds=LOAD_SECONDS)
    cache = box.invoke()

    found = in_threads(16, lambda: cache.get_or_load("k", load))

    assert found == [value] * 16
    assert load.calls == 1
    assert cache.get("k") is None
    if not isinstance(value, str):
        assert len({id(one) for one in found}) == 16


def test_loop_that_ends_during_a_load_leaves_nothing_behind(box: Box) -> None:
    async def load() -> str:
        await asyncio.sleep(30)
        return "never"

    async def scene() -> None:
        task = asyncio.create_task(box.invoke().get_or_load_async("k", load))
        await asyncio.sleep(LOAD_SECONDS)
        task.cancel()

    asyncio.run(scene())

    assert len(box.container.flights) == 0
    assert box.invoke().get_or_load("k", loader("v")) == "v"
