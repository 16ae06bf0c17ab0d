"""The fields of an envelope: one table, from which they are read, described and made a JSON Schema.

A field that may be left out may also be null. Numbers follow JSON, where `1.0` is `1`.

`schema` describes bodies, so it cannot say three things that the reader refuses too: text that is
not JSON or has NaN in it, nesting beyond 100 levels, and a name that the worker has no job for.
"""

import json
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from sekali.errors import MessageInvalid
from sekali.light_dataclass import dataclass

VERSION: Final = 1
MAX_ID_CHARS: Final = 512
MAX_NAME_CHARS: Final = 64
# Fences are doubles on the server; from here on they would not be exact.
MAX_EXACT: Final = 2**53

JOB_ATTRIBUTE: Final = "sekali.job"
ID_ATTRIBUTE: Final = "sekali.id"
REASON_ATTRIBUTE: Final = "sekali.reason"
FENCE_ATTRIBUTE: Final = "sekali.fence"
FIRST_SEEN_ATTRIBUTE: Final = "sekali.first_seen"

# What may stand for a payload begins so: a worker reads nothing else of its bucket.
PAYLOAD_PREFIX: Final = "payloads/"
MAX_KEY_CHARS: Final = 1_024
HASH_CHARS: Final = 32

Kind = Literal["version", "id", "text", "name", "object", "ref", "seconds", "count"]

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME_CHARS}}}")
_PAYLOAD_KEY = re.compile(rf"{PAYLOAD_PREFIX}[A-Za-z0-9_.=/-]+")
_HASH = re.compile(rf"[0-9a-f]{{{HASH_CHARS}}}")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an envelope.

    `required` may name the other field that may stand in its place. `writer` is who sets it:
    senders, or only the library.
    """

    name: str
    kind: Kind
    meaning: str
    required: bool | str = False
    writer: Literal["sender", "library"] = "sender"


FIELDS: Final = (
    Field("sekali", "version", "The version of this contract.", required=True),
    Field("id", "id", "Who asks: messages with one id are one request.", required=True),
    Field("payload", "object", "What the job is given, as it is.", required="payload_ref"),
    Field("payload_ref", "ref", "Where the payload is, if it is too large for a message."),
    Field("name", "name", "Which job; may be left out where the worker has only one."),
    Field("key", "text", "What is computed, where it is not to be derived from the payload."),
    Field("enqueued_at", "seconds", "Unix seconds at which it was sent, by the sender's clock."),
    Field("attempt", "count", "How many times people put this job on the queue; 1 at first."),
    Field(
        "trace",
        "text",
        "Where it comes from, for copies: an X-Ray header or a W3C traceparent; a sender sets the "
        "attribute AWSTraceHeader or traceparent instead.",
        writer="library",
    ),
    Field("first_sent", "seconds", "Unix seconds of the original's send.", writer="library"),
    Field("deferrals", "count", "How many copies led from the original here.", writer="library"),
    Field("rearm", "count", "The fence of the dead letter that this redrives.", writer="library"),
)

# JSON Schema's `pattern` finds a match anywhere, and `$` means two things in two languages; what
# must not be there means one.
_SCHEMAS: Mapping[Kind, Mapping[str, object]] = MappingProxyType(
    {
        "version": {"const": VERSION},
        "id": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_ID_CHARS,
            "not": {"pattern": r"[\ud800-\udfff]"},
        },
        "text": {"type": "string", "minLength": 1, "not": {"pattern": r"[\ud800-\udfff]"}},
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "not": {"pattern": r"[^A-Za-z0-9_.\-]"},
        },
        "object": {"type": "object"},
        "ref": {
            "type": "object",
            "required": ["key"],
            "properties": {
                "key": {
                    "type": "string",
                    "minLength": len(PAYLOAD_PREFIX) + 1,
                    "maxLength": MAX_KEY_CHARS,
                    "pattern": f"^{PAYLOAD_PREFIX}",
                    "not": {"pattern": r"[^A-Za-z0-9_.=/\-]"},
                },
                "hash": {
                    "anyOf": [
                        {
                            "type": "string",
                            "minLength": HASH_CHARS,
                            "maxLength": HASH_CHARS,
                            "not": {"pattern": "[^0-9a-f]"},
                        },
                        {"type": "null"},
                    ]
                },
            },
        },
        "seconds": {"type": "number", "minimum": 0, "exclusiveMaximum": MAX_EXACT},
        "count": {"type": "integer", "minimum": 0, "exclusiveMaximum": MAX_EXACT},
    }
)


def schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a message body."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:sekali:message:{VERSION}",
        "title": "A message for a Sekali worker",
        "type": "object",
        "if": {"required": ["sekali"]},
        "then": {"$ref": "#/$defs/envelope"},
        "else": {"$ref": "#/$defs/plain"},
        "$defs": {
            "envelope": {
                "description": "Other fields than these are ignored.",
                "required": [field.name for field in FIELDS if field.required is True],
                "anyOf": [
                    {"required": ["payload"], "properties": {"payload_ref": {"type": "null"}}},
                    {
                        "required": ["payload_ref"],
                        "properties": {"payload_ref": {"type": "object"}},
                        "not": {"required": ["payload"]},
                    },
                ],
                "properties": {field.name: _property(field) for field in FIELDS},
            },
            "plain": {
                "description": (
                    "The whole object is the payload. It may be empty only beside the message "
                    f"attribute {ID_ATTRIBUTE}."
                ),
                "minProperties": 1,
            },
        },
    }


def schema_text() -> str:
    """Return the schema as it is published."""
    return json.dumps(schema(), indent=2) + "\n"


def check_version(value: object) -> None:
    """Refuse an envelope of another version, and what is no version at all."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != VERSION:
        raise MessageInvalid("wrong_version", "sekali", f"must be {VERSION}", value)


