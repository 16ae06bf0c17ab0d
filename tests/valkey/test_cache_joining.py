"""Who joins a load under way gets nothing that has fallen since, and waits for nobody in vain."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from sekali.lifetimes import Loaded
from sekali.testing import FakeLoader
from tests.cache_kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

    from sekali.tiered import Tiered

    Fall = Callable[[Tiered], object]

DEADLINE_SECONDS = 10.0
LOAD_SECONDS = 0.1
WAIT_SECONDS = 0.25  # for a load, and hardly for the cooling of its key


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


FALLS: dict[str, Fall] = {
    "key": lambda cache: cache.invalidate(["k"]),
    "tag": lambda cache: cache.invalidate(tags=["t"]),
}


@contextmanager
def flying(cache: Tiered, **options: Any) -> Iterator[None]:  # Any: as in look_up
    """Keep a load of k under way, which has read what is old; it ends soon after the block."""
    began, go_on = threading.Event(), threading.Event()

    def load() -> Any:  # Any: a value that decides its tags
        began.set()
        go_on.wait(DEADLINE_SECONDS)
        return Loaded("old", tags=["t"])

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(lambda: cache.get_or_load("k", load, **options))
        began.wait(DEADLINE_SECONDS)
        threading.Timer(LOAD_SECONDS, go_on.set).start()
        yield
        assert leader.result(DEADLINE_SECONDS) == "old"


@pytest.mark.parametrize("fall", FALLS)
@pytest.mark.parametrize("tags", [["t"], []], ids=["named", "chosen"])
def test_caller_after_an_invalidation_joins_no_load_from_before_it(
    fleet: Fleet, fall: str, tags: Any
) -> None:
    """It was given the value of the load under way, which had read what was there before."""
    cache = fleet.box(SystemClock()).invoke()

    def new() -> Any:  # Any: as above
        return Loaded("new", tags=["t"])

    with flying(cache, tags=tags):
        FALLS[fall](cache)
        found = [cache.get_or_load("k", new, tags=tags) for _ in range(2)]

    assert found == ["new", "new"]
    assert len(cache._flights) == 0  # noqa: SLF001 - the table


@pytest.mark.parametrize("which", ["get_or_load", "get_or_load_async", "get_or_load_many"])
def test_strict_caller_believes_no_load_that_began_before_its_call(
    fleet: Fleet, which: str
) -> None:
    cache = fleet.box(SystemClock()).invoke()

    with flying(cache):
        fleet.box().invoke().invalidate(["k"])
        found = strictly(cache, which)

    assert found == "new"


def strictly(cache: Tiered, which: str) -> object:
    if which == "get_or_load_many":
        return cache.get_or_load_many(["k"], lambda _: {"k": "new"}, level="strict")["k"]
    if which == "get_or_load":
        return cache.get_or_load("k", FakeLoader("new"), level="strict")

    async def load() -> str:
        return "new"

    return asyncio.run(cache.get_or_load_async("k", load, level="strict"))


def test_invocation_believes_no_load_that_began_before_it(fleet: Fleet) -> None:
    """In a process that keeps running: a load of one second's invocation lasts into the next."""
    box = fleet.box(SystemClock())

    with flying(box.invoke()):
        fleet.box().invoke().invalidate(["k"])
        found = box.invoke().get_or_load("k", FakeLoader("new"))

    assert found == "new"


def test_invocation_takes_what_a_load_from_before_it_has_stored(fleet: Fleet) -> None:
    box = fleet.box(SystemClock())

    with flying(box.invoke()):
        found = box.invoke().look_up("k", FakeLoader("new"))

    assert (found.value, found.source) == ("old", "local")


def test_failure_of_a_load_from_before_is_not_this_callers(fleet: Fleet) -> None:
    box = fleet.box(SystemClock())
    broken = FakeLoader(OSError("no route"), seconds=LOAD_SECONDS)

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(box.invoke().get_or_load, "k", broken)
        while not broken.calls:
            time.sleep(0.001)
        found = box.invoke().get_or_load("k", FakeLoader("v"))

    assert found == "v"
    assert isinstance(leader.exception(), OSError)


def test_strict_threads_on_one_cold_key_load_once(fleet: Fleet) -> None:
    load = FakeLoader([1], seconds=LOAD_SECONDS)
    cache = fleet.box(SystemClock()).invoke()

    with ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(cache.get_or_load, "k", load, level="strict") for _ in range(16)]
        found = [call.result(DEADLINE_SECONDS) for call in calls]

    assert found == [[1]] * 16
    assert load.calls == 1


