"""A light dataclass is a dataclass: whatever the genuine decorator promises holds for both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, Generic, TypeVar

import pytest

from sekali import light_dataclass

T = TypeVar("T")
BOTH = {"genuine": dataclasses.dataclass, "light": light_dataclass.dataclass}


def kinds(decorator: Any) -> Any:  # Any: either decorator, and classes that it makes
    """Return classes of every sort that the library has."""

    class Kinds:
        class Base:
            """Stand above."""

            __slots__ = ()

        @decorator(frozen=True, slots=True)
        class Empty(Base):
            """No fields."""

        @decorator(frozen=True, slots=True, kw_only=True)
        class Event(Base):
            """Fields by name."""

            name: str
            count: int = 1
            told: float = dataclasses.field(default=0.0, compare=False, repr=False)

        @decorator(slots=True)
        class Fill:
            """Made in parts."""

            key: str
            tags: list[str] = dataclasses.field(default_factory=list)
            drops: int = dataclasses.field(init=False, default=3)
            later: str = dataclasses.field(init=False)
            clock: Any = dataclasses.field(default_factory=dict, kw_only=True)

            def __post_init__(self) -> None:
                self.later = self.key * 2

        @decorator(slots=True, eq=False)
        class Entry:
            """Is equal to itself alone."""

            key: str

        @decorator(frozen=True, slots=True)
        class Box(Generic[T]):
            """Hold anything."""

            value: T

            def double(self) -> Any:  # Any: twice whatever it is
                return [self.value, self.value]

        @decorator(frozen=True, slots=True)
        class Shown:  # noqa: PLW1641  the decorator gives it one
            """Show itself, and compare as it likes."""

            value: int

            def __repr__(self) -> str:
                return "shown"

            def __eq__(self, other: object) -> bool:
                return True

    return Kinds


@pytest.fixture(params=BOTH)
def of(request: pytest.FixtureRequest) -> Any:
    return kinds(BOTH[request.param])


def test_fields_are_taken_by_place_and_by_name(of: Any) -> None:
    fill = of.Fill("k", clock=1)

    assert (fill.key, fill.tags, fill.drops, fill.later, fill.clock) == ("k", [], 3, "kk", 1)
    assert of.Fill("k").tags is not of.Fill("k").tags
    assert of.Event(name="n") == of.Event(count=1, name="n")
    for wrong in (lambda: of.Event("n"), of.Event, lambda: of.Fill("k", [], 1), of.Fill):
        with pytest.raises(TypeError, match="__init__"):
            wrong()


def test_equal_are_those_of_one_class_with_equal_fields(of: Any) -> None:
    one = of.Event(name="n", told=1.0)

    assert one == of.Event(name="n", told=2.0)
    assert one != of.Event(name="n", count=2)
    assert of.Empty() == of.Empty()
    assert of.Empty() != one
    assert of.Box(1) != of.Shown(1) or of.Shown(1) == of.Box(1)
    assert of.Entry("k") != of.Entry("k")
    assert of.Shown(1) == 2


def test_hash_is_of_the_fields_where_they_cannot_change(of: Any) -> None:
    assert hash(of.Event(name="n", told=1.0)) == hash(of.Event(name="n", told=2.0))
    assert len({of.Box(1), of.Box(1), of.Box(2)}) == 2
    assert of.Entry("k") in {of.Entry("k"): 1} or hash(of.Entry("k"))
    assert hash(of.Shown(1)) == hash(of.Shown(1))
    for unhashable in (of.Fill("k"), of.Box([])):
        with pytest.raises(TypeError, match="unhashable"):
            hash(unhashable)


def test_what_is_frozen_refuses_to_change(of: Any) -> None:
    event = of.Event(name="n")

    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        event.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del event.name
    # The genuine one of 3.11 fails in its own refusal.
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        event.unheard = 1
    assert event.name == "n"


def test_it_shows_its_fields(of: Any) -> None:
    assert repr(of.Event(name="n")).endswith("Event(name='n', count=1)")
    assert repr(of.Shown(1)) == "shown"
    fill = of.Fill("k")
    fill.tags.append(fill)
    assert "..." in repr(fill)


def test_tools_of_dataclasses_know_it(of: Any) -> None:
    event = of.Event(name="n")

    assert [one.name for one in dataclasses.fields(event)] == ["name", "count", "told"]
    assert dataclasses.asdict(event) == {"name": "n", "count": 1, "told": 0.0}
    assert dataclasses.replace(event, count=2) == of.Event(name="n", count=2)
    match of.Box(7):
        case of.Box(value):
            assert value == 7
    assert dataclasses.is_dataclass(of.Event)


def test_copies_are_equal(of: Any) -> None:
    for one in (of.Event(name="n"), of.Box([1])):
        assert copy.copy(one) == one
        assert copy.deepcopy(one) == one
    fill = copy.copy(of.Fill("k", ["t"]))
    assert (fill.key, fill.tags, fill.later) == ("k", ["t"], "kk")


def test_methods_and_slots_are_the_classes_own(of: Any) -> None:
    assert of.Box(2).double() == [2, 2]
    assert not hasattr(of.Event(name="n"), "__dict__")
    assert of.Event.__dataclass_params__.frozen
    assert not of.Fill.__dataclass_params__.frozen


@light_dataclass.dataclass(frozen=True, slots=True)
class Findable:
    """Be found by its name."""

    value: int


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Findable(1))) == Findable(1)  # noqa: S301


def test_its_method_is_written_at_the_first_instance_and_once() -> None:
    event: Any = kinds(light_dataclass.dataclass).Event
    before = event.__init__

    event(name="n")
    written = event.__init__
    event(name="n")

    assert written is event.__init__ is not before
    assert list(inspect.signature(event).parameters) == ["name", "count", "told"]
