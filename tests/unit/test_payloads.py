"""Typed payloads become the JSON object that their fields say."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from sekali.codec import payload_hash
from sekali.errors import MessageInvalid
from sekali.payloads import plain

NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)


class Asked(TypedDict):
    month: str
    carrier: str


class Carrier(enum.StrEnum):
    UNITED = "UA"


@dataclass(frozen=True)
class Leg:
    origin: str
    minutes: float


@dataclass
class Journey:
    carrier: Carrier
    legs: list[Leg]
    names: dict[str, Leg] = field(default_factory=dict)


class Struct(msgspec.Struct):
    month: str
    since: datetime
    leg: Leg | None = None


class Model(pydantic.BaseModel):
    month: str
    day: date
    inner: Model | None = None


@dataclass
class Mixed:
    struct: Struct
    models: list[Model]


TYPED: list[tuple[Any, dict[str, Any]]] = [
    (Asked(month="2013-01", carrier="UA"), {"month": "2013-01", "carrier": "UA"}),
    (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
    (
        Journey(Carrier.UNITED, [Leg("JFK", 1.5)], {"back": Leg("EWR", 2)}),
        {
            "carrier": "UA",
            "legs": [{"origin": "JFK", "minutes": 1.5}],
            "names": {"back": {"origin": "EWR", "minutes": 2}},
        },
    ),
    (
        Struct("2013-01", NEW_YEAR, Leg("JFK", 1.5)),
        {
            "month": "2013-01",
            "since": "2013-01-01T00:00:00Z",
            "leg": {"origin": "JFK", "minutes": 1.5},
        },
    ),
    (
        Model(month="2013-01", day=NEW_YEAR, inner=Model(month="2013-02", day=NEW_YEAR)),
        {
            "month": "2013-01",
            "day": "2013-01-01",
            "inner": {"month": "2013-02", "day": "2013-01-01", "inner": None},
        },
    ),
    (
        Mixed(Struct("2013-01", NEW_YEAR), [Model(month="2013-01", day=NEW_YEAR)]),
        {
            "struct": {"month": "2013-01", "since": "2013-01-01T00:00:00Z", "leg": None},
            "models": [{"month": "2013-01", "day": "2013-01-01", "inner": None}],
        },
    ),
]


@pytest.mark.parametrize(("payload", "expected"), TYPED, ids=lambda value: type(value).__name__)
def test_typed_payload_is_its_fields(payload: Any, expected: dict[str, Any]) -> None:
    found = plain(payload)

    assert found == expected
    assert payload_hash(found) == payload_hash(expected)


class Tuple(msgspec.Struct, array_like=True):
    month: str


@pytest.mark.parametrize("payload", [[1], "text", None, 7, Leg, Tuple("2013-01"), object()])
def test_what_is_no_object_is_refused_by_its_type(payload: Any) -> None:
    with pytest.raises(MessageInvalid) as caught:
        plain(payload)

    assert (caught.value.reason, caught.value.field) == ("wrong_type", "payload")
    assert caught.value.value == type(payload).__name__


def test_field_that_json_cannot_carry_is_left_for_the_check_that_names_it() -> None:
    """A copy of a dataclass would fail on the lock, and say nothing about the field."""

    @dataclass
    class Holder:
        lock: object

    found = plain(Holder(threading.Lock()))

    with pytest.raises(MessageInvalid, match=r"payload\.lock is not JSON, got 'lock'"):
        payload_hash(found)
