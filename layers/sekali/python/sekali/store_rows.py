"""Describe the durable record of a job id, and the answers of the store.

One item per `<name>/<id>`. Its attributes, with the words of the protocol:

| attribute | type | meaning |
|---|---|---|
| `pk` | S | `<name>/<id>` |
| `st` | S | pending, running, done or failed |
| `f` `tk` | N S | fence and token of whoever wrote it, for the audit |
| `ph` | S | hash of the payload |
| `result` | B | the encoded result of a done job, or |
| `pointer` | S | the key of the object that holds it |
| `error` | B | the encoded error of a failed job |
| `deadline` | N | Unix seconds until which a running job is left alone; 0 in every other status |
| `pending` | N | only while pending: which part of the index `pending` lists it |
| `expires` | N | Unix seconds after which the item counts as absent |
"""

from __future__ import annotations

import hashlib
import math
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sekali.errors import KeyInvalid, ResultTooLarge, StoreUnavailable
from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Status = Literal["pending", "running", "done", "failed"]
JobId = tuple[str, str]
"""A job's name and the id of one request for it."""
Item = dict[str, dict[str, Any]]
"""An item as DynamoDB's client writes it; Any: each attribute's type is named beside its value."""

PENDING_INDEX = "pending"
"""The table's index of the items that have `pending`, ordered by `f`; so it is empty, as a rule."""
PENDING_PARTS = 8
"""A partition takes a thousand writes a second, and an outage makes everybody's jobs pending."""
POINTER_PREFIX = b"s3:"
"""Begins the pointer that stands for a large result. No JSON text begins so."""

# DynamoDB's limit for a partition key is 2,048 bytes; the name and the slash take up to 65 of them.
_LONGEST_ID_BYTES = 1_024
# Containers were seen to be killed up to 0.7 s after their deadline.
_SLOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """What the table holds of one id.

    `stored` is the result as a cache record should keep it: the result itself, or the pointer to
    it. `result` is what the pointer leads to.
    """

    status: Status
    fence: int
    token: str
    payload_hash: str
    stored: bytes
    error: bytes
    deadline: float
    expires: float
    body: bytes | StoreUnavailable

    @property
    def result(self) -> bytes:
        """Return the encoded result, read together with the row.

        Raises:
            StoreUnavailable: the object behind the pointer could not be read. The row is final all
                the same, and `stored` can be used.
        """
        if isinstance(self.body, StoreUnavailable):
            raise self.body
        return self.body

    @property
    def points(self) -> bool:
        """Tell whether the result is kept outside the item."""
        return self.stored.startswith(POINTER_PREFIX)

    def is_final(self, *, rearm: int = 0) -> bool:
        """Tell whether nothing may replace this row; a redrive names the failure it overrules."""
        return self.status == "done" or (self.status == "failed" and self.fence > rearm)

    def is_over(self, *, now: float) -> bool:
        """Tell whether a job that has not ended may be claimed by another, at Unix time `now`."""
        return self.status == "pending" or (self.status == "running" and self.deadline < now)

    def with_body(self, body: bytes | StoreUnavailable) -> Row:
        """Return this row with what its pointer led to."""
        return replace(self, body=body)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an id ended, to be recorded once.

    `token` is empty where no claim produced the result (a settle with a value that was served). A
    `result` may be a pointer that another record already holds. `rearm` is the greatest fence that
    the redriven dead letter named, 0 outside a redrive.
    """

    name: str
    id: str
    outcome: Literal["done", "failed"]
    payload_hash: str
    fence: int
    token: str
    ttl_seconds: float
    result: bytes = b""
    error: bytes = b""
    rearm: int = 0

    def __post_init__(self) -> None:
        expiry(0.0, self.ttl_seconds)
        if self.outcome not in {"done", "failed"}:
            raise ValueError(f"outcome must be 'done' or 'failed', got {self.outcome!r}")
        if self.outcome == "failed" and self.fence < 1:
            # A redrive overrules failures up to a fence: one of 0 would never be final.
            raise ValueError(f"the fence of a failure must be at least 1, got {self.fence!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An id to be claimed in the table for as long as this invocation can last."""

    name: str
    id: str
    payload_hash: str
    token: str
    remaining_seconds: float
    ttl_seconds: float
    rearm: int = 0

    def __post_init__(self) -> None:
        if not self.token:
            raise ValueError("a claim needs a token, got ''")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The table now says what was written.

    `repeated` tells that an earlier try of the same write had been applied and its reply lost.
    `stored` is what a cache record should keep: the result or the pointer to it.
    """

    fence: int
    stored: bytes = b""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The table says something else, and this is what."""

    row: Row


Answer = Accepted | Rejected


