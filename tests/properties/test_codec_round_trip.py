"""What goes through the codec comes back, or is refused; damage is always seen."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sekali import codec
from sekali.errors import ResultUnencodable, ValueUnreadable

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)
ANYTHING = st.recursive(
    LEAVES
    | st.floats()
    | st.binary(max_size=4)
    | st.dates()
    | st.frozensets(st.integers(), max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT | st.integers() | st.none() | st.booleans(), inner, max_size=3)
    ),
)


def exactly(one: object, other: object) -> bool:
    """Compare with types, so that 1, 1.0 and True differ, and -0.0 differs from 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(exactly(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(exactly, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


def shuffled(value: object) -> object:
    """Return an equal value whose dictionaries were filled in the opposite order."""
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(value)}
    return [shuffled(inner) for inner in value] if isinstance(value, list) else value


@given(VALUES)
@example({"\ud83d\ude00": "\ud83d\ude00"})
def test_a_json_value_comes_back_exactly(value: object) -> None:
    assert exactly(codec.decode(codec.encode(value)), value)


@given(ANYTHING)
def test_a_value_is_carried_exactly_or_refused(value: object) -> None:
    try:
        carried = codec.decode(codec.encode(value))
    except ResultUnencodable as error:
        refused: ResultUnencodable | None = error
        carried = None
    else:
        refused = None

    assert exactly(carried, value) if refused is None else refused.path.startswith("$")


@given(VALUES)
def test_the_hash_depends_on_content_and_not_on_the_order_of_keys(value: object) -> None:
    assert codec.payload_hash(value) == codec.payload_hash(shuffled(value))


@given(VALUES, VALUES)
def test_two_payloads_share_a_hash_only_if_they_are_the_same(one: object, other: object) -> None:
    same = exactly(
        json.loads(json.dumps(one, sort_keys=True)), json.loads(json.dumps(other, sort_keys=True))
    )

    assert same or codec.payload_hash(one) != codec.payload_hash(other)


@given(st.binary(max_size=64), TEXT, st.data())
def test_a_changed_byte_is_never_read_as_a_value(
    body: bytes, key: str, data: st.DataObject
) -> None:
    value = bytearray(
        codec.header(7, key=key, created=1.5, ttl_seconds=60.0, epochs={}, body=body) + body
    )
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ValueUnreadable):
        codec.read(bytes(value), key=key)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_unreadable_and_nothing_else_is_raised(value: bytes) -> None:
    with pytest.raises(ValueUnreadable):
        codec.read(value, key="k")
