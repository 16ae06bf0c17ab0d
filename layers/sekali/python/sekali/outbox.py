"""Send what the worker gives back to queues: delayed copies and dead letters.

A message may leave its queue only after its copy or its dead letter is acknowledged (PROTOCOL §4,
step 7). So the outbox sends everything first and then tells which of it was acknowledged; whoever
is not among those returns to the queue as a failure.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, Final

from sekali.light_dataclass import dataclass
from sekali.outgoing import MAX_ENTRIES, batches, entry
from sekali.telemetry.trace_context import xray_header_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_sqs.client import SQSClient

    from sekali.outgoing import Outgoing

_log = logging.getLogger(__name__)

MAX_DELAY_SECONDS: Final = 900
"""Longest DelaySeconds of a message (SQS quota)."""
MAX_HIDDEN_SECONDS: Final = 43_200
"""Longest visibility timeout of a message (SQS quota)."""
SENDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One send on behalf of the message `message_id`; one with a group goes to a FIFO queue."""

    message_id: str
    queue_url: str
    outgoing: Outgoing
    delay_seconds: float = 0.0
    trace: str | None = None
    group: str | None = None


class Outbox:
    """Send letters in batches and report those that the queue acknowledged.

    What fails is tried once more; a letter that was sent although its reply was lost leaves a
    second copy behind, which its id makes harmless.
    """

    def __init__(self, client: Callable[[], SQSClient]) -> None:
        """Keep the factory; nothing is connected before the first letter."""
        self._client = client

    def send(self, letters: Sequence[Letter], *, in_time: Callable[[], bool]) -> set[str]:
        """Send `letters` and return the message ids whose letter was acknowledged.

        Nothing more is sent once `in_time` says no: an invocation that is killed here would return
        what is settled as well.
        """
        acknowledged: set[str] = set()
        for queue_url in dict.fromkeys(letter.queue_url for letter in letters):
            waiting = [letter for letter in letters if letter.queue_url == queue_url]
            for _ in range(SENDS):
                for batch in batches(waiting, size_bytes=lambda one: one.outgoing.size_bytes):
                    if in_time():
                        acknowledged |= self._send_batch(queue_url, batch)
                waiting = [one for one in waiting if one.message_id not in acknowledged]
        return acknowledged

    def hide(self, queue_url: str, messages: Sequence[tuple[str, float]]) -> None:
        """Keep messages invisible: pairs of a receipt handle and seconds from now.

        What fails is logged only: such a message comes back when its present visibility ends.
        """
        for start in range(0, len(messages), MAX_ENTRIES):
            # Any: the client's own entry type lives in a package of stubs.
            entries: list[Any] = [
                {
                    "Id": str(index),
                    "ReceiptHandle": handle,
                    "VisibilityTimeout": min(MAX_HIDDEN_SECONDS, math.ceil(seconds)),
                }
                for index, (handle, seconds) in enumerate(messages[start : start + MAX_ENTRIES])
            ]
            try:
                self._client().change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)
            except Exception:  # noqa: BLE001  the edge to a foreign client, as below
                _log.exception("%d messages keep their visibility", len(entries))

    def _send_batch(self, queue_url: str, letters: Sequence[Letter]) -> set[str]:
        # Any: the client's own entry type lives in a package of stubs.
        entries: list[Any] = [_entry(index, letter) for index, letter in enumerate(letters)]
        try:
            reply = self._client().send_message_batch(QueueUrl=queue_url, Entries=entries)
        except Exception:  # noqa: BLE001
            # The edge to a foreign client: whatever it raises, the originals stay in their queue.
            _log.exception("sending %d letters failed; their messages return", len(letters))
            return set()
        for failed in reply.get("Failed", []):
            _log.error("the queue refused a letter: %s", failed.get("Code"))
        return {letters[int(sent["Id"])].message_id for sent in reply.get("Successful", [])}


def _entry(index: int, letter: Letter) -> dict[str, object]:
    delay_seconds = min(MAX_DELAY_SECONDS, math.ceil(letter.delay_seconds))
    return entry(
        letter.outgoing,
        entry_id=str(index),
        # A FIFO queue takes no delay of one message.
        delay_seconds=0 if letter.group is not None else delay_seconds,
        group=letter.group,
        deduplication=None if letter.group is None else letter.message_id,
        trace=xray_header_of(letter.trace),
    )