class PayloadRef(NamedTuple):
    """Where a payload is: its key in the worker's bucket, and its hash if the sender knows it."""

    key: str
    hash: str | None


def read_payload_ref(envelope: Mapping[str, object]) -> PayloadRef | None:
    """Return what stands for the payload, None where the payload stands there itself."""
    ref = envelope.get("payload_ref")
    if ref is None:
        return None
    if "payload" in envelope:
        raise MessageInvalid("wrong_type", "payload_ref", "must not stand beside payload", "both")
    if not isinstance(ref, dict):
        raise MessageInvalid("wrong_type", "payload_ref", "must be an object", type(ref).__name__)
    key, digest = ref.get("key"), ref.get("hash")
    if not isinstance(key, str) or not _PAYLOAD_KEY.fullmatch(key) or len(key) > MAX_KEY_CHARS:
        rule = f"must match {_PAYLOAD_KEY.pattern}"
        raise MessageInvalid("wrong_type", "payload_ref.key", rule, key)
    if digest is not None and not (isinstance(digest, str) and _HASH.fullmatch(digest)):
        raise MessageInvalid(
            "wrong_type", "payload_ref.hash", f"must match {_HASH.pattern}", digest
        )
    return PayloadRef(key, digest)


def read_payload(envelope: Mapping[str, object]) -> Mapping[str, object]:
    """Return the payload of an envelope."""
    if "payload" not in envelope:
        raise MessageInvalid("missing_field", "payload", "must be an object", None)
    payload = envelope["payload"]
    if not isinstance(payload, dict):
        raise MessageInvalid("wrong_type", "payload", "must be an object", type(payload).__name__)
    return payload


def read_id(value: object) -> str:
    """Return an id, from an envelope or an attribute."""
    text = read_text(value, "id")
    if len(text) > MAX_ID_CHARS:
        rule = f"must have at most {MAX_ID_CHARS} characters"
        raise MessageInvalid("wrong_type", "id", rule, f"{len(text)} characters")
    return text


def read_name(value: object) -> str:
    """Return what can be the name of a job."""
    name = read_text(value, "name")
    if not _NAME.fullmatch(name):
        raise MessageInvalid("unknown_job", "name", f"must match {_NAME.pattern}", name)
    return name


def read_text(value: object, field: str) -> str:
    """Return text that can be a name of something in every store."""
    if not isinstance(value, str):
        raise MessageInvalid("wrong_type", field, "must be text", type(value).__name__)
    # A lone surrogate survives JSON but is not text: it cannot be stored under any name.
    if not value or (not value.isascii() and _SURROGATE.search(value)):
        raise MessageInvalid("wrong_type", field, "must be text that is not empty", ascii(value))
    return value


def read_optional_text(envelope: Mapping[str, object], field: str) -> str | None:
    """Return the text of a field that may be left out."""
    value = envelope.get(field)
    return None if value is None else read_text(value, field)


def read_seconds(envelope: Mapping[str, object], field: str) -> float | None:
    """Return Unix seconds, None where the field was left out."""
    value = envelope.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageInvalid("wrong_type", field, "must be unix seconds", type(value).__name__)
    if not 0 <= value < MAX_EXACT:
        raise MessageInvalid("wrong_type", field, "must be unix seconds", value)
    return float(value)


def read_count(envelope: Mapping[str, object], field: str, *, default: int) -> int:
    """Return a count or a fence, `default` where the field was left out."""
    value = envelope.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise MessageInvalid("wrong_type", field, "must be a count", type(value).__name__)
    if not 0 <= value < MAX_EXACT:
        raise MessageInvalid("wrong_type", field, "must be a count", value)
    return int(value)


def _property(field: Field) -> dict[str, object]:
    described: dict[str, object] = {"description": field.meaning}
    rule = dict(_SCHEMAS[field.kind])
    if field.required:
        return described | rule
    if field.writer == "library":
        described["$comment"] = "Written by the library."
    return described | {"anyOf": [rule, {"type": "null"}]}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
