"""The message contract: what a producer may put on the queue.

A body is a JSON object. With the field `sekali` it is an *envelope*, whose fields stand in
`contract`; other fields are ignored, so that version 1 can grow. Without `sekali` the whole object
is the payload (*plain body*): the name is the message attribute `sekali.job` or the worker's only
job, the id is the message attribute `sekali.id` or is derived from name and payload, so that two
sends of one plain body are one job.

Both forms may come wrapped by SNS, EventBridge or S3, if the worker says so: see `wrappings`. What
the worker sends itself, copies and dead letters, is in `outgoing`. Nothing here connects to
anything or reads a clock.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import overload

from sekali.bodies import as_mapping, parse, to_json
from sekali.contract import (
    FENCE_ATTRIBUTE,
    FIRST_SEEN_ATTRIBUTE,
    ID_ATTRIBUTE,
    JOB_ATTRIBUTE,
    REASON_ATTRIBUTE,
    VERSION,
    check_version,
    read_count,
    read_id,
    read_name,
    read_optional_text,
    read_payload,
    read_payload_ref,
    read_seconds,
    read_text,
)
from sekali.errors import MessageInvalid
from sekali.light_dataclass import dataclass
from sekali.offloaded import OffloadedPayload, PayloadSource
from sekali.telemetry.trace_context import TRACEPARENT
from sekali.wrappings import Inner, Unwrap, Wrapping, rewrapped, unwrapped

_NOTHING: Mapping[str, object] = {}
NO_WRAPPING = Unwrap()
_DIGITS = re.compile("[0-9]{1,16}", re.ASCII)
_UNWRAPPED = Inner(_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One decoded record.

    Times are unix seconds. `first_sent` is never later than the queue's own time of the send and is
    kept by copies: it is what the age of shared state is compared with. `enqueued_at` is when the
    present wait began: the first send, or the redrive of a dead letter. `body` is what the queue
    delivered, wrappings and all; `attributes` stood beside it, `inner_attributes` within SNS's.
    """

    id: str
    name: str
    payload: Mapping[str, object]
    key: str | None = None
    first_sent: float
    enqueued_at: float
    attempt: int = 1
    deferrals: int = 0
    trace: str | None = None
    rearm: int = 0
    id_given: bool = True
    message_id: str = ""
    receipt_handle: str = ""
    group_id: str | None = None
    receive_count: int = 1
    body: str = ""
    attributes: Mapping[str, object] = field(default_factory=dict)
    inner_attributes: Mapping[str, object] = field(default_factory=dict)
    wrapped_in: tuple[Wrapping, ...] = ()

    @property
    def is_copy(self) -> bool:
        """Whether this message is a delayed copy of an earlier one."""
        return self.deferrals > 0


@overload
def decode(
    record: Mapping[str, object],
    *,
    default_job: str | None,
    jobs: Collection[str] | None = None,
    received_at: float = 0.0,
    payloads: PayloadSource | None = None,
) -> Message: ...


@overload
def decode(
    record: Mapping[str, object],
    *,
    default_job: str | None,
    jobs: Collection[str] | None = None,
    received_at: float = 0.0,
    unwrap: Unwrap,
    payloads: PayloadSource | None = None,
) -> Message | None: ...


