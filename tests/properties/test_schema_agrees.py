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
from sekali.offloaded import OffloadedPayload

if TYPE_CHECKING:
    from sekali.contract import Kind, PayloadRef

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
    "ref": st.fixed_dictionaries(
        {"key": st.sampled_from(["payloads/a", "payloads/a/b=c_.-9"])},
        optional={"hash": st.none() | st.just("0123456789abcdef" * 2), "other": st.none()},
    ),
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
    {"key": "payloads/a"},
    {"key": "payloads/"},
    {"key": "payloads/a\n"},
    {"key": "payloads/a b"},
    {"key": "a/payloads/b"},
    {"key": "payloads/" + "x" * 1_015},
    {"key": "payloads/" + "x" * 1_016},
    {"key": 7},
    {"key": "payloads/a", "hash": None},
    {"key": "payloads/a", "hash": "0" * 32},
    {"key": "payloads/a", "hash": "0" * 31},
    {"key": "payloads/a", "hash": "0" * 31 + "\n"},
    {"key": "payloads/a", "hash": "A" * 32},
    {"key": "payloads/a", "hash": 7},
]
anything = st.sampled_from(EDGES) | st.one_of(*GOOD.values())

inline = st.fixed_dictionaries(
    {field.name: GOOD[field.kind] for field in FIELDS if field.required},
    optional={
        field.name: GOOD[field.kind] | st.none()
        for field in FIELDS
        if not field.required and field.kind != "ref"
    }
    | {"other": anything, "payload_ref": st.none()},
)
good = inline | st.builds(
    lambda body, ref: (
        {name: value for name, value in body.items() if name != "payload"} | {"payload_ref": ref}
    ),
    inline,
    GOOD["ref"],
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


class Unread:
    """Stand for a bucket: what a message refers to is not looked at."""

    def behind(self, ref: PayloadRef) -> OffloadedPayload:
        return OffloadedPayload(ref.key, digest=ref.hash, read=lambda _: {})


UNREAD = Unread()


def is_read(body: object) -> bool:
    try:
        decode({"body": json.dumps(body)}, default_job="report", payloads=UNREAD)
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
    if name == "payload_ref" and value is not None:
        del body["payload"]

    assert is_read(body) == VALIDATOR.is_valid(body)


@pytest.mark.parametrize("payload", [None, {}, 7])
@pytest.mark.parametrize("ref", [None, {}, {"key": "payloads/a"}])
def test_both_draw_the_same_edge_between_payload_and_reference(
    payload: object, ref: object
) -> None:
    bodies = [
        {"sekali": 1, "id": "a", "payload": payload, "payload_ref": ref},
        {"sekali": 1, "id": "a", "payload_ref": ref},
        {"sekali": 1, "id": "a"},
    ]

    assert [is_read(body) for body in bodies] == [VALIDATOR.is_valid(body) for body in bodies]