class DurableStore(Protocol):
    """Be the durable store of whoever records outcomes; `Store` documents each call."""

    def get_many(self, ids: Sequence[JobId], *, deadline: float | None = None) -> dict[JobId, Row]:
        """Read what is recorded of these ids."""
        ...

    def record(
        self,
        name: str,
        job_id: str,
        *,
        outcome: Literal["done", "failed"],
        payload_hash: str,
        fence: int,
        token: str,
        ttl_seconds: float,
        result: bytes = b"",
        error: bytes = b"",
        rearm: int = 0,
        deadline: float | None = None,
    ) -> Answer:
        """Record how an id ended."""
        ...

    def record_many(
        self, outcomes: Sequence[Outcome], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable | ResultTooLarge]:
        """Record many outcomes; an error stands in its outcome's place."""
        ...

    def claim(
        self,
        name: str,
        job_id: str,
        *,
        payload_hash: str,
        token: str,
        remaining_seconds: float,
        ttl_seconds: float,
        rearm: int = 0,
        deadline: float | None = None,
    ) -> Answer:
        """Claim an id while the shared cache is away."""
        ...

    def claim_many(
        self, claims: Sequence[Claim], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable]:
        """Claim many ids; an error stands in its claim's place."""
        ...

    def give_back(
        self, name: str, job_id: str, *, token: str, deadline: float | None = None
    ) -> bool:
        """Mark a claimed id as pending."""
        ...

    def give_back_many(
        self, claims: Sequence[tuple[str, str, str]], *, deadline: float | None = None
    ) -> list[bool | StoreUnavailable]:
        """Mark many claimed ids as pending; an error stands in its claim's place."""
        ...

    def fetch(self, pointer: bytes, *, deadline: float | None = None) -> bytes:
        """Return the result behind a pointer."""
        ...


def partition_key(name: str, job_id: str) -> str:
    """Return the item's key.

    A long id keeps its beginning and gets the hash of the whole; it is then longer than any id that
    is kept as it is, so the two never meet.

    Raises:
        KeyInvalid: the id is empty or not encodable.
    """
    if not job_id:
        raise KeyInvalid("id", "must not be empty", job_id)
    try:
        encoded = job_id.encode()
    except UnicodeEncodeError:
        raise KeyInvalid("id", "must be encodable as UTF-8", job_id) from None
    if len(encoded) <= _LONGEST_ID_BYTES:
        return f"{name}/{job_id}"
    beginning = encoded[:_LONGEST_ID_BYTES].decode(errors="ignore")
    return f"{name}/{beginning}:{hashlib.sha256(encoded).hexdigest()}"


def expiry(now: float, ttl_seconds: float) -> int:
    """Return the whole second after which an item written at `now` is absent."""
    if ttl_seconds <= 0:
        raise ValueError(f"ttl_seconds must be above 0, got {ttl_seconds!r}")
    return math.ceil(now + ttl_seconds)


def claim_deadline(now: float, remaining_seconds: float) -> float:
    """Return until when a claim made at `now` is left alone: its invocation's end and some slop."""
    return now + max(remaining_seconds, 0.0) + _SLOP_SECONDS


def seconds_text(moment: float) -> str:
    """Write Unix seconds as DynamoDB's numbers are written."""
    return f"{moment:.3f}"


def item_of_outcome(outcome: Outcome, *, stored: bytes, now: float) -> Item:
    """Build the item that records `outcome`; a pointer is kept apart from a result."""
    item: Item = {
        "pk": {"S": partition_key(outcome.name, outcome.id)},
        "st": {"S": outcome.outcome},
        "f": {"N": str(outcome.fence)},
        "tk": {"S": outcome.token},
        "ph": {"S": outcome.payload_hash},
        "deadline": {"N": "0"},
        "expires": {"N": str(expiry(now, outcome.ttl_seconds))},
    }
    if stored.startswith(POINTER_PREFIX):
        item["pointer"] = {"S": stored.removeprefix(POINTER_PREFIX).decode()}
    elif stored:
        item["result"] = {"B": stored}
    if outcome.error:
        item["error"] = {"B": outcome.error}
    return item


def row_of(item: Mapping[str, Mapping[str, Any]]) -> Row:  # Any: see `Item`
    """Read an item; its pointer is not followed here."""
    stored = bytes(item["result"]["B"]) if "result" in item else b""
    body: bytes | StoreUnavailable = stored
    if "pointer" in item:
        stored = POINTER_PREFIX + item["pointer"]["S"].encode()
        body = StoreUnavailable("fetch", "not read yet")
    return Row(
        status=item["st"]["S"],
        fence=int(item["f"]["N"]),
        token=item["tk"]["S"],
        payload_hash=item["ph"]["S"],
        stored=stored,
        error=bytes(item["error"]["B"]) if "error" in item else b"",
        deadline=float(item["deadline"]["N"]),
        expires=float(item["expires"]["N"]),
        body=body,
    )


def pending_part(key: str) -> int:
    """Return which part of the index of pending items lists the item of this key."""
    return zlib.crc32(key.encode()) % PENDING_PARTS


def item_of_claim(claim: Claim, *, now: float) -> Item:
    """Return the running item that a table claim writes at Unix time `now`."""
    return {
        "pk": {"S": partition_key(claim.name, claim.id)},
        "st": {"S": "running"},
        "f": {"N": str(int(now * 1_000) * 1_000)},
        "tk": {"S": claim.token},
        "ph": {"S": claim.payload_hash},
        "deadline": {"N": seconds_text(claim_deadline(now, claim.remaining_seconds))},
        "expires": {"N": str(expiry(now, claim.ttl_seconds))},
    }


def values_compared(item: Item, *, rearm: int, now: float) -> dict[str, Any]:  # Any: see `Item`
    """Return what the conditions of a write compare its item with."""
    return {
        ":now": {"N": seconds_text(now)},
        ":ph": item["ph"],
        ":done": {"S": "done"},
        ":failed": {"S": "failed"},
        ":rearm": {"N": str(rearm)},
    }