def decode(
    record: Mapping[str, object],
    *,
    default_job: str | None,
    jobs: Collection[str] | None = None,
    received_at: float = 0.0,
    unwrap: Unwrap = NO_WRAPPING,
    payloads: PayloadSource | None = None,
) -> Message | None:
    """Read one record of an SQS event.

    Args:
        record: as Lambda hands it over (`body`, `attributes`, `messageAttributes`, `messageId`).
        default_job: the job of a message that names none; None where there are several.
        jobs: the names the worker knows; None skips that check.
        received_at: stands in for the time of the send where the record has none.
        unwrap: what may be taken off around the body.
        payloads: where payloads are that do not fit a message; None where there is no bucket.

    Returns:
        The message; None for a notice that asks for nothing (S3's test event), to be let go.

    Raises:
        MessageInvalid: the producer's mistake, permanent; `reason` and `field` say which.
    """
    text = record.get("body")
    body, inner = parse(text), _UNWRAPPED
    if "sekali" not in body:
        inner = unwrapped(body, unwrap)
        if inner.notice:
            return None
        body = inner.body
    beside = as_mapping(record.get("messageAttributes"))
    # What stands beside the body is newer: the marks of a dead letter do.
    attributes = {**inner.attributes, **beside} if inner.attributes else beside
    system = as_mapping(record.get("attributes"))
    enveloped = "sekali" in body
    if enveloped:
        check_version(body["sekali"])
    envelope = body if enveloped else _NOTHING
    given_id = _given_id(body, attributes, inner.id)
    name = _name(envelope, attributes, inner, default_job=default_job, jobs=jobs)
    payload = _payload(envelope, payloads) if enveloped else body
    redriven = REASON_ATTRIBUTE in attributes

    said_at = read_seconds(envelope, "enqueued_at")
    sent_at = sent_seconds(system)
    if sent_at is None:
        sent_at = received_at if said_at is None else said_at
    said_first = _first_seen(attributes) if redriven else None
    if said_first is None:
        said_first = read_seconds(envelope, "first_sent")
    deferrals = read_count(envelope, "deferrals", default=0)
    trace = read_optional_text(envelope, "trace") or system.get("AWSTraceHeader")
    if trace is None and TRACEPARENT in attributes:
        trace = attribute_text(attributes, TRACEPARENT)
    fence = _fence(attributes) if attributes else 0
    return Message(
        id=derive_id(name, payload) if given_id is None else given_id,
        name=name,
        payload=payload,
        key=read_optional_text(envelope, "key"),
        first_sent=sent_at if said_first is None else min(said_first, sent_at),
        enqueued_at=sent_at if redriven or said_at is None else min(said_at, sent_at),
        attempt=read_count(envelope, "attempt", default=1),
        deferrals=0 if redriven else deferrals,
        trace=None if trace is None else read_text(trace, "trace"),
        rearm=max(read_count(envelope, "rearm", default=0), fence),
        id_given=given_id is not None,
        message_id=str(record.get("messageId", "")),
        receipt_handle=str(record.get("receiptHandle", "")),
        group_id=optional_text(system.get("MessageGroupId")),
        receive_count=_digits(system.get("ApproximateReceiveCount")) or 1,
        body=str(text),
        attributes=beside,
        inner_attributes=inner.attributes,
        wrapped_in=inner.wrapped_in,
    )


def payload_as_sent(message: Message) -> Mapping[str, object]:
    """Read the payload from the body again: a job may have changed the one that it was given."""
    if not message.body or isinstance(message.payload, OffloadedPayload):
        return message.payload
    body = unwrapped(parse(message.body), rewrapped(message.wrapped_in)).body
    return read_payload(body) if "sekali" in body else body


def encode(message: Message) -> str:
    """Write the envelope that decodes to this message again.

    What belongs to one delivery (message id, receipt, receive count) is not part of it.
    """
    envelope: dict[str, object] = {
        "sekali": VERSION,
        "id": message.id,
        "name": message.name,
    }
    if isinstance(message.payload, OffloadedPayload):
        envelope["payload_ref"] = message.payload.ref
    else:
        envelope["payload"] = message.payload
    envelope["enqueued_at"] = message.enqueued_at
    envelope["attempt"] = message.attempt
    optional = {
        "key": message.key,
        # Of an original the queue's own time of the send is better than any sender's clock.
        "first_sent": message.first_sent if message.is_copy else None,
        "deferrals": message.deferrals or None,
        "trace": message.trace,
        "rearm": message.rearm or None,
    }
    envelope.update((field, value) for field, value in optional.items() if value is not None)
    return to_json(envelope)


