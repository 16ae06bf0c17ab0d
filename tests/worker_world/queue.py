"""The queue of the world: deliveries with visibility, delayed copies, dead letters."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.worker_world.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.worker_world.faults import Fault, Point

QUEUE_URL = "http://queues/jobs"
DEAD_URL = "http://queues/jobs-dead"
FIFO: Final[dict[str, Any]] = {  # Any: fields of Settings
    "fifo": True,
    "queue_url": f"{QUEUE_URL}.fifo",
    "dead_letter_queue_url": f"{DEAD_URL}.fifo",
}
"""The settings of a worker behind a FIFO queue."""


@dataclass(slots=True, eq=False)
class Waiting:
    """One message of the queue."""

    message_id: str
    body: str
    sent_at: float
    visible_at: float
    attributes: dict[str, Any] = field(default_factory=dict)
    group: str | None = None
    receives: int = 0

    def record(self) -> dict[str, Any]:
        """Return the message as Lambda hands it over."""
        system = {
            "ApproximateReceiveCount": str(self.receives),
            "SentTimestamp": str(round(self.sent_at * 1000)),
        }
        if self.group is not None:
            system["MessageGroupId"] = self.group
        return {
            "messageId": self.message_id,
            "receiptHandle": f"{self.message_id}/{self.receives}",
            "body": self.body,
            "attributes": system,
            "messageAttributes": dict(self.attributes),
            "eventSource": "aws:sqs",
        }


class Queue:
    """A standard queue with its dead letter queue."""

    def __init__(self, *, now: Callable[[], float], visibility_seconds: float = 60.0) -> None:
        self._now = now
        self._visibility_seconds = visibility_seconds
        self._number = 0
        self.waiting: dict[str, Waiting] = {}
        self.dead: list[Waiting] = []
        self._letters: list[Waiting] = []

    def send(
        self,
        body: str,
        *,
        delay_seconds: float = 0.0,
        attributes: Mapping[str, Any] | None = None,
        group: str | None = None,
    ) -> Waiting:
        """Put a message into the queue."""
        message = self._message(body, delay_seconds, attributes or {}, group)
        self.waiting[message.message_id] = message
        return message

    def bury(self, body: str, attributes: Mapping[str, Any]) -> None:
        """Put a message into the dead letter queue."""
        letter = self._message(body, 0.0, attributes, None)
        self.dead.append(letter)
        self._letters.append(letter)

    def copy(self, body: str, *, delay_seconds: float, attributes: Mapping[str, Any]) -> None:
        """Put a delayed copy into the queue."""
        self._letters.append(self.send(body, delay_seconds=delay_seconds, attributes=attributes))

    def fresh_letters(self) -> list[Waiting]:
        """Return the copies and dead letters that were sent since this was asked last."""
        fresh, self._letters = self._letters, []
        return fresh

    def visible(self) -> list[Waiting]:
        """Return what may be received now; of a group nothing while any of it is in flight."""
        hidden = [one for one in self.waiting.values() if one.visible_at > self._now()]
        in_flight = {one.group for one in hidden if one.group is not None}
        return [
            one
            for one in self.waiting.values()
            if one.visible_at <= self._now() and one.group not in in_flight
        ]

    def receive(self, messages: Iterable[Waiting]) -> list[dict[str, Any]]:
        """Hand messages over and hide them."""
        records = []
        for message in messages:
            message.receives += 1
            message.visible_at = self._now() + self._visibility_seconds
            records.append(message.record())
        return records

    def delete(self, message_id: str) -> None:
        """Forget a message."""
        self.waiting.pop(message_id, None)

    def hide(self, receipt_handle: str, seconds: float) -> None:
        """Keep a received message invisible from now on."""
        self.waiting[receipt_handle.partition("/")[0]].visible_at = self._now() + seconds

    def next_visible_at(self) -> float | None:
        """Return when the next message may be received, None where there is none."""
        return min((one.visible_at for one in self.waiting.values()), default=None)

    def _message(
        self, body: str, delay_seconds: float, attributes: Mapping[str, Any], group: str | None
    ) -> Waiting:
        self._number += 1
        return Waiting(
            message_id=f"m{self._number}",
            body=body,
            sent_at=self._now(),
            visible_at=self._now() + delay_seconds,
            attributes=dict(attributes),
            group=group,
        )


class FaultyQueueClient:
    """Be boto3's client of SQS as one container holds it."""

    def __init__(self, queue: Queue, decide: Callable[[Point], Fault]) -> None:
        self._queue = queue
        self._decide = decide

    def send_message_batch(
        self,
        *,
        QueueUrl: str,  # noqa: N803 boto3's own name
        Entries: list[dict[str, Any]],  # noqa: N803 boto3's own name
    ) -> dict[str, Any]:
        """Send up to ten messages."""
        fault = self._decide("send")
        if fault == "die_before":
            raise Killed
        if fault == "down":
            raise ConnectionError("the plan says so")
        refused = Entries[-1:] if fault == "refused" else []
        taken = [entry for entry in Entries if entry not in refused]
        taken = taken[: len(taken) // 2] if fault == "half" else taken
        for entry in taken:
            self._take(QueueUrl, entry)
        if fault in {"lost", "half"}:
            raise ConnectionError("the plan says so")
        if fault == "die_after":
            raise Killed
        return {
            "Successful": [{"Id": entry["Id"]} for entry in taken],
            "Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in refused],
        }

    def change_message_visibility_batch(
        self,
        *,
        QueueUrl: str,  # noqa: ARG002, N803 boto3's own name
        Entries: list[dict[str, Any]],  # noqa: N803 boto3's own name
    ) -> None:
        """Hide up to ten messages."""
        for entry in Entries:
            self._queue.hide(entry["ReceiptHandle"], entry["VisibilityTimeout"])

    def _take(self, url: str, entry: dict[str, Any]) -> None:
        attributes = {
            name: _as_received(value) for name, value in entry.get("MessageAttributes", {}).items()
        }
        if url.startswith(DEAD_URL):
            self._queue.bury(entry["MessageBody"], attributes)
        else:
            assert url == QUEUE_URL
            delay_seconds = entry.get("DelaySeconds", 0)
            self._queue.copy(
                entry["MessageBody"], delay_seconds=delay_seconds, attributes=attributes
            )


def _as_received(value: Mapping[str, Any]) -> dict[str, Any]:
    if "BinaryValue" in value:
        binary = base64.b64encode(value["BinaryValue"]).decode()
        return {"dataType": value["DataType"], "binaryValue": binary}
    return {"dataType": value["DataType"], "stringValue": value["StringValue"]}
