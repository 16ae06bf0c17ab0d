"""Feed a function from a queue with the semantics of Lambda's SQS event source mapping.

    receive … receive ──(full, window over, or 6 MB)──> invoke ──> delete what succeeded
        │ the visibility of a message starts here              └─> the rest stays invisible until
                                                                   its visibility timeout ends

* A batch fires on the first of: full, window over, 6 MB. Without a window, on what one receive
  brought.
* An error, a timeout or a death returns the whole batch; `event.returned` reads an answer.
* Pollers start at five and grow while batches come back full (five a second), to the mapping's
  maximum. After an error a poller backs off; after a partial failure it does not, as with Lambda.
* FIFO: the queue hands out a group again only when none of it is in flight, so a group is with one
  poller at a time. The function itself must stop a group at its first failure and return the rest;
  a message that it did not name is deleted here as there.

Lambda's undocumented scaling and its reading ahead are not imitated.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from infra.local import event
from infra.local.environment import Kind, Outcome
from infra.local.event import Message
from infra.local.fleet import FleetClosed
from infra.local.template import EventSourceMapping

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

_FIRST_POLLERS: Final = 5
_GROWTH_PER_SECOND: Final = 5.0
_BATCH_BYTES: Final = 6 * 1024 * 1024
_PER_CALL: Final = 10
# A poll that finds nothing ends soon, so that `stop` is quick.
_LONGEST_POLL_SECONDS: Final = 1
_BACKOFF_BASE_SECONDS: Final = 0.1
_BACKOFF_CAP_SECONDS: Final = 5.0

Invoke = Callable[..., Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of one received message: deleted, or left to come back.

    `outcome` is how its invocation ended.
    """

    message_id: str
    body: str
    sent_at: float  # Unix seconds.
    receives: int
    request_id: str
    deleted: bool
    at: float  # Unix seconds.
    outcome: Kind = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The queue that a mapping reads, as it is reached here."""

    url: str
    arn: str


class EventSource:
    """The pollers of one mapping, from `start` to `stop`.

    Args:
        mapping: Its numbers.
        source: The queue.
        sqs: A client; clients are safe to share between threads.
        invoke: Runs one event (bytes, `records=` their number) to its end.
        on_delivery: Told of every message of every batch, from the poller's thread.
    """

    def __init__(
        self,
        mapping: EventSourceMapping,
        *,
        source: Source,
        sqs: "SQSClient",
        invoke: Invoke,
        on_delivery: Callable[[Delivery], None],
    ) -> None:
        self._mapping = mapping
        self._source = source
        self._sqs = sqs
        self._invoke = invoke
        self._on_delivery = on_delivery
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._pollers: list[threading.Thread] = []
        self._grown_at = 0.0
        self.crashed: Exception | None = None

    def start(self) -> None:
        """Start the first pollers."""
        for _ in range(min(_FIRST_POLLERS, self._mapping.max_concurrency)):
            self._add_poller()

    def stop(self) -> None:
        """Begin no more batches."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until every poller has ended, after `stop` and the end of what is invoked."""
        for poller in self._pollers:
            poller.join()

    def _add_poller(self) -> None:
        poller = threading.Thread(target=self._poll, name="poller", daemon=True)
        self._pollers.append(poller)
        poller.start()

    def _grow(self) -> None:
        with self._lock:
            now = time.monotonic()
            room = len(self._pollers) < self._mapping.max_concurrency
            if room and now - self._grown_at >= 1 / _GROWTH_PER_SECOND:
                self._grown_at = now
                self._add_poller()

    def _poll(self) -> None:
        try:
            errors = 0
            carried: list[Message] = []
            while not self._stopping.is_set():
                batch, carried = self._collect(carried)
                if batch:
                    errors = 0 if self._process(batch) else errors + 1
                    if errors:
                        delay = min(_BACKOFF_CAP_SECONDS, _BACKOFF_BASE_SECONDS * 2**errors)
                        self._stopping.wait(delay)
        except FleetClosed:
            return
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the queue
            if not self._stopping.is_set():
                self.crashed = error

    def _collect(self, carried: list[Message]) -> tuple[list[Message], list[Message]]:
        """Gather one batch; answers it and what was received beyond it."""
        batch = list(carried)
        size = sum(_size(message) for message in batch)
        fires_at = time.monotonic() + self._mapping.window_seconds if batch else None
        while not self._stopping.is_set():
            room = self._mapping.batch_size - len(batch)
            left = None if fires_at is None else fires_at - time.monotonic()
            if batch and (room <= 0 or left is None or left <= 0):
                break
            messages = self._receive(min(room, _PER_CALL), left)
            if messages and fires_at is None:
                fires_at = time.monotonic() + self._mapping.window_seconds
            for position, message in enumerate(messages):
                size += _size(message)
                if size > _BATCH_BYTES and batch:
                    return batch, messages[position:]
                batch.append(message)
        if len(batch) >= self._mapping.batch_size:
            self._grow()
        return batch, []

    def _receive(self, most: int, left: float | None) -> list[Message]:
        """Receive up to ten messages, waiting no longer than the window has left."""
        wait = _LONGEST_POLL_SECONDS if left is None else min(_LONGEST_POLL_SECONDS, int(left))
        answer = self._sqs.receive_message(
            QueueUrl=self._source.url,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages: list[Any] = list(answer.get("Messages", []))
        if not messages and left is not None and wait == 0:
            # Less than a second of the window is left: SQS counts waiting in whole seconds.
            self._stopping.wait(min(0.05, max(0.0, left)))
        return messages

    def _process(self, batch: Sequence[Message]) -> bool:
        """Invoke, then delete what succeeded; answers whether the invocation had no error."""
        identifiers = [str(message["MessageId"]) for message in batch]
        outcome = self._invoke(event.of(batch, queue_arn=self._source.arn), records=len(batch))
        succeeded = outcome.kind == "answered"
        back = set(identifiers)
        if succeeded:
            back = event.returned(
                outcome.payload,
                batch=identifiers,
                partial_batches=self._mapping.partial_batches,
            )
        self._delete([message for message in batch if message["MessageId"] not in back])
        for message in batch:
            self._on_delivery(_delivery(message, outcome, deleted=message["MessageId"] not in back))
        return succeeded

    def _delete(self, messages: Sequence[Message]) -> None:
        """Delete in batches; a handle that has expired is refused, and its message comes again."""
        for chunk in _chunks(messages, _PER_CALL):
            self._sqs.delete_message_batch(
                QueueUrl=self._source.url,
                Entries=[
                    {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                    for index, message in enumerate(chunk)
                ],
            )


def _size(message: Message) -> int:
    return len(message["Body"].encode())


def _chunks(messages: Sequence[Message], size: int) -> Iterator[list[Message]]:
    rest = iter(messages)
    while chunk := list(islice(rest, size)):
        yield chunk


def _delivery(message: Message, outcome: Outcome, *, deleted: bool) -> Delivery:
    attributes = message["Attributes"]
    return Delivery(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at=int(attributes["SentTimestamp"]) / 1000,
        receives=int(attributes["ApproximateReceiveCount"]),
        request_id=outcome.request_id,
        deleted=deleted,
        at=time.time(),
        outcome=outcome.kind,
    )
