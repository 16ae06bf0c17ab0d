"""Values are carried exactly, or refused by name; foreign values are misses."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import struct
import tracemalloc
from collections import OrderedDict
from typing import Any
from zlib import crc32

import pytest

from sekali import codec
from sekali.errors import MessageInvalid, ResultUnencodable, ValueUnreadable

KEY = "monthly-delays/2013-01/UA"


def envelope(body: bytes = b'{"mean":4.5}', **changes: Any) -> bytes:  # Any: arguments of header
    about: dict[str, Any] = {  # Any: as above
        "fence": 1_700_000_000_000_123,
        "key": KEY,
        "created": 1_700_000_000.25,
        "ttl_seconds": 3_600.0,
        "epochs": {"flights": "a1b2"},
        **changes,
    }
    return codec.header(about.pop("fence"), body=body, **about) + body


@pytest.mark.parametrize(
    "value",
    [
        None,
        False,
        True,
        0,
        "",
        [],
        {},
        0.0,
        -0.0,
        1,
        1.0,
        -7,
        2**70,
        1e-300,
        "é",
        "e\u0301",
        "\ud800",
        "\x00",
    ],
    ids=ascii,
)
def test_every_plain_value_comes_back_as_itself(value: object) -> None:
    back = codec.decode(codec.encode(value))

    assert (back, type(back)) == (value, type(value))
    assert math.copysign(1, back) == math.copysign(1, value) if isinstance(value, float) else True


def test_a_tuple_comes_back_as_a_list_and_a_subclass_as_what_it_extends() -> None:
    class Grade(enum.IntEnum):
        BEST = 1

    back = codec.decode(
        codec.encode({"pair": (1, (2,)), "grade": Grade.BEST, "o": OrderedDict(a=1)})
    )

    assert back == {"pair": [1, [2]], "grade": 1, "o": {"a": 1}}
    assert (type(back["grade"]), type(back["o"])) == (int, dict)


@pytest.mark.parametrize(
    ("value", "type_name", "path", "rule"),
    [
        (dt.date(2013, 1, 1), "date", "$", "is not JSON"),
        (
            {"rows": [1, {"day": dt.datetime(2013, 1, 1, tzinfo=dt.UTC)}]},
            "datetime",
            "$.rows[1].day",
            "is not JSON",
        ),
        ([decimal.Decimal(1)], "Decimal", "$[0]", "is not JSON"),
        ({"raw": b"bytes"}, "bytes", "$.raw", "is not JSON"),
        ({"two words": {1, 2}}, "set", "$['two words']", "is not JSON"),
        ({"a": [0.0, math.nan]}, "float", "$.a[1]", "is not a finite number"),
        ((math.inf,), "float", "$[0]", "is not a finite number"),
        ({"a": {1: "one"}}, "int", "$.a", "cannot be a key: keys are text"),
        ({None: 1}, "NoneType", "$", "cannot be a key: keys are text"),
        ({True: 1}, "bool", "$", "cannot be a key: keys are text"),
        ({(1, 2): 1}, "tuple", "$", "cannot be a key: keys are text"),
        ([10**5_000], "int", "$[0]", "has too many digits"),
        (object, "type", "$", "is not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_json_cannot_carry_is_refused_with_type_and_path(
    value: object, *, type_name: str, path: str, rule: str
) -> None:
    with pytest.raises(ResultUnencodable) as caught:
        codec.encode(value, job="monthly-delays")

    error = caught.value
    assert (error.job, error.type_name, error.path, error.rule) == (
        "monthly-delays",
        type_name,
        path,
        rule,
    )


def test_a_value_that_holds_itself_is_refused() -> None:
    knot: list[object] = []
    knot.append({"again": knot})

    with pytest.raises(ResultUnencodable, match="is nested more than 100 deep"):
        codec.encode(knot)


@pytest.mark.parametrize("write", [codec.encode, codec.payload_hash])
def test_a_value_that_holds_itself_is_refused_before_it_fills_the_memory(write: Any) -> None:
    """Symptom: a body's result with a circle in it took the container of its batch down."""
    circle: dict[str, object] = {"text": "x" * 20_000}
    circle["then again"] = circle

    tracemalloc.start()
    try:
        with pytest.raises((ResultUnencodable, MessageInvalid)):
            write(circle)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most_bytes < 1_000_000


