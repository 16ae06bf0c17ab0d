"""Values are packed by a named codec, compressed where that pays, and bounded in size."""

from __future__ import annotations

import datetime as dt
import zlib
from dataclasses import dataclass
from typing import Any

import pytest

from sekali.errors import ResultUnencodable, ValueTooLarge, ValueUnreadable
from sekali.packing import PLAIN, MsgpackCodec, Packing

LONG = {"rows": ["the same words again"] * 1_000}


def there_and_back(packing: Packing, value: object) -> Any:  # Any: what the codec makes of it
    packed = packing.pack(value)
    return packing.decode(packing.unpack(packed.stored, packed.packing))


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1, None]}, LONG])
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert there_and_back(PLAIN, value) == value


def test_a_large_value_is_compressed_and_a_small_one_is_not() -> None:
    large, small = PLAIN.pack(LONG), PLAIN.pack("short")

    assert len(large.stored) < len(large.body) / 10
    assert (large.packing, small.packing) == ("+z", "")
    assert small.stored is small.body


def test_what_does_not_get_smaller_is_stored_as_it_is() -> None:
    import random

    noise = random.Random(1).randbytes(8_000).hex()[:9_000]
    incompressible = Packing(codec=Bytes())

    packed = incompressible.pack(random.Random(1).randbytes(9_000))

    assert packed.packing == "bytes"
    assert PLAIN.pack(noise).packing == "+z"


class Bytes:
    """Carry bytes as they are."""

    name = "bytes"

    def encode(self, value: bytes) -> bytes:
        return bytes(value)

    def decode(self, body: bytes) -> bytes:
        return body


def test_msgpack_carries_bytes() -> None:
    packing = Packing(codec=MsgpackCodec())

    assert there_and_back(packing, {"raw": b"\x00\xff", 1: "one"}) == {"raw": b"\x00\xff", 1: "one"}


@dataclass(frozen=True)
class Day:
    date: dt.date


class Days:
    """Carry days as text."""

    name = "days-1"

    def encode(self, value: Day) -> bytes:
        return value.date.isoformat().encode()

    def decode(self, body: bytes) -> Day:
        return Day(dt.date.fromisoformat(body.decode()))


def test_a_codec_of_the_users_carries_what_it_is_for() -> None:
    packing = Packing(codec=Days())

    assert there_and_back(packing, Day(dt.date(2013, 1, 1))) == Day(dt.date(2013, 1, 1))
    with pytest.raises(ValueUnreadable, match="garbage"):
        packing.decode(b"no date")


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), {1: 2}])
def test_what_the_codec_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(ResultUnencodable):
        PLAIN.pack(value)


def test_an_error_of_a_codec_says_no_value() -> None:
    class Telling(Days):
        def encode(self, value: Any) -> bytes:  # Any: whatever comes
            raise TypeError(f"secret {value}")

    with pytest.raises(ResultUnencodable) as refused:
        Packing(codec=Telling()).pack("password")

    assert "password" not in str(refused.value)


def test_a_value_above_the_limit_is_refused_by_what_would_be_stored() -> None:
    assert Packing(most_bytes=1_000).pack(LONG).packing == "+z"
    with pytest.raises(ValueTooLarge, match="at most 10 bytes"):
        Packing(most_bytes=10).pack("x" * 20)


@pytest.mark.parametrize(
    "other", [Packing(fingerprint="2"), Packing(codec=Days()), Packing(codec=MsgpackCodec())]
)
def test_bytes_of_another_codec_or_schema_are_unreadable(other: Packing) -> None:
    packed = Packing(fingerprint="1").pack("v")

    with pytest.raises(ValueUnreadable, match="fingerprint"):
        other.unpack(packed.stored, packed.packing)


@pytest.mark.parametrize("stored", [b"no zlib", zlib.compress(b"x" * 100)[:-5]])
def test_damaged_compressed_bytes_are_unreadable(stored: bytes) -> None:
    with pytest.raises(ValueUnreadable, match="garbage"):
        PLAIN.unpack(stored, "+z")


def test_a_small_value_cannot_fill_the_memory() -> None:
    bomb = zlib.compress(b"0" * 2_000_000)

    with pytest.raises(ValueUnreadable, match="garbage"):
        Packing(most_bytes=10_000).unpack(bomb, "+z")
