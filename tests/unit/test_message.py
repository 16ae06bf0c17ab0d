"""The message contract: every form that is accepted, every fault that is named."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekali.bodies import NOT_XML, to_json
from sekali.errors import MessageInvalid
from sekali.message import Message, decode, derive_id, encode

SENT_MS = 1_700_000_000_500
SENT = SENT_MS / 1000


def record(
    body: object,
    *,
    system: Mapping[str, str] | None = None,
    attributes: Mapping[str, object] | None = None,
) -> dict[str, object]:
    return {
        "messageId": "m-1",
        "receiptHandle": "r-1",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "SentTimestamp": str(SENT_MS),
            "ApproximateReceiveCount": "1",
            **(system or {}),
        },
        "messageAttributes": attributes or {},
    }


def text_attribute(value: str) -> dict[str, str]:
    return {"stringValue": value, "dataType": "String"}


def envelope(**fields: object) -> dict[str, object]:
    return {"sekali": 1, "id": "a-1", "name": "report", "payload": {"month": "2013-01"}} | fields


def without(field: str) -> dict[str, object]:
    return {name: value for name, value in envelope().items() if name != field}


def test_envelope_is_read_field_by_field() -> None:
    body = envelope(key="2013-01", enqueued_at=SENT - 2, attempt=2)
    system = {
        "AWSTraceHeader": "Root=1-a;Sampled=1",
        "MessageGroupId": "g",
        "ApproximateReceiveCount": "3",
    }

    message = decode(record(body, system=system), default_job=None)

    assert message == Message(
        id="a-1",
        name="report",
        payload={"month": "2013-01"},
        key="2013-01",
        first_sent=SENT,
        enqueued_at=SENT - 2,
        attempt=2,
        trace="Root=1-a;Sampled=1",
        message_id="m-1",
        receipt_handle="r-1",
        group_id="g",
        receive_count=3,
        body=json.dumps(body),
    )


def test_envelope_without_name_belongs_to_the_only_job() -> None:
    message = decode(record(without("name")), default_job="only")

    assert message.name == "only"


def test_unknown_fields_of_an_envelope_are_ignored() -> None:
    message = decode(record(envelope(color="red")), default_job=None)

    assert message.payload == {"month": "2013-01"}


def test_plain_body_is_the_payload_and_gets_a_derived_id() -> None:
    body = {"month": "2013-01", "carrier": "UA"}

    message = decode(record(body), default_job="report")

    assert message.payload == body
    assert message.name == "report"
    assert message.id == derive_id("report", body)
    assert not message.id_given


def test_plain_bodies_that_differ_in_key_order_are_one_job() -> None:
    one = decode(record('{"a": 1, "b": 2}'), default_job="report")
    other = decode(record('{"b": 2, "a": 1}'), default_job="report")

    assert one.id == other.id


def test_equal_plain_bodies_of_two_jobs_are_two_things() -> None:
    one = decode(record({"a": 1}), default_job="one")
    other = decode(record({"a": 1}), default_job="other")

    assert one.id != other.id


def test_plain_body_takes_job_and_id_from_message_attributes() -> None:
    attributes = {"sekali.job": text_attribute("other"), "sekali.id": text_attribute("order-7")}

    message = decode(record({"a": 1}, attributes=attributes), default_job="report")

    assert (message.name, message.id, message.id_given) == ("other", "order-7", True)


def test_empty_plain_object_is_a_job_only_when_it_has_an_id() -> None:
    attributes = {"sekali.id": text_attribute("nightly-1")}

    message = decode(record({}, attributes=attributes), default_job="report")

    assert (message.id, message.payload) == ("nightly-1", {})


def test_attributes_do_not_override_an_envelope() -> None:
    attributes = {"sekali.job": text_attribute("other"), "sekali.id": text_attribute("x")}

    message = decode(record(envelope(), attributes=attributes), default_job=None)

    assert (message.name, message.id) == ("report", "a-1")


@pytest.mark.parametrize(
    ("body", "reason", "field"),
    [
        pytest.param("", "empty", "body", id="empty"),
        pytest.param(" \n", "empty", "body", id="blank"),
        pytest.param("{}", "empty", "body", id="empty object without id"),
        pytest.param("not json", "not_json", "body", id="not JSON"),
        pytest.param('{"a": 1', "not_json", "body", id="cut off"),
        pytest.param('{"a": NaN}', "not_json", "body", id="NaN"),
        pytest.param('{"a": 1e999}', "not_json", "body", id="infinite"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "not_json", "body", id="unreadably long number"),
        pytest.param("[" * 100_000, "not_json", "body", id="bottomless"),
        pytest.param("[1]", "not_object", "body", id="list"),
        pytest.param('"text"', "not_object", "body", id="text"),
        pytest.param("null", "not_object", "body", id="null"),
        pytest.param('{"a":' * 101 + "1" + "}" * 101, "wrong_type", "body", id="too deep"),
        pytest.param(envelope(sekali=2), "wrong_version", "sekali", id="version 2"),
        pytest.param(envelope(sekali="1"), "wrong_version", "sekali", id="version as text"),
        pytest.param(envelope(sekali=True), "wrong_version", "sekali", id="version true"),
        pytest.param(envelope(sekali=None), "wrong_version", "sekali", id="version null"),
        pytest.param(without("id"), "missing_field", "id", id="no id"),
        pytest.param(without("payload"), "missing_field", "payload", id="no payload"),
        pytest.param(without("name"), "missing_field", "name", id="no name"),
        pytest.param({"a": 1}, "missing_field", "name", id="plain without name"),
        pytest.param(envelope(name="no such job"), "unknown_job", "name", id="no job name"),
        pytest.param(envelope(name="other"), "unknown_job", "name", id="unknown job"),
        pytest.param(envelope(name=7), "wrong_type", "name", id="name a number"),
        pytest.param(envelope(id=7), "wrong_type", "id", id="id a number"),
        pytest.param(envelope(id=""), "wrong_type", "id", id="id empty"),
        pytest.param(envelope(id="x" * 513), "wrong_type", "id", id="id too long"),
        pytest.param(envelope(id="\ud800"), "wrong_type", "id", id="id half a character"),
        pytest.param(envelope(key=["a"]), "wrong_type", "key", id="key a list"),
        pytest.param(envelope(key=""), "wrong_type", "key", id="key empty"),
        pytest.param(envelope(payload="x"), "wrong_type", "payload", id="payload text"),
        pytest.param(envelope(payload=None), "wrong_type", "payload", id="payload null"),
        pytest.param(envelope(enqueued_at="now"), "wrong_type", "enqueued_at", id="time text"),
        pytest.param(envelope(enqueued_at=True), "wrong_type", "enqueued_at", id="time true"),
        pytest.param(envelope(first_sent=-1), "wrong_type", "first_sent", id="time negative"),
        pytest.param(envelope(attempt=1.5), "wrong_type", "attempt", id="attempt a fraction"),
        pytest.param(envelope(deferrals=-1), "wrong_type", "deferrals", id="deferrals negative"),
        pytest.param(envelope(rearm=2**53), "wrong_type", "rearm", id="fence too great"),
        pytest.param(envelope(trace={}), "wrong_type", "trace", id="trace an object"),
    ],
)
def test_bad_body_names_its_reason_and_field(body: object, reason: str, field: str) -> None:
    with pytest.raises(MessageInvalid) as caught:
        decode(record(body), default_job=None, jobs={"report"})

    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_fault_names_the_rule_and_never_shows_the_payload() -> None:
    with pytest.raises(MessageInvalid) as caught:
        decode(record(envelope(payload=["secret"])), default_job=None)

    assert str(caught.value) == "wrong_type: payload must be an object, got 'list'"


def test_unknown_job_is_told_which_names_there_are() -> None:
    with pytest.raises(MessageInvalid, match="must be one of load, report, got 'other'"):
        decode(record(envelope(name="other")), default_job=None, jobs=["report", "load"])


def test_body_that_is_not_text_is_a_fault_of_its_own() -> None:
    with pytest.raises(MessageInvalid) as caught:
        decode({"messageId": "m-1", "body": None}, default_job="report")

    assert (caught.value.reason, caught.value.field) == ("wrong_type", "body")


def test_payload_at_the_depth_limit_is_accepted() -> None:
    body = '{"a":' * 100 + "1" + "}" * 100

    message = decode(record(body), default_job="report")

    assert encode(message)


def test_times_are_bounded_by_the_queues_own_clock() -> None:
    """A producer whose clock is ahead would make its job look younger than the shared state."""
    ahead = SENT + 3_600

    message = decode(record(envelope(enqueued_at=ahead, first_sent=ahead)), default_job=None)

    assert (message.first_sent, message.enqueued_at) == (SENT, SENT)


def test_record_without_time_takes_the_senders_then_the_receivers() -> None:
    said = decode({"body": json.dumps(envelope(enqueued_at=5))}, default_job=None, received_at=9.0)
    unsaid = decode({"body": json.dumps(envelope())}, default_job=None, received_at=9.0)

    assert (said.first_sent, unsaid.first_sent) == (5.0, 9.0)


def test_trace_in_the_envelope_wins_over_that_of_the_delivery() -> None:
    """A copy is sent by a worker, whose own trace is then the one in the system attribute."""
    system = {"AWSTraceHeader": "Root=1-worker"}

    message = decode(record(envelope(trace="Root=1-producer"), system=system), default_job=None)

    assert message.trace == "Root=1-producer"


def test_redriven_dead_letter_rearms_its_job_and_starts_a_new_wait() -> None:
    body = envelope(enqueued_at=SENT - 9_000, first_sent=SENT - 9_000, deferrals=4)
    attributes = {
        "sekali.reason": text_attribute("failed"),
        "sekali.fence": {"stringValue": "1700000000000001", "dataType": "Number"},
    }

    message = decode(record(body, attributes=attributes), default_job=None)

    assert message.rearm == 1_700_000_000_000_001
    assert message.first_sent == SENT - 9_000
    assert message.enqueued_at == SENT
    assert message.deferrals == 0


def test_redriven_original_is_as_old_as_its_dead_letter_says() -> None:
    attributes = {
        "sekali.reason": text_attribute("failed"),
        "sekali.first_seen": {"stringValue": str(SENT - 9_000), "dataType": "Number"},
    }

    message = decode(record(envelope(), attributes=attributes), default_job=None)

    assert (message.first_sent, message.enqueued_at) == (SENT - 9_000, SENT)


@pytest.mark.parametrize("field", ["sekali.fence", "sekali.first_seen"])
def test_dead_letter_mark_that_is_no_number_is_a_fault(field: str) -> None:
    attributes = {"sekali.reason": text_attribute("failed"), field: text_attribute("newest")}

    with pytest.raises(MessageInvalid) as caught:
        decode(record(envelope(), attributes=attributes), default_job=None)

    assert (caught.value.reason, caught.value.field) == ("wrong_type", field)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
payloads = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        # Half characters too: JSON can carry them inside a payload.
        | st.text(st.characters(), max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


messages = st.builds(
    Message,
    id=texts,
    name=st.just("report"),
    key=st.none() | texts,
    payload=payloads,
    deferrals=st.integers(1, 99),
    rearm=st.integers(0, 2**53 - 1),
    trace=st.none() | texts,
    first_sent=st.floats(0, SENT),
    enqueued_at=st.floats(0, SENT),
)


@given(message=messages)
def test_encoded_copy_decodes_to_itself(message: Message) -> None:
    text = encode(message)
    again = decode(record(text), default_job=None)

    assert encode(again) == text
    assert (again.id, again.key, again.payload) == (message.id, message.key, message.payload)
    assert again.first_sent == message.first_sent
    assert again.enqueued_at == message.enqueued_at
    assert (again.deferrals, again.rearm) == (message.deferrals, message.rearm)
    assert again.trace == message.trace


@given(payload=payloads)
def test_json_for_the_queue_has_only_characters_that_it_accepts(payload: dict[str, object]) -> None:
    text = to_json(payload)

    assert all(
        character in "\t\n\r"
        or " " <= character <= "\ud7ff"
        or "\ue000" <= character <= "\ufffd"
        or character >= "\U00010000"
        for character in text
    )


def test_job_id_depends_on_name_key_and_payload() -> None:
    ids = {
        derive_id("a", {"x": 1}),
        derive_id("b", {"x": 1}),
        derive_id("a", {"x": 2}),
        derive_id("a", {"x": 1}, key="k"),
    }

    assert len(ids) == 4


def test_characters_that_sqs_refuses_are_those_that_are_not_xmls() -> None:
    """https://www.w3.org/TR/xml/#charsets, character by character."""
    everything = "".join(map(chr, range(0x110000)))

    refused = "".join(NOT_XML.findall(everything))

    low = "".join(chr(code) for code in range(0x20) if chr(code) not in "\t\n\r")
    surrogates = "".join(map(chr, range(0xD800, 0xE000)))
    assert refused == low + surrogates + "\ufffe\uffff"