@pytest.mark.parametrize("levels", [101, 5_000])
def test_depth_is_bounded(levels: int) -> None:
    allowed: list[object] = []
    for _ in range(codec.MOST_LEVELS):
        allowed = [allowed]
    deep: list[object] = []
    for _ in range(levels):
        deep = [deep]

    assert codec.decode(codec.encode(allowed)) == allowed
    with pytest.raises(ResultUnencodable, match="is nested more than 100 deep"):
        codec.encode(deep)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b"[Infinity]", b"\xff", b"1 2", b"[" * 100_000]
)
def test_bytes_that_are_no_value_are_garbage(body: bytes) -> None:
    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.decode(body)


def test_the_hash_of_a_payload_ignores_the_order_of_keys() -> None:
    one = codec.payload_hash({"month": "2013-01", "at": {"a": 1, "b": [1, 2]}})
    other = codec.payload_hash({"at": {"b": (1, 2), "a": 1}, "month": "2013-01"})

    assert one == other
    assert len(one) == 32


def test_the_hash_of_a_payload_tells_everything_else_apart() -> None:
    ones: list[object] = [1, 1.0, True, "1", [1], [[1]], {"a": 1}]
    nothings: list[object] = [None, 0, False, 0.0, -0.0, "", [], {}]
    texts: list[object] = ["é", "e\u0301", "\ud83d\ude00", "\U0001f600", "\ud800"]
    inside = [{"a": value} for value in ones + nothings + texts]
    payloads = [*inside, {"A": 1}, {}, {"a": [1, 2]}, {"a": [2, 1]}]

    assert len({codec.payload_hash(payload) for payload in payloads}) == len(payloads)


def test_the_hash_of_a_payload_stays_what_it_was() -> None:
    """A change would turn every redelivered message into a mismatch after a deployment."""
    payload = {"month": "2013-01", "carrier": "UA", "limits": [1, 2.5, None, True], "naïve": "é"}

    assert codec.payload_hash(payload) == "1a3f7b77c6b3fa4fb9196fb97c119385"


def test_a_payload_that_is_not_json_is_a_fault_of_the_message() -> None:
    with pytest.raises(MessageInvalid) as caught:
        codec.payload_hash({"legs": [{"at": dt.date(2013, 1, 1)}]})

    error = caught.value
    assert (error.reason, error.field, error.value) == ("wrong_type", "payload.legs[0].at", "date")


def test_an_envelope_gives_back_what_was_put_in() -> None:
    opened = codec.read(envelope(), key=KEY)

    assert opened == codec.Opened(
        fence=1_700_000_000_000_123,
        body=b'{"mean":4.5}',
        created=1_700_000_000.25,
        ttl_seconds=3_600.0,
        epochs={"flights": "a1b2"},
    )


def test_an_empty_body_and_any_key_text_can_be_carried() -> None:
    key = 'a/b\n{x}"é\ud800'

    assert codec.read(envelope(b"", key=key, epochs={}), key=key).body == b""


def test_the_fence_stands_first_in_sixteen_digits() -> None:
    value = envelope(fence=42)

    assert value[:16] == b"0000000000000042"
    assert codec.fence_of(value) == 42


@pytest.mark.parametrize("fence", [-1, 2**53])
def test_a_fence_that_a_script_cannot_compare_is_refused(fence: int) -> None:
    with pytest.raises(ValueError, match="fence must be between 0 and 9007199254740991"):
        envelope(fence=fence)


