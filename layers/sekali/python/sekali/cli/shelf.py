"""Look through a dead letter queue, and move what lies there, so that a kill loses nothing.

    receive     a letter is invisible to others for `hold_seconds`, and comes back by itself
    send        its copy goes to the worker's queue
    delete      only of letters whose copy was acknowledged

A process that is killed between the last two leaves a letter in both queues: it is the same job
under the same id, so the second one is answered and not done again. Whatever was looked at and not
moved is put back at the end, or by the end of `hold_seconds` where there was a kill.

A job that fails at once is a dead letter again while the look goes on. Whatever died after the look
began is left alone, by the queue's own clock, so that no letter goes round in circles.

Limits: of a FIFO queue the queue hands out no further letters of a group while earlier ones of it
are held, so one look sees its first ten.
"""

from __future__ import annotations

import hashlib
import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from sekali.cli.letters import Letter, read
from sekali.outgoing import MAX_ENTRIES, Outgoing, batches, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HOLD_SECONDS: Final = 120
WAIT_SECONDS: Final = 1
"""A wait makes the queue ask all of its servers; without it letters are missed at random."""
_EMPTY_LOOKS: Final = 2
_KNOWN_LOOKS: Final = 3
_SENDABLE: Final = ("DataType", "StringValue", "BinaryValue")


class Shelf:
    """One dead letter queue, and what this process holds of it."""

    def __init__(
        self,
        sqs: Any,  # Any: boto3's client, or a stand-in of the tests
        url: str,
        *,
        hold_seconds: int = HOLD_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Hold nothing yet."""
        self._sqs = sqs
        self._url = url
        self._hold_seconds = hold_seconds
        self._sleep = sleep
        self._wall = wall
        self._held: dict[str, Letter] = {}
        self._moved: set[str] = set()
        self._began: float | None = None
        self.complete = False

    def look(self, *, most: int, per_look: int = MAX_ENTRIES) -> Iterator[list[Letter]]:
        """Yield letters as they are handed out, each once, up to `most` of them.

        `complete` says at the end whether these were all that could be seen.
        """
        seen: set[str] = set()
        empty = known = 0
        while len(seen) < most:
            taken = self._receive(min(per_look, most - len(seen)))
            fresh = [letter for letter in taken if letter.message_id not in seen]
            seen |= {letter.message_id for letter in fresh}
            empty = 0 if taken else empty + 1
            known = known + 1 if taken and not fresh else 0
            if empty == _EMPTY_LOOKS or known == _KNOWN_LOOKS:
                self.complete = True
                return
            # A letter that came again has a newer receipt, and only that one holds.
            self._held.update((letter.message_id, letter) for letter in taken)
            if older := [letter for letter in fresh if self._is_older(letter)]:
                yield older

    def put_back(self) -> None:
        """Let everybody see again what is still held."""
        held, self._held = list(self._held.values()), {}
        for start in range(0, len(held), MAX_ENTRIES):
            entries = [
                {"Id": str(at), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
                for at, letter in enumerate(held[start : start + MAX_ENTRIES])
            ]
            self._sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)

    def move(
        self, letters: Sequence[Letter], *, to: str, rate: float | None
    ) -> tuple[list[Letter], list[Letter]]:
        """Send copies, then delete the letters whose copy was acknowledged.

        Returns:
            The letters that were moved, and those that stay: the queue did not take their copy, or
            they could not be deleted after it.
        """
        moved: list[Letter] = []
        stayed: list[Letter] = []
        for batch in batches(letters, size_bytes=lambda one: _outgoing(one).size_bytes):
            sent = self._send(batch, to)
            self._moved |= {letter.body for letter in sent}
            gone = self.remove(sent)
            moved += gone
            stayed += [letter for letter in batch if letter not in gone]
            if rate is not None:
                self._sleep(len(batch) / rate)
        return moved, stayed

    def remove(self, letters: Sequence[Letter]) -> list[Letter]:
        """Delete letters and return those that are gone; a refused one comes back by itself."""
        gone: list[Letter] = []
        for start in range(0, len(letters), MAX_ENTRIES):
            chunk = letters[start : start + MAX_ENTRIES]
            entries = [
                {"Id": str(at), "ReceiptHandle": letter.receipt} for at, letter in enumerate(chunk)
            ]
            answer = self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)
            gone += [chunk[int(done["Id"])] for done in answer.get("Successful", [])]
        for letter in gone:
            self._held.pop(letter.message_id, None)
        return gone

    def add(self, entries: Sequence[dict[str, Any]]) -> int:  # Any: of a boto3 call
        """Put up to ten messages onto the shelf; returns how many it took."""
        answer = self._sqs.send_message_batch(QueueUrl=self._url, Entries=list(entries))
        return len(answer.get("Successful", []))

    def _receive(self, most: int) -> list[Letter]:
        asked_at = self._wall()
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=most,
            VisibilityTimeout=self._hold_seconds,
            WaitTimeSeconds=WAIT_SECONDS,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        if self._began is None:
            self._began = _told_time(answer) or asked_at
        return [read(message) for message in answer.get("Messages", [])]

    def _is_older(self, letter: Letter) -> bool:
        """Tell whether a letter was there when the look began; the queue tells whole seconds."""
        began = math.floor(self._began or 0.0)
        if letter.died_at >= began + 1:
            return False
        return letter.died_at < began or letter.body not in self._moved

    def _send(self, batch: Sequence[Letter], to: str) -> list[Letter]:
        fifo = to.endswith(".fifo")
        entries = [copy_of(letter, entry_id=str(at), fifo=fifo) for at, letter in enumerate(batch)]
        answer = self._sqs.send_message_batch(QueueUrl=to, Entries=entries)
        return [batch[int(done["Id"])] for done in answer.get("Successful", [])]


def copy_of(letter: Letter, *, entry_id: str, fifo: bool) -> dict[str, Any]:  # Any: a boto3 call's
    """Write the letter again as it is: body, attributes, group and trace.

    On a FIFO queue a deduplication id of its own: the original's would make the queue swallow the
    copy within five minutes, and say that it took it. That of one letter is always the same, so
    that the repeat after a kill is swallowed.
    """
    return entry(
        _outgoing(letter),
        entry_id=entry_id,
        group=letter.system.get("MessageGroupId"),
        deduplication=_digest(letter.message_id) if fifo else None,
        trace=letter.system.get("AWSTraceHeader"),
    )


def _outgoing(letter: Letter) -> Outgoing:
    attributes = {
        name: {part: value[part] for part in _SENDABLE if value.get(part) is not None}
        for name, value in letter.attributes.items()
    }
    return Outgoing(letter.body, attributes)


def _told_time(answer: Mapping[str, Any]) -> float | None:  # Any: as boto3 answers
    """Return the server's time of an answer, None where it does not say."""
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return parsedate_to_datetime(said).timestamp() if said else None
    except ValueError:
        return None


def _digest(message_id: str) -> str:
    return hashlib.sha256(f"redrive/{message_id}".encode()).hexdigest()
