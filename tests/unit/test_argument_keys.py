"""Two calls have one key only if they are one call."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekali import cached
from sekali.argument_keys import text_of
from sekali.errors import KeyInvalid, SettingInvalid


class Colour(enum.Enum):
    RED = 1


class Shade(enum.IntEnum):
    RED = 1


class Right(enum.IntFlag):
    READ = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Place:
    name: str


@dataclass(frozen=True)
class Town:
    name: str


@dataclass
class Changing:
    name: str


class Tenant:
    def __init__(self, name: str) -> None:
        self.name = name

    def cache_key(self) -> str:
        return self.name


class Tenant1(Tenant):
    """Its name ends in what may be taken for the length of what follows."""


UTC_PLUS_1 = dt.timezone(dt.timedelta(hours=1))
DIFFERENT: list[Any] = [
    bytearray(b"1"),
    Right(8),
    Right(16),
    [Tenant1("ab"), "abcdefg"],
    [Tenant("abs7:abcdefg")],
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    0.0,
    "1",
    "",
    b"1",
    "None",
    (),
    [],
    {},
    set(),
    frozenset(),
    (1,),
    [1],
    {1},
    {1: 2},
    {"1": 2},
    (1, 2),
    ((1,), 2),
    ("a", "bc"),
    ("ab", "c"),
    Colour.RED,
    Shade.RED,
    Point(1, 2),
    Place("x"),
    Town("x"),
    Place,
    Tenant("x"),
    Tenant("y"),
    decimal.Decimal(1),
    uuid.UUID(int=1),
    dt.date(2013, 1, 1),
    dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2013, 1, 1, tzinfo=UTC_PLUS_1),
    dt.timedelta(1),
]


def test_no_two_of_these_share_a_key() -> None:
    texts = [text_of({"a": value}) for value in DIFFERENT]

    assert len(set(texts)) == len(DIFFERENT)


def test_order_of_a_dictionary_or_a_set_does_not_matter() -> None:
    assert text_of({"a": {"x": 1, "y": 2}}) == text_of({"a": {"y": 2, "x": 1}})
    assert text_of({"a": {"x", "y", "z"}}) == text_of({"a": {"z", "y", "x"}})


@pytest.mark.parametrize("value", [object(), Changing("x"), lambda: 1, [object()]])
def test_what_has_no_text_is_refused_with_its_name(value: object) -> None:
    with pytest.raises(KeyInvalid, match="argument 'a' must be plain data"):
        text_of({"a": value})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON, JSON)
def test_key_is_shared_only_by_equal_arguments_of_equal_types(one: object, other: object) -> None:
    same = text_of({"a": one}) == text_of({"a": other})

    assert same == (repr_of(one) == repr_of(other))


def repr_of(value: Any) -> str:  # Any: JSON
    if isinstance(value, dict):
        return f"{{{sorted((name, repr_of(inner)) for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[repr_of(inner) for inner in value]}"
    return repr(value)


@cached()
def plain(a: int, b: int = 2, *more: int, **named: int) -> int:
    return a + b + sum(more) + sum(named.values())


class Report:
    def __init__(self, tenant: str) -> None:
        self.tenant = tenant

    def cache_key(self) -> str:
        return self.tenant

    @cached()
    def total(self, month: str) -> str:
        return f"{self.tenant} {month}"

    @classmethod
    @cached()
    def of_class(cls, month: str) -> str:
        return month


class Other(Report):
    pass


def test_defaults_and_keywords_make_no_difference() -> None:
    assert plain.key_for(1) == plain.key_for(1, 2) == plain.key_for(b=2, a=1)
    assert plain.key_for(1, 2, 3) != plain.key_for(1, 2, c=3)
    assert plain.key_for(1, 2, c=3, d=4) == plain.key_for(1, 2, d=4, c=3)


def test_methods_of_two_objects_or_two_classes_do_not_collide() -> None:
    keys = [
        Report("a").total.key_for("2013-01"),
        Report("b").total.key_for("2013-01"),
        Other("a").total.key_for("2013-01"),
        Report("a").total.key_for("2013-02"),
    ]

    assert len(set(keys)) == 4
    assert Report("a").total.key_for("2013-01") == keys[0]


def test_function_without_a_name_of_its_own_is_refused() -> None:
    with pytest.raises(KeyInvalid, match="must be defined at module or class level"):
        cached()(lambda: 1)

    assert cached(name="one")(lambda: 1).key_for() == "one()"


def test_negative_ttl_is_refused_where_it_is_written() -> None:
    with pytest.raises(SettingInvalid, match="soft_ttl_seconds"):
        cached(soft_ttl_seconds=-1)