@pytest.mark.parametrize(
    "value", [b"", b"123", b"not ours at all, but long enough to look", b"1e15            "]
)
def test_the_fence_of_a_foreign_value_refuses_whatever_a_script_may_read_there(
    value: bytes,
) -> None:
    assert codec.fence_of(value) == codec.GREATEST_FENCE


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "garbage"),
        (b'{"mean": 4.5}', "garbage"),
        (b"\x80\x04\x95pickled, from somebody else's cache\x94.", "garbage"),
        (envelope()[:15], "garbage"),
        (envelope()[:31], "checksum"),
        (envelope()[:69], "checksum"),
        (envelope()[:16] + b"01" + envelope()[18:], "version"),
        (envelope()[:-1], "checksum"),
        (envelope() + b" ", "checksum"),
        (envelope().replace(b"4.5", b"4.6"), "checksum"),
        (envelope().replace(b"a1b2", b"a1b3"), "checksum"),
        (b"9" + envelope()[1:], "checksum"),
        (envelope(key="monthly-delays/2013-01/AA"), "key"),
    ],
)
def test_a_value_that_cannot_be_trusted_is_unreadable_for_a_reason(
    value: bytes, reason: str
) -> None:
    with pytest.raises(ValueUnreadable) as caught:
        codec.read(value, key=KEY)

    assert caught.value.reason == reason


def forged(
    numbers: tuple[float, ...] = (1.0, 60.0, -1.0, 0.0, 0.0),
    *,
    fence: bytes = b"0000000000000001",
    more: bytes = b"",
    more_bytes: int | None = None,
    name_bytes: int = len(KEY),
) -> bytes:
    """Return a value with a right checksum that `header` would never write."""
    sizes = (name_bytes, len(more) if more_bytes is None else more_bytes)
    about = struct.pack("<dddddLL", *numbers, *sizes) + KEY.encode() + more + b"1"
    front = fence + b"02"
    return front + struct.pack("<L", crc32(about, crc32(front))) + about


def test_a_forged_value_is_read_where_all_of_it_is_in_order() -> None:
    more = b'{"e":{"flights":"a1b2"},"p":"msgpack"}'

    opened = codec.read(forged(more=more), key=KEY)

    assert opened == codec.Opened(
        1, b"1", 1.0, 60.0, {"flights": "a1b2"}, packing="msgpack", soft_seconds=None
    )


@pytest.mark.parametrize(
    "more",
    [
        b"[]",
        b"null",
        b"{",
        b"\xff",
        b'{"e":5}',
        b'{"e":null}',
        b'{"e":["flights"]}',
        b'{"e":"flights"}',
        b'{"e":{"flights":5}}',
        b'{"e":{"flights":{}}}',
        b'{"p":5}',
        b'{"p":null}',
        b'{"p":["+z"]}',
        b"[" * 100_000,
    ],
    ids=lambda more: ascii(more[:20]),
)
def test_tags_and_packing_that_are_none_make_a_value_garbage(more: bytes) -> None:
    """The checksum is right: whoever wrote this is no release of ours."""
    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.read(forged(more=more), key=KEY)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -2.0, 1e300])
@pytest.mark.parametrize("place", range(1, 5))
def test_length_that_no_clock_measures_makes_a_value_garbage(place: int, odd: float) -> None:
    """Life past the end of less than none, say, would be kept for longer than the server does."""
    numbers = [1.0, 60.0, -1.0, 0.0, 0.0]
    numbers[place] = odd

    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.read(forged(tuple(numbers)), key=KEY)


@pytest.mark.parametrize("created", [math.nan, math.inf, -1e300])
def test_moment_that_no_clock_tells_makes_a_value_garbage(created: float) -> None:
    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.read(forged((created, 60.0, -1.0, 0.0, 0.0)), key=KEY)


@pytest.mark.parametrize("created", [0.0, -1.0, 1e12])
def test_a_value_of_any_clock_can_be_read(created: float) -> None:
    assert codec.read(envelope(created=created), key=KEY).created == created


@pytest.mark.parametrize("fence", [b"-000000000000001", b"9999999999999999"])
def test_a_fence_that_was_never_given_makes_a_value_garbage(fence: bytes) -> None:
    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.read(forged(fence=fence), key=KEY)


def test_sizes_beyond_the_value_are_no_reason_to_read_beyond_it() -> None:
    with pytest.raises(ValueUnreadable, match="key"):
        codec.read(forged(name_bytes=2**32 - 1), key=KEY)
    with pytest.raises(ValueUnreadable, match="garbage"):
        codec.read(forged(more_bytes=2**32 - 1), key=KEY)