def derive_id(name: str, payload: Mapping[str, object], *, key: str | None = None) -> str:
    """Return the id of a job whose sender gave none: equal name, key and payload are one job.

    The payload is taken as JSON carries it, so key order does not matter and `1` is not `1.0`.
    """
    canonical = json.dumps([name, key, payload], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _payload(
    envelope: Mapping[str, object], payloads: PayloadSource | None
) -> Mapping[str, object]:
    ref = read_payload_ref(envelope)
    if ref is None:
        return read_payload(envelope)
    if payloads is None:
        rule = "needs a worker with SEKALI_RESULTS_BUCKET"
        raise MessageInvalid("payload_rejected", "payload_ref", rule, ref.key)
    return payloads.behind(ref)


def _name(
    envelope: Mapping[str, object],
    attributes: Mapping[str, object],
    inner: Inner,
    *,
    default_job: str | None,
    jobs: Collection[str] | None,
) -> str:
    if "sekali" in envelope:
        name = envelope.get("name")
        if jobs is not None and type(name) is str and name in jobs:
            return name  # one that is registered was checked then
    else:
        name = attribute_text(attributes, JOB_ATTRIBUTE)
    if name is None:
        name = inner.job() or default_job
    if name is None:
        rule = f"or the attribute {JOB_ATTRIBUTE} must name the job"
        raise MessageInvalid("missing_field", "name", rule, None)
    name = read_name(name)
    if jobs is not None and name not in jobs:
        known = ", ".join(sorted(jobs))
        raise MessageInvalid("unknown_job", "name", f"must be one of {known}", name)
    return name


def _given_id(
    body: Mapping[str, object], attributes: Mapping[str, object], event_id: str | None
) -> str | None:
    if "sekali" in body:
        given = body.get("id")
        if given is None:
            raise MessageInvalid("missing_field", "id", "must be text", None)
    else:
        given = attribute_text(attributes, ID_ATTRIBUTE) or event_id
        if given is None and not body:
            rule = f"must have a field, or the message the attribute {ID_ATTRIBUTE}"
            raise MessageInvalid("empty", "body", rule, "{}")
        if given is None:
            return None
    return read_id(given)


def _fence(attributes: Mapping[str, object]) -> int:
    text = attribute_text(attributes, FENCE_ATTRIBUTE)
    if text is None:
        return 0
    if not _DIGITS.fullmatch(text):
        raise MessageInvalid("wrong_type", FENCE_ATTRIBUTE, "must be a fence", text)
    return int(text)


def _first_seen(attributes: Mapping[str, object]) -> float | None:
    text = attribute_text(attributes, FIRST_SEEN_ATTRIBUTE)
    if text is None:
        return None
    try:
        return read_seconds({FIRST_SEEN_ATTRIBUTE: float(text)}, FIRST_SEEN_ATTRIBUTE)
    except ValueError as error:
        rule = "must be unix seconds"
        raise MessageInvalid("wrong_type", FIRST_SEEN_ATTRIBUTE, rule, text) from error


def sent_seconds(system: Mapping[str, object]) -> float | None:
    """Return when the queue took this message, from the system attributes of its record."""
    sent_ms = _digits(system.get("SentTimestamp"))
    return None if sent_ms is None else sent_ms / 1000


def _digits(value: object) -> int | None:
    """Read a number of the queue's; None where it is none, which is not the sender's fault."""
    if value is None:
        return None
    text = str(value)
    return int(text) if _DIGITS.fullmatch(text) else None


def optional_text(value: object) -> str | None:
    """Keep None; everything else as text."""
    return None if value is None else str(value)


def attribute_text(attributes: Mapping[str, object], name: str) -> str | None:
    """Return the text of a message attribute, None where there is none."""
    if name not in attributes:
        return None
    return optional_text(as_mapping(attributes[name]).get("stringValue"))
