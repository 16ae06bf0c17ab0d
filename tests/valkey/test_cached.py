"""Functions whose results are cached, in threads and on an event loop."""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sekali import Loaded, cached
from sekali.errors import KeyInvalid, SettingInvalid
from tests.cache_kit import Box, Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@dataclass(frozen=True)
class Point:
    x: int


@dataclass
class Spot:
    x: int


class Colour(enum.IntEnum):
    RED = 1


ARGUMENTS: tuple[object, ...] = (
    1, True, 1.0, "1", b"1", None, [1], (1,), {1}, {"a": 1}, Point(1), Colour.RED, math.nan, 0.0,
    -0.0, "", [], (), {}, [[1], []], [[1, []]],
)  # fmt: skip


def test_arguments_that_are_equal_to_python_but_not_the_same_are_other_calls(box: Box) -> None:
    @cached(cache=box.invoke, name="shown")
    def shown(value: object, *more: object, last: int = 3, **rest: object) -> str:
        return repr((value, more, last, rest))

    assert [shown(one) for one in ARGUMENTS] == [shown.__wrapped__(one) for one in ARGUMENTS]
    assert len({shown.key_for(one) for one in ARGUMENTS}) == len(ARGUMENTS)
    assert shown.key_for(1, last=3) == shown.key_for(value=1)
    assert shown.key_for(1, b=1, a=2) == shown.key_for(1, a=2, b=1)
    assert shown.key_for(1, 2) != shown.key_for((1, 2))


@pytest.mark.parametrize("value", [object(), Spot(1), len, iter([])])
def test_argument_that_has_no_text_is_refused_and_named(box: Box, value: object) -> None:
    @cached(cache=box.invoke, name="shown")
    def shown(value: object) -> str:
        return repr(value)

    with pytest.raises(KeyInvalid, match="argument 'value' must be plain data"):
        shown(value)


class Shop:
    """What a method is cached of."""

    opened: Callable[[], Tiered]

    def __init__(self, name: str) -> None:
        self.name = name

    def cache_key(self) -> str:
        return self.name

    @cached(cache=lambda: Shop.opened(), tags=["shop:{self.name}"])  # noqa: PLW0108 - set later
    def price(self, of: str) -> list[str]:
        """Tell the price."""
        return [self.name, of]

    @classmethod
    @cached(cache=lambda: Shop.opened())  # noqa: PLW0108
    def kind(cls) -> str:
        return cls.__name__

    @staticmethod
    @cached(cache=lambda: Shop.opened())  # noqa: PLW0108
    def rate(of: str) -> str:
        return of.upper()

    @property
    @cached(cache=lambda: Shop.opened())  # noqa: PLW0108
    def owner(self) -> str:
        return f"owner of {self.name}"


class Branch(Shop):
    """One that inherits it."""


def test_methods_of_every_kind_are_told_apart(box: Box) -> None:
    cache = box.invoke()
    Shop.opened = lambda: cache
    one, other = Shop("one"), Shop("other")

    for _ in range(2):
        assert [one.price("a"), other.price("a")] == [["one", "a"], ["other", "a"]]
        assert [Shop.kind(), Branch.kind(), one.kind()] == ["Shop", "Branch", "Shop"]
        assert [Shop.rate("a"), one.rate("b")] == ["A", "B"]
        assert [one.owner, other.owner] == ["owner of one", "owner of other"]


def test_bound_method_is_the_function_in_everything(box: Box) -> None:
    Shop.opened = box.invoke
    method: Any = Shop("one").price  # Any: bound

    assert (method.__name__, method.__doc__) == ("price", "Tell the price.")
    assert method.__wrapped__("a") == ["one", "a"]
    assert method.tags_for("a") == ("shop:one",)
    assert method.key_for("a") == Shop.price.key_for(Shop("one"), "a")


@pytest.mark.parametrize(
    "options",
    [{"ttl_seconds": -1}, {"ttl_seconds": True}, {"level": "x"}, {"wait_seconds": -1}],
    ids=repr,
)
def test_wrong_option_is_refused_where_it_is_written(options: Any) -> None:
    with pytest.raises(SettingInvalid):
        cached(**options)


def test_misspelt_option_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="there is no option 'tll'"):
        cached(tll=1)


def test_generator_is_refused_where_it_is_written() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    class Numbers:
        def __call__(self) -> Iterator[int]:
            yield 1

    for one in (numbers, Numbers()):
        with pytest.raises(TypeError, match="return a list"):
            cached(name="numbers")(one)


@pytest.mark.parametrize("about", [{"tags": ["month:{mnth}"]}, {"key": "{mnth}"}], ids=repr)
def test_template_that_names_no_argument_is_refused_where_it_is_written(about: Any) -> None:
    def of(month: str) -> str:
        return month

    with pytest.raises(KeyInvalid, match="must name arguments of months only"):
        cached(name="months", **about)(of)


def test_key_and_tags_may_be_templates_or_functions(box: Box) -> None:
    def of(month: str) -> str:
        return month

    written = cached(cache=box.invoke, name="n", key="m-{month}", tags="t:{month}")(of)
    made = cached(
        cache=box.invoke, name="n", key=lambda month: f"m-{month}", tags=lambda month: f"t:{month}"
    )(of)

    assert written.key_for("1") == made.key_for(month="1") == "n/m-1"
    assert written.tags_for("1") == made.tags_for("1") == ("t:1",)


def test_function_that_has_no_name_of_its_own_is_refused(box: Box) -> None:
    with pytest.raises(KeyInvalid, match="or be given a name"):
        cached(cache=box.invoke)(lambda: 1)


def test_object_whose_call_is_a_coroutine_is_awaited(box: Box) -> None:
    class Fetch:
        calls = 0

        async def __call__(self, of: str) -> str:
            self.calls += 1
            return of

    fetch = Fetch()
    fetched: Any = cached(cache=box.invoke, name="fetch")(fetch)  # Any: of an object

    async def twice() -> list[str]:
        return [await fetched("a"), await fetched("a")]

    assert asyncio.run(twice()) == ["a", "a"]
    assert fetch.calls == 1


def test_loops_may_come_and_go_with_the_calls_of_one_invocation(box: Box) -> None:
    cache = box.invoke()

    @cached(cache=lambda: cache, name="slow")
    async def slow(name: str) -> str:
        await asyncio.sleep(0)
        return name

    assert [asyncio.run(slow(name)) for name in ("a", "b", "a")] == ["a", "b", "a"]
    assert len(box.container.flights) == 0


def test_error_of_the_function_is_the_callers_and_nothing_is_kept(box: Box) -> None:
    calls: list[int] = []

    @cached(cache=box.invoke, name="once")
    def once() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("not yet")
        return "v"

    with pytest.raises(LookupError, match="not yet"):
        once()

    assert [once(), once()] == ["v", "v"]
    assert len(calls) == 2
