"""Functions whose results are cached, in threads and on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sekali import Loaded, cached
from tests.cache_kit import Box, Fleet

if TYPE_CHECKING:
    from redis import Redis

    from sekali.tiered import Tiered


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box()


def test_function_is_computed_once_for_each_arguments(box: Box) -> None:
    calls: list[tuple[int, int]] = []

    @cached(ttl_seconds=60, cache=box.invoke, name="add")
    def add(a: int, b: int = 1) -> int:
        calls.append((a, b))
        return a + b

    assert [add(1), add(1, b=1), add(2), add(1)] == [2, 2, 3, 2]
    assert calls == [(1, 1), (2, 1)]
    assert add.__wrapped__(5) == 6


def test_result_is_shared_by_containers_and_invalidated_in_all(fleet: Fleet) -> None:
    calls: list[str] = []
    boxes = [fleet.box(), fleet.box()]

    def version(cache: Tiered) -> int:
        @cached(cache=lambda: cache, name="version", tags=["month:{month}"])
        def of(month: str) -> int:
            calls.append(month)
            return len(calls)

        return of("2013-01")

    first = [version(box.invoke()) for box in boxes]
    boxes[0].invoke().invalidate(tags=["month:2013-01"])
    second = [version(box.invoke()) for box in boxes]

    assert (first, second) == ([1, 1], [2, 2])


def test_one_call_can_be_invalidated(box: Box) -> None:
    numbers = iter(range(10))

    @cached(cache=box.invoke, name="next", key=lambda name: name)
    def following(name: str) -> int:
        del name
        return next(numbers)

    before = [following("a"), following("b")]
    following.invalidate("a")

    assert before == [0, 1]
    assert [following("a"), following("b")] == [2, 1]
    assert following.key_for("a") == "next/a"


def test_coroutine_function_is_awaited_on_its_loop(box: Box) -> None:
    calls: list[str] = []

    @cached(cache=box.invoke, name="slow")
    async def slow(name: str) -> Loaded[str] | str:
        calls.append(name)
        await asyncio.sleep(0)
        return Loaded(name.upper(), ttl_seconds=5)

    async def both() -> list[object]:
        return [await slow("a"), *await asyncio.gather(slow("a"), slow("b"))]

    assert asyncio.run(both()) == ["A", "A", "B"]
    assert calls == ["a", "b"]
