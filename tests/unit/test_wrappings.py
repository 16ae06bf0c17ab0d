"""What SNS, EventBridge and S3 put around a body comes off, where the worker says so."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from sekali import Unwrap
from sekali.errors import MessageInvalid, SettingInvalid
from sekali.message import Message, decode, derive_id, payload_as_sent
from sekali.outgoing import MAX_ATTRIBUTES, dead_letter, delayed_copy
from tests.wrapped import (
    SENT,
    eventbridge,
    record,
    s3,
    s3_record,
    s3_test,
    sns,
    sns_fifo,
    subscription,
    text_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekali.outgoing import Outgoing

ALL = Unwrap(sns=True, eventbridge=True, s3=True)
PAYLOAD = {"month": "2013-01"}
ENVELOPE = {"sekali": 1, "id": "a-1", "name": "report", "payload": PAYLOAD}


def read(
    body: object,
    *,
    unwrap: Unwrap = ALL,
    default_job: str | None = "report",
    attributes: Mapping[str, object] | None = None,
) -> Message:
    message = decode(record(body, attributes=attributes), default_job=default_job, unwrap=unwrap)
    assert message is not None
    return message


def delivered(outgoing: Outgoing) -> dict[str, object]:
    attributes = {
        name: {"stringValue": str(value["StringValue"]), "dataType": str(value["DataType"])}
        for name, value in outgoing.attributes.items()
    }
    return record(outgoing.body, attributes=attributes)


@pytest.mark.parametrize("wrap", [sns, sns_fifo])
def test_topics_notification_of_an_envelope_is_the_envelope(wrap: Any) -> None:
    message = read(wrap(ENVELOPE))

    assert (message.id, message.name, message.payload) == ("a-1", "report", PAYLOAD)
    assert message.wrapped_in == ("sns",)
    assert message.first_sent == SENT


def test_topics_notification_of_a_plain_body_has_the_id_of_a_direct_send() -> None:
    """A publisher that repeats a publish whose answer was lost makes another MessageId."""
    first = read(sns(PAYLOAD))
    repeated = read(sns(PAYLOAD, MessageId="00000000-56c5-5e96-808d-cc7f68faa162"))

    assert first.id == repeated.id == read(PAYLOAD).id


def test_attributes_of_a_topics_message_name_job_and_id() -> None:
    attributes = {"sekali.job": "other", "sekali.id": "order-7"}

    message = read(sns(PAYLOAD, attributes=attributes), default_job=None)

    assert (message.name, message.id, message.id_given) == ("other", "order-7", True)


def test_raw_delivery_and_wrapped_delivery_are_the_same_job() -> None:
    raw = read(PAYLOAD, attributes={"sekali.job": text_attribute("other")})
    wrapped = read(sns(PAYLOAD, attributes={"sekali.job": "other"}))

    assert (raw.id, raw.name, raw.payload) == (wrapped.id, wrapped.name, wrapped.payload)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("hello", "not_json"), ("", "empty"), ("[1]", "not_object"), ('{"a": NaN}', "not_json")],
)
def test_topics_message_that_is_no_object_is_a_fault_of_message(text: str, reason: str) -> None:
    with pytest.raises(MessageInvalid) as caught:
        read(sns(text))

    assert (caught.value.reason, caught.value.field) == (reason, "Message")


def test_subscription_that_nobody_confirmed_becomes_a_dead_letter_that_says_so() -> None:
    with pytest.raises(MessageInvalid, match="somebody must open its SubscribeURL") as caught:
        read(subscription())

    assert caught.value.reason == "payload_rejected"


def test_event_of_a_bus_is_its_detail_under_the_events_id() -> None:
    message = read(eventbridge(PAYLOAD))

    assert (message.id, message.id_given) == ("fe8d3c65-xmpl-c5c3-2c87-81584709a377", True)
    assert (message.name, message.payload) == ("report", PAYLOAD)
    assert message.wrapped_in == ("eventbridge",)


def test_scheduled_events_with_empty_detail_are_one_job_each() -> None:
    first = read(eventbridge({}, id="11111111-ae0b-4e0e-8bd3-b6a3b8a3c0aa"))
    second = read(eventbridge({}, id="22222222-ae0b-4e0e-8bd3-b6a3b8a3c0aa"))

    assert first.id != second.id


def test_envelope_in_the_detail_of_an_event_keeps_its_own_id_and_name() -> None:
    unwrap = Unwrap(eventbridge={"Something Else": "other"})

    message = read(eventbridge(ENVELOPE), unwrap=unwrap, default_job=None)

    assert (message.id, message.name, message.payload) == ("a-1", "report", PAYLOAD)


def test_time_that_an_event_claims_does_not_make_its_job_old() -> None:
    """A replay from an archive keeps the time of the original: it would be too old to wait."""
    message = read(eventbridge(PAYLOAD, time="2001-01-01T00:00:00Z"))

    assert (message.first_sent, message.enqueued_at) == (SENT, SENT)


@pytest.mark.parametrize(
    ("event", "job"), [("Report Wanted", "report"), ("Flight Late", "note"), ("Flight", "note")]
)
def test_events_are_routed_by_their_detail_type(event: str, job: str) -> None:
    unwrap = Unwrap(eventbridge={"Report Wanted": "report", "Flight*": "note"})

    message = read(eventbridge(PAYLOAD, **{"detail-type": event}), unwrap=unwrap, default_job=None)

    assert message.name == job


def test_event_without_a_route_is_refused_and_told_which_there_are() -> None:
    unwrap = Unwrap(eventbridge={"Flight*": "note"})

    with pytest.raises(MessageInvalid, match=r"detail-type must be one of Flight\*") as caught:
        read(eventbridge(PAYLOAD), unwrap=unwrap)

    assert caught.value.reason == "unknown_job"


def test_notification_of_a_bucket_is_one_job_with_all_its_records() -> None:
    body = s3(s3_record(), s3_record(key="other.csv"))

    message = read(body)

    assert message.payload == body
    assert message.id_given
    assert message.wrapped_in == ("s3",)


def test_repeated_notification_of_one_event_is_the_same_job() -> None:
    assert read(s3()).id == read(s3()).id


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(s3(s3_record(key="other.csv")), id="key"),
        pytest.param(s3(s3_record(sequencer="0055AED6DCD90281E6")), id="sequencer"),
        pytest.param(s3(s3_record(versionId="v2")), id="version"),
        pytest.param(s3(s3_record() | {"eventName": "ObjectRemoved:Delete"}), id="event"),
        pytest.param(s3(s3_record(), s3_record()), id="records"),
        pytest.param(
            json.loads(json.dumps(s3()).replace('"name": "flights"', '"name": "trains"')),
            id="bucket",
        ),
    ],
)
def test_events_of_a_bucket_that_differ_are_different_jobs(other: object) -> None:
    assert read(s3()).id != read(other).id


def test_event_without_sequencer_is_told_apart_by_its_time_and_request() -> None:
    tagged = s3_record(sequencer=None) | {"eventName": "ObjectTagging:Put"}
    later = tagged | {"eventTime": "1970-01-01T00:00:01.123Z"}
    other = tagged | {"responseElements": {"x-amz-request-id": "D3D13FE58DE4C810"}}

    assert read(s3(tagged)).id == read(s3(tagged)).id
    assert len({read(s3(one)).id for one in (tagged, later, other)}) == 3


def test_events_of_a_bucket_are_routed_by_their_name() -> None:
    unwrap = Unwrap(s3={"ObjectCreated:*": "index", "ObjectRemoved:*": "forget"})
    removed = s3(s3_record() | {"eventName": "ObjectRemoved:DeleteMarkerCreated"})

    names = [read(body, unwrap=unwrap, default_job=None).name for body in (s3(), removed)]

    assert names == ["index", "forget"]


@pytest.mark.parametrize("body", [s3_test(), sns(s3_test())])
def test_test_event_of_a_bucket_asks_for_nothing(body: object) -> None:
    assert decode(record(body), default_job="report", unwrap=ALL) is None


@pytest.mark.parametrize(
    ("body", "wrapped_in"),
    [
        (sns(s3()), ("sns", "s3")),
        (sns(eventbridge(PAYLOAD)), ("sns", "eventbridge")),
    ],
)
def test_topic_between_event_and_queue_changes_nothing_else(
    body: dict[str, Any], wrapped_in: tuple[str, ...]
) -> None:
    direct = read(body["Message"])

    message = read(body)

    assert (message.id, message.payload) == (direct.id, direct.payload)
    assert message.wrapped_in == wrapped_in


@pytest.mark.parametrize(
    ("body", "unwrap"),
    [
        (sns(PAYLOAD), Unwrap(eventbridge=True, s3=True)),
        (subscription(), Unwrap(eventbridge=True, s3=True)),
        (eventbridge(PAYLOAD), Unwrap(sns=True, s3=True)),
        (s3(), Unwrap(sns=True, eventbridge=True)),
        (s3_test(), Unwrap(sns=True, eventbridge=True)),
    ],
)
def test_wrapping_that_the_worker_does_not_name_stays_on(
    body: dict[str, Any], unwrap: Unwrap
) -> None:
    message = read(body, unwrap=unwrap)

    assert message.payload == body
    assert message.id == derive_id("report", body)
    assert message.wrapped_in == ()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(sns(PAYLOAD, Type="Order"), id="another type"),
        pytest.param(sns(PAYLOAD, TopicArn="reports"), id="no topic"),
        pytest.param(sns(PAYLOAD, TopicArn="arn:aws:sqs:eu-west-1:111122223333:q"), id="a queue"),
        pytest.param(sns(PAYLOAD, Message=PAYLOAD), id="message an object"),
        pytest.param(sns(PAYLOAD, MessageId=7), id="message id a number"),
        pytest.param(sns(PAYLOAD, Timestamp="yesterday"), id="no time"),
        pytest.param(sns(PAYLOAD, MessageAttributes=[]), id="attributes a list"),
        pytest.param(sns(PAYLOAD, attributes={"a": {"Value": "x"}}), id="attribute without type"),
        pytest.param(
            sns(PAYLOAD, attributes={"a": {"Type": "Binary", "Value": "x"}}), id="not base64"
        ),
        pytest.param(sns(PAYLOAD, attributes={"a": "\x00"}), id="attribute not XML"),
        pytest.param(sns(PAYLOAD, attributes={"a b": "x"}), id="attribute name"),
        pytest.param(eventbridge(PAYLOAD, version="1"), id="another version"),
        pytest.param(eventbridge(PAYLOAD, version=0), id="version a number"),
        pytest.param(eventbridge(PAYLOAD, account="me"), id="no account"),
        pytest.param(eventbridge("text"), id="detail a text"),
        pytest.param(eventbridge(PAYLOAD, resources=None), id="no resources"),
        pytest.param(eventbridge(PAYLOAD, **{"detail-type": 7}), id="detail-type a number"),
        pytest.param({"Records": []}, id="no records"),
        pytest.param({"Records": [1]}, id="records of numbers"),
        pytest.param(s3() | {"more": 1}, id="records and more"),
        pytest.param(s3(s3_record() | {"eventSource": "aws:sqs"}), id="records of a queue"),
        pytest.param(s3(s3_record() | {"s3": {}}), id="record without an object"),
        pytest.param(s3(s3_record(), {"eventSource": "aws:s3"}), id="one record that is none"),
        pytest.param(s3_test() | {"more": 1}, id="test event and more"),
        pytest.param(s3_test() | {"Event": "s3:Other"}, id="another notice"),
    ],
)
def test_plain_body_that_falls_short_of_a_wrapping_stays_whole(body: dict[str, Any]) -> None:
    message = read(body)

    assert message.payload == body
    assert message.wrapped_in == ()


def test_envelope_is_never_unwrapped_whatever_else_it_has() -> None:
    message = read(sns({"other": 1}) | ENVELOPE)

    assert (message.payload, message.wrapped_in) == (PAYLOAD, ())


def test_field_that_a_service_adds_one_day_changes_nothing() -> None:
    assert read(sns(PAYLOAD, Added=1)).payload == PAYLOAD
    assert read(eventbridge(PAYLOAD, **{"replay-name": "r"})).payload == PAYLOAD


@pytest.mark.parametrize(
    "body",
    [sns(PAYLOAD), sns(ENVELOPE), eventbridge(PAYLOAD), s3(), sns(s3()), sns(eventbridge(PAYLOAD))],
)
def test_copy_of_a_wrapped_message_is_the_same_job_without_wrapping(body: object) -> None:
    original = read(body)

    copy = decode(delivered(delayed_copy(original, deferrals=2)), default_job=None)

    assert (copy.id, copy.name, copy.payload) == (original.id, original.name, original.payload)
    assert (copy.deferrals, copy.first_sent, copy.wrapped_in) == (2, SENT, ())


def test_copy_carries_the_payload_that_was_sent_not_what_the_job_made_of_it() -> None:
    original = read(sns(eventbridge({"rows": [1]})))
    rows: Any = original.payload["rows"]
    rows.append(2)

    copy = decode(delivered(delayed_copy(original, deferrals=1)), default_job=None)

    assert copy.payload == payload_as_sent(original) == {"rows": [1]}


def test_copy_takes_the_attributes_of_the_topics_message_along() -> None:
    blob = base64.b64encode(b"\x00\x01").decode()
    attributes = {"tenant": "blue", "blob": {"Type": "Binary", "Value": blob}, "AWS.SNS.X": "y"}

    outgoing = delayed_copy(read(sns(PAYLOAD, attributes=attributes)), deferrals=1)

    assert outgoing.attributes == {
        "tenant": {"DataType": "String", "StringValue": "blue"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }


def test_copy_has_no_more_attributes_than_a_queue_takes() -> None:
    """A topic's message may carry more than ten: its copy was refused, again and again."""
    attributes = {f"own{number}": "v" for number in range(15)}

    outgoing = delayed_copy(read(sns(PAYLOAD, attributes=attributes)), deferrals=1)

    assert len(outgoing.attributes) == MAX_ATTRIBUTES


