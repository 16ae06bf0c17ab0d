"""Queues of moto with dead letters of every kind, and a client that dies at a chosen moment."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Moment = Literal["before", "after"]
REASONS = ("permanent", "payload_mismatch", "quarantined")


class Killed(BaseException):
    """Stand for `kill -9`: nothing of the process is heard after it."""


class Mortal:
    """A client whose process dies before or after its n-th call reached the server.

    Once dead, it reaches nothing any more, as clean-up code of a killed process does not run.
    """

    def __init__(self, client: Any, *, at: int | None = None, moment: Moment = "before") -> None:
        self._client = client
        self._at = at
        self._moment = moment
        self._dead = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:  # Any: any operation
        def call(**arguments: Any) -> Any:  # Any: as above
            if self._dead:
                raise Killed
            self.calls.append(name)
            here = self._at == len(self.calls) - 1
            if here and self._moment == "before":
                self._dead = True
                raise Killed
            answer = getattr(self._client, name)(**arguments)
            if here:
                self._dead = True
                raise Killed
            return answer

        return call


@dataclass(frozen=True)
class Desk:
    """A worker's queue and its dead letters, seen from behind the server."""

    sqs: Any  # Any: a client of any queue
    queue: str
    shelf: str

    def bury_kinds(self, count: int) -> None:
        """Add letters of each reason, in batches: a call of moto takes longer than a letter."""
        entries = [
            {"Id": str(number), **self._letter(number, (*REASONS, None)[number % 4], "")}
            for number in range(count)
        ]
        for start in range(0, count, 10):
            self.sqs.send_message_batch(QueueUrl=self.shelf, Entries=entries[start : start + 10])

    def bury(self, number: int, *, reason: str | None = "permanent", group: str = "") -> None:
        """Add one dead letter, as the worker writes it; without a reason as the queue does."""
        self.sqs.send_message(QueueUrl=self.shelf, **self._letter(number, reason, group))

    def _letter(self, number: int, reason: str | None, group: str) -> dict[str, Any]:
        body = {"sekali": 1, "id": f"job-{number}", "name": "report", "payload": {"n": number}}
        attributes: dict[str, Any] = {
            "tenant": {"DataType": "String", "StringValue": f"tenant-{number}"},
            "blob": {"DataType": "Binary", "BinaryValue": bytes([number, 0, 255])},
        }
        if reason is not None:
            attributes |= {
                "sekali.reason": {"DataType": "String", "StringValue": reason},
                "sekali.fence": {"DataType": "Number", "StringValue": str(1_000 + number)},
                "sekali.job": {"DataType": "String", "StringValue": "report"},
                "sekali.error_type": {"DataType": "String", "StringValue": "ValueError"},
                "sekali.error": {"DataType": "String", "StringValue": f"no {number}"},
                "sekali.attempts": {"DataType": "Number", "StringValue": "3"},
            }
        options: dict[str, Any] = {}
        if self.shelf.endswith(".fifo"):
            options = {"MessageGroupId": group, "MessageDeduplicationId": f"first-{number}"}
        return {"MessageBody": json.dumps(body), "MessageAttributes": attributes, **options}

    def dead(self) -> Counter[str]:
        """Count what lies among the dead letters, whoever holds it, by all that it says."""
        return _content(self.shelf)

    def queued(self) -> Counter[str]:
        """Count what lies in the worker's queue, in the same words."""
        return _content(self.queue)

    def release(self) -> None:
        """Let the time pass after which held letters come back."""
        for message in _queue(self.shelf)._messages:  # noqa: SLF001 - moto's clock cannot be set
            message.change_visibility(0)


def desk(*, fifo: bool = False) -> Desk:
    """Make both queues."""
    sqs = _client()
    suffix = ".fifo" if fifo else ""
    options: Any = {"FifoQueue": "true"} if fifo else {}
    urls = [
        sqs.create_queue(QueueName=f"{name}{suffix}", Attributes=options)["QueueUrl"]
        for name in ("jobs", "jobs-dead")
    ]
    return Desk(sqs, *urls)


@cache
def _client() -> Any:  # Any: plain dictionaries as entries
    return boto3.client("sqs")


def _queue(url: str) -> Any:  # Any: moto has no types
    return sqs_backends[DEFAULT_ACCOUNT_ID]["eu-west-1"].queues[url.rpartition("/")[2]]


def _content(url: str) -> Counter[str]:
    def told(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        return {name: str(sorted(value.items())) for name, value in attributes.items()}

    return Counter(
        json.dumps([message.body, told(message.message_attributes)], sort_keys=True)
        for message in _queue(url)._messages  # noqa: SLF001 - as above
        if message not in _queue(url).deleted_messages
    )