class Killed(BaseException):
    """Something that is no Exception."""


@pytest.mark.parametrize("error", [asyncio.CancelledError, Killed, KeyError])
def test_loader_that_cancels_itself_is_run_once_for_each_caller(
    fleet: Fleet, error: type[BaseException]
) -> None:
    """Its caller was told that nobody led, led again, and loaded for ever."""
    cache = fleet.box(SystemClock()).invoke()
    calls = 0

    async def load() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.01)
        raise error

    async def scene() -> list[Any]:  # Any: what became of each caller
        tasks = [asyncio.create_task(cache.get_or_load_async("k", load)) for _ in range(3)]
        await asyncio.wait(tasks, timeout=DEADLINE_SECONDS)
        return [task.cancelled() or isinstance(task.exception(), error) for task in tasks]

    assert asyncio.run(scene()) == [True] * 3
    assert calls <= 3
    assert len(cache._flights) == 0  # noqa: SLF001 - the table


def test_loop_that_was_closed_during_a_load_holds_its_key_as_a_dead_container_does(
    fleet: Fleet, valkey: Redis
) -> None:
    """Its flight stayed in the table: callers of the key waited for it, each to its bound."""
    cache = fleet.box(SystemClock()).invoke()

    async def never() -> None:
        await asyncio.sleep(DEADLINE_SECONDS * 10)

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cache.get_or_load_async("k", never), 0.05)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    for lease in valkey.keys("*lease*"):
        valkey.delete(lease)
    began = time.monotonic()

    assert cache.get_or_load("k", FakeLoader("v")) == "v"
    assert time.monotonic() - began < DEADLINE_SECONDS
    assert len(cache._flights) == 0  # noqa: SLF001 - the table


@pytest.mark.parametrize("content", ["older", "ttl"])
def test_caller_believes_no_flight_whose_leader_was_content_with_less(
    fleet: Fleet, content: str
) -> None:
    """Its leader fell back on a value that only the leader's own level allowed."""
    box = fleet.box(SystemClock())
    cache = box.invoke()
    cache.get_or_load("k", FakeLoader("old"), soft_ttl_seconds=0)
    older = cache if content == "older" else box.invoke()
    fleet.box().invoke().invalidate(["k"])
    newer = box.invoke() if content == "older" else older

    with failing(older, level="ttl" if content == "ttl" else None, soft_ttl_seconds=0):
        found = newer.get_or_load("k", FakeLoader("new"), wait_seconds=WAIT_SECONDS)

    assert found == "new"
    assert len(box.container.flights) == 0


def test_caller_believes_no_stale_value_that_only_the_leader_allows(fleet: Fleet) -> None:
    box = fleet.box(SystemClock())
    cache = box.invoke()
    cache.get_or_load("k", FakeLoader("old"), ttl_seconds=0.01, stale_if_error_seconds=60)
    time.sleep(0.02)

    with failing(cache, stale_if_error_seconds=60):
        found = cache.get_or_load("k", FakeLoader("new"), wait_seconds=WAIT_SECONDS)

    assert found == "new"


@contextmanager
def failing(cache: Tiered, **options: Any) -> Iterator[None]:  # Any: as in look_up
    """Keep a load of k under way; it fails soon after the block began, and "old" is served."""
    began, go_on = threading.Event(), threading.Event()

    def load() -> str:
        began.set()
        go_on.wait(DEADLINE_SECONDS)
        raise OSError("no route")

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(lambda: cache.get_or_load("k", load, **options))
        assert began.wait(DEADLINE_SECONDS)
        threading.Timer(LOAD_SECONDS, go_on.set).start()
        yield
        assert leader.result(DEADLINE_SECONDS) == "old"


@pytest.mark.parametrize("fall", FALLS)
def test_caller_after_an_invalidation_joins_no_load_that_began_during_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, fall: str
) -> None:
    """It was given what that load had found just before the value was gone."""
    box = fleet.box(SystemClock())
    cache = box.invoke()
    cache.get_or_load("k", lambda: Loaded("old", tags=["t"]), soft_ttl_seconds=0)
    honest = box.container.shared.flush
    with ExitStack() as during, monkeypatch.context() as patch:

        def flush(*args: Any, **options: Any) -> list[Any]:  # Any: as Shared.flush
            patch.undo()
            during.enter_context(failing(cache, soft_ttl_seconds=0))
            return honest(*args, **options)

        patch.setattr(box.container.shared, "flush", flush)
        FALLS[fall](cache)
        found = cache.get_or_load("k", FakeLoader("new"), wait_seconds=WAIT_SECONDS)

    assert found == "new"
