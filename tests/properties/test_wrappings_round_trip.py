"""A wrapped body decodes to what the same body would be when it is sent directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from sekali import Unwrap
from sekali.errors import MessageInvalid
from sekali.message import Message, decode, encode
from sekali.outgoing import dead_letter, delayed_copy
from tests.wrapped import eventbridge, record, s3, s3_record, s3_test, sns, sns_fifo, text_attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL = Unwrap(sns=True, eventbridge=True, s3=True)
EVENT_ID = "fe8d3c65-xmpl-c5c3-2c87-81584709a377"

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
payloads = st.dictionaries(st.text(max_size=8), values, max_size=4)
envelopes = st.builds(
    lambda job_id, payload, optional: {
        "sekali": 1,
        "id": job_id,
        "name": "report",
        "payload": payload,
        **optional,
    },
    texts,
    payloads,
    st.fixed_dictionaries(
        {},
        optional={
            "key": texts,
            "enqueued_at": st.floats(0, 2e9),
            "first_sent": st.floats(0, 2e9),
            "attempt": st.integers(0, 9),
            "deferrals": st.integers(0, 9),
            "trace": texts,
            "rearm": st.integers(0, 2**53 - 1),
        },
    ),
)
# What a queue takes as a text attribute.
attribute_texts = st.text(
    st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=9
)
attributes = st.dictionaries(
    st.sampled_from(["sekali.id", "sekali.job", "tenant", "other"]), attribute_texts, max_size=3
).map(lambda named: named | ({"sekali.job": "report"} if "sekali.job" in named else {}))


def comparable(message: Message) -> tuple[object, ...]:
    return (
        message.id,
        message.id_given,
        message.name,
        message.key,
        message.first_sent,
        message.enqueued_at,
        message.trace,
        encode(message),
    )


def outcome(body: object, beside: Mapping[str, str]) -> tuple[object, ...] | str | None:
    """Return what comes of a record: its message, or the fault of it."""
    attributes = {name: text_attribute(value) for name, value in beside.items()}
    try:
        message = decode(
            record(body, attributes=attributes),
            default_job="report",
            jobs={"report"},
            unwrap=ALL,
        )
    except MessageInvalid as fault:
        return fault.reason
    return None if message is None else comparable(message)


@given(body=payloads | envelopes, beside=attributes, wrap=st.sampled_from([sns, sns_fifo]))
def test_topic_changes_nothing_of_a_message(
    body: dict[str, object], beside: dict[str, str], wrap: Any
) -> None:
    wrapped = wrap(body)
    wrapped["MessageAttributes"] = {
        name: {"Type": "String", "Value": value} for name, value in beside.items()
    }

    assert outcome(wrapped, {}) == outcome(body, beside)


@given(envelope=envelopes)
def test_bus_changes_nothing_of_an_envelope(envelope: dict[str, object]) -> None:
    assert outcome(eventbridge(envelope), {}) == outcome(envelope, {})


@given(payload=payloads)
def test_bus_gives_a_plain_body_the_id_of_its_event(payload: dict[str, object]) -> None:
    assert outcome(eventbridge(payload), {}) == outcome(payload, {"sekali.id": EVENT_ID})


wrapped_bodies = st.one_of(
    payloads.map(sns),
    envelopes.map(sns),
    payloads.map(eventbridge),
    envelopes.map(eventbridge),
    texts.map(lambda key: s3(s3_record(key=key))),
)


@given(body=wrapped_bodies | wrapped_bodies.map(sns))
def test_copy_and_redrive_of_a_wrapped_message_are_the_same_job(body: dict[str, object]) -> None:
    try:
        original = decode(record(body), default_job="report", unwrap=ALL)
    except MessageInvalid:
        return
    assert original is not None

    copy = decode(record(delayed_copy(original, deferrals=1).body), default_job=None)
    letter = dead_letter(original, reason="failed")
    redriven = decode(record(letter.body), default_job="report", unwrap=ALL)

    assert redriven is not None
    for again in (copy, redriven):
        assert (again.id, again.name, again.key) == (original.id, original.name, original.key)
        assert again.payload == original.payload


NEEDED = [
    (sns({"x": 1}), ["Type", "MessageId", "TopicArn", "Message", "Timestamp"]),
    (
        eventbridge({"x": 1}),
        ["version", "id", "detail-type", "source", "account", "time", "region", "resources"],
    ),
    (s3(), ["Records"]),
    (s3_test(), ["Service", "Event"]),
]
needed = st.sampled_from([(body, field) for body, fields in NEEDED for field in fields])
broken = st.builds(
    lambda one, stranger: one[0] | {one[1]: stranger},
    needed,
    st.sampled_from([None, True, 0, 1.5, {}, {"x": 1}]),
)
lacking = needed.map(
    lambda one: {name: value for name, value in one[0].items() if name != one[1]} | {"x": 1}
)
alike = st.dictionaries(
    st.sampled_from(sorted({name for body, _ in NEEDED for name in body})), values, min_size=1
)


@given(body=broken | lacking | alike)
def test_plain_body_is_never_taken_for_a_wrapped_one(body: dict[str, object]) -> None:
    message = decode(record(body), default_job="report", unwrap=ALL)

    assert message is not None
    assert message.wrapped_in == ()
    assert message.payload == body
