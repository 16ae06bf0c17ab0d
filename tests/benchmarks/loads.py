"""Make the batches that both stacks are given.

cold        each record is a new id with a new key
hot key     each record is a new id; all ask for one of a few keys that were computed before
duplicates  nine of ten records were finished before, by this container
mixed       half cold, a quarter hot, a quarter finished before
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["cold", "hot key", "duplicates", "mixed", "known"]
KINDS: Final[tuple[Kind, ...]] = ("cold", "hot key", "duplicates", "mixed")

HOT_KEYS: Final = 5
Turn = Literal["cold", "hot", "known"]
_PATTERNS: Final[dict[Kind, Sequence[Turn]]] = {
    "cold": ["cold"],
    "hot key": ["hot"],
    "duplicates": [*("known",) * 9, "cold"],
    "mixed": ["cold", "hot", "cold", "known"],
    "known": ["known"],
}

Event = dict[str, Any]  # Any: Lambda's own JSON


@dataclass(frozen=True)
class Context:
    """What a handler reads of Lambda's context."""

    aws_request_id: str = "request-1"
    function_name: str = "bench"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:bench"
    born: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        """Return the time left of ten minutes."""
        return int((self.born + 600 - time.monotonic()) * 1000)


class Load:
    """Make batches of one kind for one contestant; what was finished before is its own."""

    def __init__(self, kind: Kind, *, name: str) -> None:
        """Begin with nothing finished; `name` keeps the ids of two contestants apart."""
        self._pattern = _PATTERNS[kind]
        self._name = name
        self._numbers = count()
        self._known: list[tuple[str, int]] = []

    def warm_up(self) -> Event:
        """Return a batch to be run first: the hot keys, and ids that are repeated later."""
        records = [
            self._record(f"{self._name}-hot-{n}", self._hot(n), again=True) for n in range(HOT_KEYS)
        ]
        records += [self._new(again=True) for _ in range(500)]
        return {"Records": records}

    def batch(self, size: int) -> Event:
        """Return the next batch."""
        turns = [self._pattern[index % len(self._pattern)] for index in range(size)]
        return {"Records": [self._of(turn, index) for index, turn in enumerate(turns)]}

    def _of(self, turn: Turn, index: int) -> dict[str, Any]:
        match turn:
            case "cold":
                return self._new()
            case "hot":
                number = next(self._numbers)
                return self._record(f"{self._name}-{number}", self._hot(index % HOT_KEYS))
            case "known":
                job_id, n = self._known[index % len(self._known)]
                return self._record(job_id, n)

    def _hot(self, n: int) -> int:
        return -1 - n

    def _new(self, *, again: bool = False) -> dict[str, Any]:
        number = next(self._numbers)
        return self._record(f"{self._name}-{number}", number, again=again)

    def _record(self, job_id: str, n: int, *, again: bool = False) -> dict[str, Any]:
        if again:
            self._known.append((job_id, n))
        number = next(self._numbers)
        # A name of its own keeps the keys of two contestants apart as well.
        body = {
            "sekali": 1,
            "id": job_id,
            "name": "square",
            "payload": {"n": f"{self._name}/{n}", "of": "a small payload"},
        }
        return {
            "messageId": f"message-{number}",
            "receiptHandle": f"receipt-{number}",
            "body": json.dumps(body),
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": str(int(time.time() * 1000)),
            },
            "messageAttributes": {},
            "md5OfBody": "0",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:jobs",
            "awsRegion": "eu-west-1",
        }
