"""A queue that tests hold in their hands: the part of SQS that worker and producer use, in memory.

```python
queue = MemoryQueue(clock=clock)
producer = Producer(queue.url, client=queue, clock=clock)
producer.send("ship", {"weight": 3}, delay_seconds=60)

assert queue.receive() == []        # nobody sees it yet
clock.sleep(60)
event = {"Records": queue.receive()}
```

What is not here: FIFO order, redrive by the queue itself, limits of size, and losing or doubling
messages as the real one may.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sekali.clock import Clock

VISIBILITY_SECONDS: Final = 180.0
"""How long a received message stays away unless it is deleted: six times a timeout of 30 s."""
MOST_RECEIVED: Final = 10
_PLACE: Final = "https://sqs.eu-west-1.amazonaws.com/000000000000"

# Any: what SQS' interface takes and answers is JSON.
_Json = dict[str, Any]


@dataclass(slots=True)
class Waiting:
    """One message: its body, the text attributes beside it, and when it is seen again."""

    body: str
    attributes: Mapping[str, _Json]
    sent_at: float
    visible_at: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    receives: int = 0
    trace: str | None = None

    def text(self, name: str) -> str | None:
        """Return a message attribute, or None where there is none of that name."""
        found = self.attributes.get(name)
        return None if found is None else str(found.get("StringValue"))


class MemoryQueue:
    """Be an SQS client of two queues, `url` and `dead_letter_url`. Safe to use from threads."""

    def __init__(self, *, clock: Clock, name: str = "jobs") -> None:
        """Start empty; `clock` decides what is visible."""
        self.url: str = f"{_PLACE}/{name}"
        self.dead_letter_url: str = f"{_PLACE}/{name}-dead"
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Waiting]] = {self.url: [], self.dead_letter_url: []}

    @property
    def waiting(self) -> Sequence[Waiting]:
        """Return what is in the queue: visible, delayed and received but not deleted."""
        with self._lock:
            return tuple(self._waiting[self.url])

    @property
    def dead_letters(self) -> Sequence[Waiting]:
        """Return what is in the dead letter queue."""
        with self._lock:
            return tuple(self._waiting[self.dead_letter_url])

    def receive(self, *, most: int = MOST_RECEIVED) -> list[_Json]:
        """Take up to `most` visible messages, as the records of a Lambda event.

        They stay in the queue, unseen for `VISIBILITY_SECONDS`, until they are deleted.
        """
        with self._lock:
            now = self._clock.wall()
            due = [one for one in self._waiting[self.url] if one.visible_at <= now][:most]
            for one in due:
                one.receives += 1
                one.visible_at = now + VISIBILITY_SECONDS
            return [_record(one, self.url) for one in due]

    def delete(self, message_ids: Sequence[str]) -> None:
        """Delete messages by their id."""
        with self._lock:
            gone = set(message_ids)
            self._waiting[self.url] = [one for one in self._waiting[self.url] if one.id not in gone]

    # What the library calls; the names of arguments are those of SQS.

    def send_message(
        self,
        *,
        QueueUrl: str,  # noqa: N803
        MessageBody: str,  # noqa: N803
        DelaySeconds: int = 0,  # noqa: N803
        MessageAttributes: Mapping[str, _Json] | None = None,  # noqa: N803
        MessageSystemAttributes: Mapping[str, _Json] | None = None,  # noqa: N803
        **_: object,
    ) -> _Json:
        """Put one message into a queue."""
        now = self._clock.wall()
        header = (MessageSystemAttributes or {}).get("AWSTraceHeader", {})
        message = Waiting(
            MessageBody,
            MessageAttributes or {},
            sent_at=now,
            visible_at=now + DelaySeconds,
            trace=header.get("StringValue"),
        )
        with self._lock:
            self._waiting[QueueUrl].append(message)
        return {"MessageId": message.id}

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[_Json]) -> _Json:  # noqa: N803
        """Put up to ten messages into a queue; all of them are accepted."""
        sent = [
            {"Id": entry["Id"], **self.send_message(QueueUrl=QueueUrl, **_without_id(entry))}
            for entry in Entries
        ]
        return {"Successful": sent, "Failed": []}

    def change_message_visibility_batch(
        self,
        *,
        QueueUrl: str,  # noqa: N803
        Entries: Sequence[_Json],  # noqa: N803
    ) -> _Json:
        """Hide received messages for as long as each entry says."""
        with self._lock:
            now = self._clock.wall()
            seconds = {one["ReceiptHandle"]: one["VisibilityTimeout"] for one in Entries}
            for message in self._waiting[QueueUrl]:
                if message.id in seconds:
                    message.visible_at = now + seconds[message.id]
        return {"Successful": [{"Id": one["Id"]} for one in Entries], "Failed": []}


def _without_id(entry: _Json) -> _Json:
    return {name: value for name, value in entry.items() if name != "Id"}


def _record(message: Waiting, url: str) -> _Json:
    system = {
        "ApproximateReceiveCount": str(message.receives),
        "SentTimestamp": str(int(message.sent_at * 1000)),
    }
    if message.trace:
        system["AWSTraceHeader"] = message.trace
    return {
        "messageId": message.id,
        "receiptHandle": message.id,
        "body": message.body,
        "attributes": system,
        "messageAttributes": {
            name: {"dataType": "String", "stringValue": value.get("StringValue")}
            for name, value in message.attributes.items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-west-1:000000000000:{url.rpartition('/')[2]}",
        "awsRegion": "eu-west-1",
    }
