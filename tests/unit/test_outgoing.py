"""Delayed copies and dead letters keep what the next delivery needs, within the queue's limits."""

import base64
import json

import pytest

from sekali.message import Message, decode
from sekali.outgoing import (
    MAX_ATTRIBUTES,
    MAX_MESSAGE_BYTES,
    Outgoing,
    dead_letter,
    delayed_copy,
    entry,
)

SENT = 1_700_000_000.5
FENCE = 1_700_000_000_000_007


def message(**fields: object) -> Message:
    base = {
        "id": "a-1",
        "name": "report",
        "payload": {"x": 1},
        "first_sent": SENT,
        "enqueued_at": SENT,
    }
    return Message(**(base | fields))  # type: ignore[arg-type] # fields of the test's choice


def received(outgoing: Outgoing, *, sent_at: float) -> dict[str, object]:
    """Hand a sent message over as Lambda would."""
    attributes = {}
    for name, attribute in outgoing.attributes.items():
        value = attribute.get("BinaryValue")
        if isinstance(value, bytes):
            form = {"binaryValue": base64.b64encode(value).decode()}
        else:
            form = {"stringValue": str(attribute["StringValue"])}
        attributes[name] = form | {"dataType": str(attribute["DataType"])}
    system = {"SentTimestamp": str(int(sent_at * 1000)), "ApproximateReceiveCount": "1"}
    return {
        "messageId": "m-2",
        "body": outgoing.body,
        "attributes": system,
        "messageAttributes": attributes,
    }


def values(outgoing: Outgoing) -> dict[str, object]:
    return {
        name: attribute.get("StringValue", attribute.get("BinaryValue"))
        for name, attribute in outgoing.attributes.items()
    }


def test_copy_keeps_identity_first_send_and_trace_and_counts_its_deferrals() -> None:
    original = message(key="k", trace="Root=1-a", rearm=FENCE)

    copy = decode(
        received(delayed_copy(original, deferrals=3), sent_at=SENT + 60), default_job=None
    )

    assert (copy.id, copy.name, copy.key, copy.payload) == ("a-1", "report", "k", {"x": 1})
    assert (copy.first_sent, copy.enqueued_at) == (SENT, SENT)
    assert (copy.deferrals, copy.is_copy) == (3, True)
    assert (copy.trace, copy.rearm) == ("Root=1-a", FENCE)


def test_copy_of_a_plain_body_is_the_same_job() -> None:
    plain = decode(
        {
            "body": '{"month": "2013-01"}',
            "attributes": {"SentTimestamp": "1700000000500"},
            "messageAttributes": {"sekali.job": {"stringValue": "report", "dataType": "String"}},
        },
        default_job=None,
    )

    copy = decode(received(delayed_copy(plain, deferrals=1), sent_at=SENT + 60), default_job=None)

    assert (copy.id, copy.name, copy.payload) == (plain.id, plain.name, plain.payload)
    assert copy.first_sent == plain.first_sent


