"""Read dead letters as what they are: a message, and beside it the reason why it lies here."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sekali.contract import (
    FENCE_ATTRIBUTE,
    FIRST_SEEN_ATTRIBUTE,
    JOB_ATTRIBUTE,
    REASON_ATTRIBUTE,
)
from sekali.errors import MessageInvalid
from sekali.message import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sekali.cli.place import Json

BY_QUEUE: Final = "too_many_receives"
"""Reason of a letter that the queue itself moved: no worker ever gave it an end."""
_UNNAMED: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter, with the receipt by which it can be removed or put back.

    `attributes` and `system` are as the queue hands them over. `id` is empty where the body is no
    message, `job` where nobody named one. Times are Unix seconds.
    """

    message_id: str
    receipt: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]  # Any: text or bytes, as boto3 has it
    system: Mapping[str, str]
    reason: str
    job: str
    id: str
    error_type: str
    error: str
    attempts: int
    fence: int
    first_seen: float
    died_at: float

    def as_json(self) -> Json:
        """Return it as `--json` shows it; binary attributes are base64."""
        return {
            "message_id": self.message_id,
            "reason": self.reason,
            "job": self.job,
            "id": self.id,
            "error_type": self.error_type,
            "error": self.error,
            "attempts": self.attempts,
            "fence": self.fence,
            "first_seen": self.first_seen,
            "died_at": self.died_at,
            "body": self.body,
            "attributes": {
                name: _plain_attribute(value) for name, value in self.attributes.items()
            },
            "system": dict(self.system),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which letters are meant; what is not said matches all."""

    reasons: tuple[str, ...] = ()
    job: str | None = None
    id: str | None = None
    error: str | None = None

    @property
    def everything(self) -> bool:
        """Tell whether nothing is filtered."""
        return self == Filter()

    def matches(self, letter: Letter) -> bool:
        """Tell whether this letter is meant."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and self.job in {None, letter.job}
            and self.id in {None, letter.id}
            and (self.error is None or self.error in f"{letter.error_type}: {letter.error}")
        )


def read(message: Mapping[str, Any]) -> Letter:  # Any: as boto3 has it
    """Read one message of the dead letter queue."""
    attributes = message.get("MessageAttributes", {})
    system = message.get("Attributes", {})
    job, job_id = _who(message["Body"], attributes)
    sent = int(system.get("SentTimestamp", 0)) / 1000
    return Letter(
        message_id=message["MessageId"],
        receipt=message["ReceiptHandle"],
        body=message["Body"],
        attributes=attributes,
        system=system,
        reason=_text(attributes, REASON_ATTRIBUTE) or BY_QUEUE,
        job=job,
        id=job_id,
        error_type=_text(attributes, "sekali.error_type"),
        error=_text(attributes, "sekali.error"),
        attempts=int(_number(attributes, "sekali.attempts")),
        fence=int(_number(attributes, FENCE_ATTRIBUTE)),
        first_seen=_number(attributes, FIRST_SEEN_ATTRIBUTE) or sent,
        died_at=sent,
    )


def grouped(letters: Iterable[Letter]) -> list[Json]:
    """Count letters by reason and job, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    oldest: dict[tuple[str, str], float] = {}
    newest: dict[tuple[str, str], float] = {}
    errors: dict[tuple[str, str], Counter[str]] = {}
    for letter in letters:
        group = (letter.reason, letter.job)
        counts[group] += 1
        oldest[group] = min(letter.died_at, oldest.get(group, letter.died_at))
        newest[group] = max(letter.died_at, newest.get(group, letter.died_at))
        if letter.error_type:
            errors.setdefault(group, Counter())[letter.error_type] += 1
    return [
        {
            "reason": group[0],
            "job": group[1],
            "count": count,
            "oldest": oldest[group],
            "newest": newest[group],
            "error_types": dict(errors.get(group, {})),
        }
        for group, count in counts.most_common()
    ]


def restored(told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:  # Any: JSON
    """Return the body and the attributes of a letter that `as_json` wrote.

    Raises:
        KeyError: it is none.
    """
    attributes = {
        name: {
            "DataType": value["type"],
            **(
                {"BinaryValue": base64.b64decode(value["base64"])}
                if "base64" in value
                else {"StringValue": value["text"]}
            ),
        }
        for name, value in told["attributes"].items()
    }
    return told["body"], attributes


def _who(body: str, attributes: Mapping[str, Any]) -> tuple[str, str]:  # Any: as boto3 has it
    """Return job and id, as far as the message or the attributes beside it tell."""
    named = _text(attributes, JOB_ATTRIBUTE)
    record = {
        "body": body,
        "messageAttributes": {
            name: {"stringValue": value.get("StringValue"), "dataType": value.get("DataType")}
            for name, value in attributes.items()
            if value.get("StringValue") is not None
        },
    }
    try:
        message = decode(record, default_job=named or _UNNAMED)
    except MessageInvalid:
        return named, ""
    return ("" if message.name == _UNNAMED else message.name), message.id


def _text(attributes: Mapping[str, Any], name: str) -> str:  # Any: as boto3 has it
    return str(attributes.get(name, {}).get("StringValue") or "")


def _number(attributes: Mapping[str, Any], name: str) -> float:  # Any: as boto3 has it
    try:
        return float(_text(attributes, name) or 0)
    except ValueError:
        return 0.0


def _plain_attribute(value: Mapping[str, Any]) -> Json:  # Any: as boto3 has it
    if value.get("BinaryValue") is not None:
        packed = base64.b64encode(value["BinaryValue"]).decode()
        return {"type": value["DataType"], "base64": packed}
    return {"type": value["DataType"], "text": value.get("StringValue", "")}