@pytest.mark.parametrize(
    "body",
    [
        sns(PAYLOAD, attributes={"sekali.job": "report", "sekali.id": "order-7", "tenant": "blue"}),
        sns(ENVELOPE),
        eventbridge(PAYLOAD),
        s3(),
        sns(s3()),
    ],
)
def test_dead_letter_of_a_wrapped_message_redrives_as_the_same_job(body: object) -> None:
    original = read(body)

    letter = dead_letter(original, reason="failed", fence=1_700_000_000_000_007)
    redriven = read(letter.body, attributes=delivered(letter)["messageAttributes"])  # type: ignore[arg-type] # as built above

    assert letter.body == original.body
    assert "tenant" not in letter.attributes
    assert (redriven.id, redriven.name, redriven.payload) == (
        original.id,
        original.name,
        original.payload,
    )
    assert redriven.rearm == 1_700_000_000_000_007


@pytest.mark.parametrize("routes", [True, {"Flight*": "note"}])
def test_dead_letter_finds_its_job_when_the_worker_has_got_others(routes: Any) -> None:
    letter = dead_letter(read(eventbridge(PAYLOAD)), reason="failed")

    redriven = decode(delivered(letter), default_job=None, unwrap=Unwrap(eventbridge=routes))

    assert redriven is not None
    assert redriven.name == "report"


@pytest.mark.parametrize("job", ["", "no such", "x" * 65])
def test_route_to_what_cannot_be_a_job_is_refused_at_import(job: str) -> None:
    with pytest.raises(SettingInvalid, match="must map names of events to names of jobs"):
        Unwrap(s3={"ObjectCreated:*": job})