def test_copy_keeps_the_senders_attributes_text_and_binary() -> None:
    original = message(
        attributes={
            "tenant": {"stringValue": "blue", "dataType": "String"},
            "blob": {"binaryValue": base64.b64encode(b"\x00\x01").decode(), "dataType": "Binary"},
        }
    )

    outgoing = delayed_copy(original, deferrals=1)

    assert outgoing.attributes == {
        "tenant": {"DataType": "String", "StringValue": "blue"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }


def test_copy_of_a_redriven_message_carries_the_rearm_in_its_envelope_only() -> None:
    letter = dead_letter(message(), reason="failed", fence=FENCE)
    redriven = decode(received(letter, sent_at=SENT + 900), default_job=None)

    outgoing = delayed_copy(redriven, deferrals=1)
    copy = decode(received(outgoing, sent_at=SENT + 960), default_job=None)

    assert not outgoing.attributes
    assert copy.rearm == FENCE
    assert (copy.first_sent, copy.enqueued_at) == (SENT, SENT + 900)


def test_dead_letter_keeps_the_body_and_says_why() -> None:
    body = '{"sekali": 1, "id": "a-1", "payload": {}}'
    source = message(body=body, trace="Root=1-a")

    letter = dead_letter(
        source,
        reason="failed",
        error_type="PermanentError",
        error="no data for 2013-13",
        attempts=2,
        fence=FENCE,
    )

    assert letter.body == body
    assert values(letter) == {
        "sekali.reason": "failed",
        "sekali.error_type": "PermanentError",
        "sekali.error": "no data for 2013-13",
        "sekali.attempts": "2",
        "sekali.job": "report",
        "sekali.first_seen": "1700000000.5",
        "sekali.trace": "Root=1-a",
        "sekali.fence": str(FENCE),
    }


def test_dead_letter_of_an_undecodable_record_keeps_its_body_time_and_trace() -> None:
    record = {
        "body": "not json",
        "attributes": {"SentTimestamp": "1700000000500", "AWSTraceHeader": "Root=1-b"},
    }

    letter = dead_letter(record, reason="not_json", error="body must be a JSON object", attempts=0)

    assert letter.body == "not json"
    assert values(letter) == {
        "sekali.reason": "not_json",
        "sekali.error": "body must be a JSON object",
        "sekali.attempts": "0",
        "sekali.first_seen": "1700000000.5",
        "sekali.trace": "Root=1-b",
    }


def test_dead_letter_of_a_redriven_plain_body_keeps_job_id_and_the_greater_fence() -> None:
    source = message(
        body="{}",
        rearm=FENCE,
        attributes={"sekali.id": {"stringValue": "a-1", "dataType": "String"}},
    )

    letter = dead_letter(source, reason="failed", fence=FENCE - 5)

    assert values(letter)["sekali.id"] == "a-1"
    assert values(letter)["sekali.job"] == "report"
    assert values(letter)["sekali.fence"] == str(FENCE)


def test_dead_letter_of_an_undecodable_redrive_keeps_its_fence_and_job() -> None:
    attributes = {
        "sekali.reason": {"stringValue": "not_json", "dataType": "String"},
        "sekali.fence": {"stringValue": str(FENCE), "dataType": "Number"},
        "sekali.job": {"stringValue": "report", "dataType": "String"},
    }

    letter = dead_letter({"body": "{", "messageAttributes": attributes}, reason="not_json")

    assert values(letter) == {
        "sekali.reason": "not_json",
        "sekali.fence": str(FENCE),
        "sekali.job": "report",
    }


def test_dead_letter_of_an_empty_body_is_one_that_the_queue_accepts() -> None:
    letter = dead_letter({"body": ""}, reason="empty")

    assert letter.body == " "


def test_dead_letter_text_has_only_characters_that_the_queue_accepts() -> None:
    letter = dead_letter({"body": "x"}, reason="failed", error="a\x00b\ud800c" + "é" * 5_000)

    assert values(letter)["sekali.error"] == "a\ufffdb\ufffdc" + "é" * 1_019


@pytest.mark.parametrize("count", [0, 1, 5, 8, 10])
def test_dead_letter_has_at_most_ten_attributes_and_always_a_reason(count: int) -> None:
    own = {f"own{n}": {"stringValue": "v", "dataType": "String"} for n in range(count)}

    letter = dead_letter(
        message(attributes=own, trace="t"),
        reason="failed",
        error_type="E",
        error="e",
        attempts=1,
        fence=FENCE,
    )

    assert len(letter.attributes) == min(MAX_ATTRIBUTES, count + 8)
    assert {"sekali.reason", "sekali.fence", "sekali.job"} <= set(letter.attributes)
    assert set(list(own)[:6]) <= set(letter.attributes)


@pytest.mark.parametrize("room_bytes", [0, 10, 60, 150, 2_000])
def test_dead_letter_never_exceeds_what_the_queue_takes(room_bytes: int) -> None:
    body = "é" * ((MAX_MESSAGE_BYTES - room_bytes) // 2)

    letter = dead_letter(
        message(body=body),
        reason="failed",
        error_type="E",
        error="e" * 500,
        attempts=1,
        fence=FENCE,
    )

    assert letter.body == body
    assert letter.size_bytes <= MAX_MESSAGE_BYTES
    assert ("sekali.reason" in letter.attributes) == (room_bytes > 30)


def test_size_counts_body_bytes_and_each_attributes_name_type_and_value() -> None:
    outgoing = Outgoing("é", {"ab": {"DataType": "Binary", "BinaryValue": b"123"}})

    assert outgoing.size_bytes == 2 + 2 + len("Binary") + 3


def test_entry_carries_delay_group_and_trace_only_where_given() -> None:
    outgoing = Outgoing(json.dumps({"x": 1}), {})

    bare = entry(outgoing, entry_id="0")
    full = entry(
        outgoing, entry_id="1", delay_seconds=5, group="g", deduplication="d", trace="Root=1-a"
    )

    assert bare == {"Id": "0", "MessageBody": '{"x": 1}'}
    assert full == {
        "Id": "1",
        "MessageBody": '{"x": 1}',
        "DelaySeconds": 5,
        "MessageGroupId": "g",
        "MessageDeduplicationId": "d",
        "MessageSystemAttributes": {
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-a"}
        },
    }
