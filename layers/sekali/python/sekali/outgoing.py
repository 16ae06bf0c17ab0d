"""What the worker sends itself: delayed copies and dead letters.

Both keep everything that the next receiver needs, so that the original may be let go once the queue
has acknowledged them. Plain data: the caller sends it.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeVar

from sekali.bodies import NOT_XML, as_mapping
from sekali.contract import (
    FENCE_ATTRIBUTE,
    FIRST_SEEN_ATTRIBUTE,
    ID_ATTRIBUTE,
    JOB_ATTRIBUTE,
    REASON_ATTRIBUTE,
)
from sekali.message import Message, encode, optional_text, payload_as_sent, sent_seconds

# Of one message and of one batch (SQS quotas): body, and each attribute's name, type and value.
MAX_MESSAGE_BYTES = 1_048_576
MAX_ATTRIBUTES = 10
MAX_ENTRIES = 10
# A dead letter is read by people: a longer error text belongs in the logs.
MAX_ERROR_CHARS = 1_024

DEAD_LETTER_ATTRIBUTES = frozenset(
    {
        REASON_ATTRIBUTE,
        FENCE_ATTRIBUTE,
        JOB_ATTRIBUTE,
        "sekali.error_type",
        "sekali.error",
        "sekali.attempts",
        FIRST_SEEN_ATTRIBUTE,
        "sekali.trace",
    }
)

Send = TypeVar("Send")
Attribute = Mapping[str, str | bytes]


class Outgoing(NamedTuple):
    """The body and the message attributes of one send, as boto3 takes them."""

    body: str
    attributes: Mapping[str, Attribute]

    @property
    def size_bytes(self) -> int:
        """What the queue counts against `MAX_MESSAGE_BYTES`."""
        return len(self.body.encode()) + sum(map(_attribute_bytes, self.attributes.items()))


def delayed_copy(message: Message, *, deferrals: int) -> Outgoing:
    """Write the message again, to be sent with a delay before the original is let go.

    Id, payload, `first_sent`, `rearm` and trace stay; the sender's own message attributes too. The
    marks of a dead letter go: the copy carries what they said in its envelope. So do wrappings, of
    whose attributes the first ten are kept. A plain body becomes an envelope and so a little
    longer: compare `size_bytes` with `MAX_MESSAGE_BYTES`, and return a message that no longer fits
    to the queue in its place.
    """
    own = {
        name: attribute
        for name, attribute in _sendable(
            {**message.attributes, **message.inner_attributes, **message.attributes}
        ).items()
        if name not in DEAD_LETTER_ATTRIBUTES and name != ID_ATTRIBUTE
    }
    kept = dict(islice(own.items(), MAX_ATTRIBUTES))
    copy = replace(message, payload=payload_as_sent(message), deferrals=deferrals)
    return Outgoing(encode(copy), kept)


def dead_letter(
    source: Message | Mapping[str, object],
    *,
    reason: str,
    error_type: str | None = None,
    error: str | None = None,
    attempts: int | None = None,
    fence: int = 0,
    trace: str | None = None,
) -> Outgoing:
    """Write the message for the dead letter queue: its body untouched, the reason beside it.

    The body is the original, so moving it back is a whole redrive, which the attribute
    `sekali.fence` re-arms. A queue takes ten attributes and 1 MiB. What does not fit is left out,
    the least important first: trace, attempts, error, error_type, then the sender's own attributes,
    then first_seen, job, fence, reason.

    Args:
        source: the message, or the raw record where it could not be decoded.
        reason: one word, for grouping.
        error_type: class of the error.
        error: its text; cut to `MAX_ERROR_CHARS`.
        attempts: bodies started.
        fence: the greatest fence known of the job; 0 where there is none.
        trace: overrides the trace of the message.
    """
    first_seen: float | None
    if isinstance(source, Message):
        body, raw, job = source.body or encode(source), source.attributes, source.name
        fence, first_seen = max(fence, source.rearm), source.first_sent
        trace = trace or source.trace
    else:
        body, raw = str(source.get("body") or ""), as_mapping(source.get("messageAttributes"))
        system = as_mapping(source.get("attributes"))
        job, first_seen = "", sent_seconds(system)
        trace = trace or optional_text(system.get("AWSTraceHeader"))
    sent = _sendable(raw)
    own = {name: value for name, value in sent.items() if name not in DEAD_LETTER_ATTRIBUTES}
    ranked = [
        (REASON_ATTRIBUTE, _string(reason)),
        (FENCE_ATTRIBUTE, _number(fence or None) or sent.get(FENCE_ATTRIBUTE)),
        (JOB_ATTRIBUTE, _string(job) or sent.get(JOB_ATTRIBUTE)),
        (FIRST_SEEN_ATTRIBUTE, _number(first_seen)),
        *own.items(),
        ("sekali.error_type", _string(error_type)),
        ("sekali.error", _string(error)),
        ("sekali.attempts", _number(attempts)),
        ("sekali.trace", _string(trace)),
    ]
    # The queue refuses an empty body; a space is the same mistake, told the same way.
    return _within_limits(body or " ", ranked)


def entry(
    outgoing: Outgoing,
    *,
    entry_id: str,
    delay_seconds: int = 0,
    group: str | None = None,
    deduplication: str | None = None,
    trace: str | None = None,
) -> dict[str, object]:
    """Write one entry of a `SendMessageBatch`; without its `Id` it is a `SendMessage`.

    The trace travels as the system attribute `AWSTraceHeader`, which the queue does not count. A
    FIFO queue takes no delay of one message, so leave it 0 there.
    """
    fields: dict[str, object] = {"Id": entry_id, "MessageBody": outgoing.body}
    if outgoing.attributes:
        fields["MessageAttributes"] = outgoing.attributes
    if delay_seconds:
        fields["DelaySeconds"] = delay_seconds
    if group is not None:
        fields["MessageGroupId"] = group
    if deduplication is not None:
        fields["MessageDeduplicationId"] = deduplication
    if trace is not None:
        header = {"DataType": "String", "StringValue": trace}
        fields["MessageSystemAttributes"] = {"AWSTraceHeader": header}
    return fields


def batches(sends: Iterable[Send], *, size_bytes: Callable[[Send], int]) -> Iterator[list[Send]]:
    """Group what is to be sent into batches that one request may hold, in order, lazily."""
    batch: list[Send] = []
    left_bytes = MAX_MESSAGE_BYTES
    for send in sends:
        needed_bytes = size_bytes(send)
        if batch and (len(batch) == MAX_ENTRIES or needed_bytes > left_bytes):
            yield batch
            batch, left_bytes = [], MAX_MESSAGE_BYTES
        batch.append(send)
        left_bytes -= needed_bytes
    if batch:
        yield batch


def _sendable(attributes: Mapping[str, object]) -> dict[str, Attribute]:
    """Turn message attributes as Lambda hands them over into what a send takes."""
    sendable: dict[str, Attribute] = {}
    for name, received in attributes.items():
        attribute = as_mapping(received)
        data_type = str(attribute.get("dataType", "String"))
        if attribute.get("binaryValue") is not None:
            binary = base64.b64decode(str(attribute["binaryValue"]))
            sendable[name] = {"DataType": data_type, "BinaryValue": binary}
        elif attribute.get("stringValue") is not None:
            sendable[name] = {"DataType": data_type, "StringValue": str(attribute["stringValue"])}
    return sendable


def _string(value: str | None) -> Attribute | None:
    if not value:
        return None
    return {"DataType": "String", "StringValue": NOT_XML.sub("\ufffd", value[:MAX_ERROR_CHARS])}


def _number(value: float | None) -> Attribute | None:
    return None if value is None else {"DataType": "Number", "StringValue": f"{value:.16g}"}


def _attribute_bytes(item: tuple[str, Attribute]) -> int:
    name, attribute = item
    return len(name.encode()) + sum(
        len(value.encode() if isinstance(value, str) else value) for value in attribute.values()
    )


def _within_limits(body: str, ranked: Sequence[tuple[str, Attribute | None]]) -> Outgoing:
    left_bytes = MAX_MESSAGE_BYTES - len(body.encode())
    kept: dict[str, Attribute] = {}
    for name, attribute in ranked:
        if attribute is None or len(kept) == MAX_ATTRIBUTES:
            continue
        size_bytes = _attribute_bytes((name, attribute))
        if size_bytes <= left_bytes:
            kept[name] = attribute
            left_bytes -= size_bytes
    return Outgoing(body, kept)
