"""Take off what SNS, EventBridge and S3 put around a body on its way to the queue.

A body alone cannot prove where it comes from: anybody may send a plain body that reads like a
notification. So nothing is taken off unless the worker names the wrapping in `Unwrap`, and then
only a body that has every field of it, in its form. Everything else is what it is without
`Unwrap`: an envelope is never unwrapped, and a body that falls short of a wrapping is a plain one.

| wrapping | the body becomes | the id, where neither envelope nor `sekali.id` gives one |
|---|---|---|
| SNS, not raw | `Message`, with its MessageAttributes | that of the inner body |
| EventBridge | `detail` | the event's `id` |
| S3 | `{"Records": [...]}`: one job, however many records | made of the objects' events |

SNS may hold one of the other two. An SNS message published twice has two MessageIds, so its id is
taken from what it says, as of a body that was sent directly. S3's ids are made of bucket, key,
version, event name and sequencer; where S3 gives no sequencer, of the event's time and request.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from sekali.bodies import NOT_XML, as_mapping, parse
from sekali.errors import MessageInvalid, SettingInvalid
from sekali.light_dataclass import dataclass

Wrapping = Literal["sns", "eventbridge", "s3"]
Routes = bool | Mapping[str, str]
"""True takes the wrapping off; a mapping also says which job an event is for, by its name."""

_TOPIC = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z")
_ACCOUNT = re.compile(r"[0-9]{12}")
_REGION = re.compile(r"[a-z]{2}[a-z0-9-]{1,30}")
_EVENT_ID = re.compile(r"[A-Za-z0-9-]{1,128}")
_ANY = re.compile(r"(?s).+")
_JOB = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What SQS takes as the name and the type of an attribute; its reserved names are not for copies.
_ATTRIBUTE = re.compile(r"(?!(?i:aws|amazon)\.)[A-Za-z0-9_.-]{1,256}")
_RESERVED = re.compile(r"(?i:aws|amazon)\..*")
_TYPE = re.compile(r"String|String\.Array|Number|Binary")
_CONFIRMATION = re.compile(r"(Subscription|Unsubscribe)Confirmation")
_TEST_FIELDS = frozenset({"Service", "Event", "Time", "Bucket", "RequestId", "HostId"})
_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrap:
    """Name the wrappings that a worker takes off.

    `eventbridge` and `s3` may map names of events to jobs, for a worker with several: EventBridge's
    detail-type, S3's event name. A name that ends in `*` stands for all that begin so, the first
    that fits counts, and an event that none fits is refused; a name in an envelope or an attribute
    goes before. With True, and for SNS, the job is named as in any plain body.

    Example:
        Unwrap(sns=True, s3={"ObjectCreated:*": "index", "ObjectRemoved:*": "forget"})
    """

    sns: bool = False
    eventbridge: Routes = False
    s3: Routes = False

    def __post_init__(self) -> None:
        for routes in (self.eventbridge, self.s3):
            for event, job in routes.items() if isinstance(routes, Mapping) else ():
                if not event or not _JOB.fullmatch(job):
                    rule = "must map names of events to names of jobs"
                    raise SettingInvalid("unwrap", rule, f"{event}: {job}")


class Inner(NamedTuple):
    """What was inside: a body, and what its wrappings said about it.

    `attributes` have the form of a record's. `event` is the name that `routes` know it by, `field`
    where it stood. `notice` tells that the sender asked for nothing (S3's test event).
    """

    body: Mapping[str, object]
    wrapped_in: tuple[Wrapping, ...] = ()
    attributes: Mapping[str, object] = _NOTHING
    id: str | None = None
    routes: Routes = False
    field: str = ""
    event: str = ""
    notice: bool = False

    def job(self) -> str | None:
        """Return the job that the routes name for this event; None where there are no routes.

        Raises:
            MessageInvalid: none of the routes fits.
        """
        if not isinstance(self.routes, Mapping):
            return None
        for name, job in self.routes.items():
            if self.event == name or (name.endswith("*") and self.event.startswith(name[:-1])):
                return job
        known = ", ".join(self.routes)
        raise MessageInvalid("unknown_job", self.field, f"must be one of {known}", self.event)


def unwrapped(body: Mapping[str, object], unwrap: Unwrap) -> Inner:
    """Take the named wrappings off, the outer one first.

    Raises:
        MessageInvalid: SNS wraps what is no JSON object, or asks for its subscription to be
            confirmed.
    """
    if "sekali" in body:
        return Inner(body)
    if unwrap.sns and _is_notification(body):
        message = parse(body["Message"], field="Message")
        inner = _event(message, unwrap)
        attributes = _record_attributes(as_mapping(body.get("MessageAttributes")))
        return inner._replace(wrapped_in=("sns", *inner.wrapped_in), attributes=attributes)
    return _event(body, unwrap)


def rewrapped(wrapped_in: tuple[Wrapping, ...]) -> Unwrap:
    """Return what takes exactly these wrappings off, wherever their events are routed."""
    unwrap = Unwrap()
    for wrapping in wrapped_in:
        unwrap = replace(unwrap, **{wrapping: True})
    return unwrap


def _event(body: Mapping[str, object], unwrap: Unwrap) -> Inner:
    if "sekali" in body:
        return Inner(body)
    if unwrap.eventbridge and _is_event(body):
        return Inner(
            as_mapping(body["detail"]),
            ("eventbridge",),
            id=str(body["id"]),
            routes=unwrap.eventbridge,
            field="detail-type",
            event=str(body["detail-type"]),
        )
    if unwrap.s3 and _is_test(body):
        return Inner(body, ("s3",), notice=True)
    if unwrap.s3 and (records := _s3_records(body)):
        return Inner(
            body,
            ("s3",),
            id=_s3_id(records),
            routes=unwrap.s3,
            field="eventName",
            event=str(records[0]["eventName"]),
        )
    return Inner(body)


def _has(body: Mapping[str, object], **forms: re.Pattern[str]) -> bool:
    """Tell whether each field is text of its form; `_` in a name stands for `-`."""
    for name, form in forms.items():
        value = body.get(name.replace("_", "-"))
        if not isinstance(value, str) or not form.fullmatch(value):
            return False
    return True


def _is_notification(body: Mapping[str, object]) -> bool:
    if not _has(body, MessageId=_EVENT_ID, TopicArn=_TOPIC, Timestamp=_TIME):
        return False
    if _has(body, Type=_CONFIRMATION, Token=_ANY, SubscribeURL=_ANY):
        rule = "must ask for a job: somebody must open its SubscribeURL"
        raise MessageInvalid("payload_rejected", "Type", rule, body["Type"])
    attributes = body.get("MessageAttributes", _NOTHING)
    return (
        body.get("Type") == "Notification"
        and isinstance(body.get("Message"), str)
        and isinstance(attributes, Mapping)
        and all(_is_attribute(name, value) for name, value in attributes.items())
    )


def _is_attribute(name: str, value: object) -> bool:
    attribute = as_mapping(value)
    if set(attribute) != {"Type", "Value"} or not _has(attribute, Type=_TYPE, Value=_ANY):
        return False
    text = str(attribute["Value"])
    if attribute["Type"] == "Binary":
        return _is_base64(text)
    return NOT_XML.search(text) is None and bool(
        _ATTRIBUTE.fullmatch(name) or _RESERVED.fullmatch(name)
    )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _record_attributes(attributes: Mapping[str, object]) -> Mapping[str, object]:
    """Write SNS attributes as Lambda hands over those of the queue."""
    return {
        name: {
            "binaryValue" if value["Type"] == "Binary" else "stringValue": value["Value"],
            "dataType": value["Type"],
        }
        for name, value in ((name, as_mapping(value)) for name, value in attributes.items())
        if _ATTRIBUTE.fullmatch(name)
    }


def _is_event(body: Mapping[str, object]) -> bool:
    return (
        body.get("version") == "0"
        and _has(body, id=_EVENT_ID, detail_type=_ANY, source=_ANY)
        and _has(body, account=_ACCOUNT, time=_TIME, region=_REGION)
        and isinstance(body.get("resources"), list)
        and isinstance(body.get("detail"), dict)
    )


def _is_test(body: Mapping[str, object]) -> bool:
    return (
        set(body) == _TEST_FIELDS
        and body["Service"] == "Amazon S3"
        and body["Event"] == "s3:TestEvent"
    )


def _s3_records(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the records of an S3 notification; none where the body is not one."""
    records = body.get("Records")
    if set(body) != {"Records"} or not isinstance(records, list):
        return []
    records = [as_mapping(record) for record in records]
    return records if all(map(_is_s3_record, records)) else []


def _is_s3_record(record: Mapping[str, object]) -> bool:
    s3 = as_mapping(record.get("s3"))
    return (
        record.get("eventSource") == "aws:s3"
        and _has(record, eventVersion=_ANY, awsRegion=_REGION, eventName=_ANY, eventTime=_TIME)
        and _has(as_mapping(s3.get("bucket")), name=_ANY)
        and _has(as_mapping(s3.get("object")), key=_ANY)
    )


def _s3_id(records: list[Mapping[str, object]]) -> str:
    identity = json.dumps([_s3_identity(record) for record in records], separators=(",", ":"))
    return hashlib.sha256(identity.encode("ascii")).hexdigest()


def _s3_identity(record: Mapping[str, object]) -> list[object]:
    s3 = as_mapping(record["s3"])
    stored = as_mapping(s3["object"])
    request = as_mapping(record.get("responseElements")).get("x-amz-request-id")
    order = stored.get("sequencer")
    return [
        as_mapping(s3["bucket"])["name"],
        stored["key"],
        stored.get("versionId"),
        record["eventName"],
        # Only events that create or delete an object carry a sequencer.
        [record["eventTime"], request] if order is None else order,
    ]
