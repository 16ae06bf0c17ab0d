"""The JSON Schema and the reader accept and refuse the same bodies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sekali.contract import FIELDS, MAX_EXACT, schema
from sekali.errors import MessageInvalid
from sekali.message import decode

if TYPE_CHECKING:
    from sekali.contract import Kind

VALIDATOR = Draft202012Validator(schema())

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
numbers = st.integers(0, MAX_EXACT - 1) | st.floats(0, MAX_EXACT, exclude_max=True)
payloads = st.dictionaries(st.text(max_size=5), st.integers() | texts, max_size=3)
GOOD: dict[Kind, st.SearchStrategy[object]] = {
    "version": st.sampled_from([1, 1.0]),
    "id": texts | st.sampled_from(["x" * 512, "\U0001f600" * 512, " ", "\n"]),
    "text": texts,
    "name": st.text("abcXYZ019_.-", min_size=1, max_size=64),
    "object": payloads,
    "seconds": numbers,
    "count": st.integers(0, MAX_EXACT - 1) | st.sampled_from([1.0, 3.0, 0.0, -0.0]),
}
# Good ones of another kind are bad ones of this; these stand at the edges.
EDGES = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    1.5,
    -0.5,
    MAX_EXACT,
    float(MAX_EXACT),
    10**30,
    1e300,
    "",
    " ",
    "1",
    "report\n",
    "a b",
    "x" * 64,
    "x" * 65,
    "x" * 513,
    "\ud800",
    "a\udfff",
    "\u0661",
    [],
    ["a"],
    {},
    {"x": None},
]
anything = st.sampled_from(EDGES) | st.one_of(*GOOD.values())

good = st.fixed_dictionaries(
    {field.name: GOOD[field.kind] for field in FIELDS if field.required},
    optional={field.name: GOOD[field.kind] | st.none() for field in FIELDS if not field.required}
    | {"other": anything},
)
changed = st.builds(
    lambda body, changes: body | changes,
    good,
    st.dictionaries(st.sampled_from([field.name for field in FIELDS]), anything, max_size=2),
)
cut = st.builds(
    lambda body, field: {name: value for name, value in body.items() if name != field},
    good,
    st.sampled_from([field.name for field in FIELDS]),
)
bodies = changed | cut | payloads | anything


def is_read(body: object) -> bool:
    try:
        decode({"body": json.dumps(body)}, default_job="report")
    except MessageInvalid:
        return False
    return True


@given(body=good)
def test_good_envelope_is_accepted_by_both(body: dict[str, object]) -> None:
    assert VALIDATOR.is_valid(body)
    assert is_read(body)


@given(body=bodies)
def test_what_one_accepts_the_other_does_too(body: object) -> None:
    accepted = VALIDATOR.is_valid(body)
    event("accepted" if accepted else "refused")

    assert is_read(body) == accepted


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
@pytest.mark.parametrize("value", EDGES, ids=lambda value: f"{value!a:.12}")
def test_both_draw_the_same_edge_in_every_field(field: object, value: object) -> None:
    name = getattr(field, "name", "")
    body = {"sekali": 1, "id": "a", "payload": {}} | {name: value}

    assert is_read(body) == VALIDATOR.is_valid(body)
