"""Stand in for the durable store in tests: in memory, quick, and unreliable on demand.

It is held to the same contract suite as the store on DynamoDB.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sekali.errors import ResultTooLarge, StoreUnavailable
from sekali.large_results import (
    LARGEST_ITEM_RESULT_BYTES,
    is_large,
    object_key,
    parse_pointer,
    verified,
)
from sekali.store_rows import (
    POINTER_PREFIX,
    Accepted,
    Answer,
    Claim,
    JobId,
    Outcome,
    Rejected,
    Row,
    claim_deadline,
    expiry,
    partition_key,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekali.clock import Clock


@dataclass(slots=True)
class _Shelf:
    """What every view of one store shares."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    rows: dict[str, Row] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    failures: int = 0
    lost_replies: int = 0
    throttles: int = 0


class MemoryStore:
    """Keep records in memory by the rules of `Store`, with faults to order.

    ```python
    store = MemoryStore(clock=clock)
    store.lose_reply_next()        # the next accepted write is applied, and raises
    store.fail_next(2)             # then two writes raise and change nothing
    elsewhere = store.seen_by(clock=FrozenClock(wall=...))    # another container, other clock
    ```
    """

    def __init__(self, *, clock: Clock, bucket: bool = True) -> None:
        """Start empty; without a `bucket` a large result is refused."""
        self._clock = clock
        self._bucket = bucket
        self._shelf = _Shelf()

    def seen_by(self, *, clock: Clock) -> MemoryStore:
        """Return the same records and faults as another container with its own clock meets them."""
        view = MemoryStore(clock=clock, bucket=self._bucket)
        view._shelf = self._shelf
        return view

    def fail_next(self, count: int = 1) -> None:
        """Let the next writes raise `StoreUnavailable` and change nothing."""
        self._shelf.failures += count

    def lose_reply_next(self, count: int = 1) -> None:
        """Let the next writes that are accepted be applied, and raise `StoreUnavailable`."""
        self._shelf.lost_replies += count

    def throttle_next(self, count: int = 1) -> None:
        """Let the next calls, reads too, raise `StoreUnavailable` and change nothing."""
        self._shelf.throttles += count

    def delete(self, name: str, job_id: str) -> None:
        """Delete a record, as the table does with an expired one some time later."""
        self._shelf.rows.pop(partition_key(name, job_id), None)

    def forget_objects(self) -> None:
        """Delete every large result, as a lifecycle rule that is too short would."""
        self._shelf.objects.clear()

    def get_many(self, ids: Sequence[JobId], *, deadline: float | None = None) -> dict[JobId, Row]:
        """Read as `Store.get_many` does."""
        with self._shelf.lock:
            self._disturb("read", deadline)
            found = {job: self._living(partition_key(*job)) for job in ids}
            return {job: self._followed(row) for job, row in found.items() if row is not None}

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
        """Record as `Store.record` does."""
        asked = Outcome(
            name=name,
            id=job_id,
            outcome=outcome,
            payload_hash=payload_hash,
            fence=fence,
            token=token,
            ttl_seconds=ttl_seconds,
            result=result,
            error=error,
            rearm=rearm,
        )
        [answer] = self.record_many([asked], deadline=deadline)
        if isinstance(answer, StoreUnavailable | ResultTooLarge):
            raise answer
        return answer

    def record_many(
        self, outcomes: Sequence[Outcome], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable | ResultTooLarge]:
        """Record as `Store.record_many` does."""
        answers: list[Answer | StoreUnavailable | ResultTooLarge] = []
        for outcome in outcomes:
            with self._shelf.lock:
                try:
                    answers.append(self._record(outcome, deadline))
                except (StoreUnavailable, ResultTooLarge) as error:
                    answers.append(error)
        return answers

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
        """Claim as `Store.claim` does."""
        if not token:
            raise ValueError("a claim needs a token, got ''")
        key = partition_key(name, job_id)
        with self._shelf.lock:
            self._disturb("claim", deadline, write=True)
            now = self._clock.wall()
            row = self._living(key)
            if row is not None and (
                row.payload_hash != payload_hash
                or row.is_final(rearm=rearm)
                or not (row.deadline < now or row.token == token)
            ):
                return Rejected(self._followed(row))
            fence = int(now * 1_000) * 1_000
            if row is not None and (row.status, row.fence, row.token) == ("running", fence, token):
                return Accepted(fence, repeated=True)
            last = self._shelf.rows.get(key)
            fence = max(fence, 0 if last is None else last.fence + 1)
            self._shelf.rows[key] = Row(
                status="running",
                fence=fence,
                token=token,
                payload_hash=payload_hash,
                stored=b"",
                error=b"",
                deadline=round(claim_deadline(now, remaining_seconds), 3),
                expires=expiry(now, ttl_seconds),
                body=b"",
            )
            self._lose_reply("claim")
            return Accepted(fence)

    def claim_many(
        self, claims: Sequence[Claim], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable]:
        """Claim as `Store.claim_many` does."""
        answers: list[Answer | StoreUnavailable] = []
        for one in claims:
            try:
                answer = self.claim(
                    one.name,
                    one.id,
                    payload_hash=one.payload_hash,
                    token=one.token,
                    remaining_seconds=one.remaining_seconds,
                    ttl_seconds=one.ttl_seconds,
                    rearm=one.rearm,
                    deadline=deadline,
                )
            except StoreUnavailable as error:
                answers.append(error)
            else:
                answers.append(answer)
        return answers

    def give_back_many(
        self, claims: Sequence[tuple[str, str, str]], *, deadline: float | None = None
    ) -> list[bool | StoreUnavailable]:
        """Give back as `Store.give_back_many` does."""
        answers: list[bool | StoreUnavailable] = []
        for name, job_id, token in claims:
            try:
                answers.append(self.give_back(name, job_id, token=token, deadline=deadline))
            except StoreUnavailable as error:
                answers.append(error)
        return answers

    def give_back(
        self, name: str, job_id: str, *, token: str, deadline: float | None = None
    ) -> bool:
        """Give back as `Store.give_back` does."""
        key = partition_key(name, job_id)
        with self._shelf.lock:
            self._disturb("give back", deadline, write=True)
            row = self._living(key)
            if row is None or row.token != token or row.status not in {"running", "pending"}:
                return False
            if row.status == "running":
                self._shelf.rows[key] = replace(row, status="pending", deadline=0.0)
                self._lose_reply("give back")
            return True

    def fetch(self, pointer: bytes, *, deadline: float | None = None) -> bytes:
        """Fetch as `Store.fetch` does."""
        with self._shelf.lock:
            self._disturb("fetch", deadline)
            return self._fetched(pointer)

    def _record(self, outcome: Outcome, deadline: float | None) -> Answer:
        key = partition_key(outcome.name, outcome.id)
        self._disturb("record", deadline, write=True)
        stored = self._placed(outcome)
        row = self._living(key)
        if row is not None and (
            row.payload_hash != outcome.payload_hash or row.is_final(rearm=outcome.rearm)
        ):
            if outcome.token and (outcome.token, outcome.outcome) == (row.token, row.status):
                return Accepted(row.fence, row.stored, repeated=True)
            return Rejected(self._followed(row))
        self._shelf.rows[key] = Row(
            status=outcome.outcome,
            fence=outcome.fence,
            token=outcome.token,
            payload_hash=outcome.payload_hash,
            stored=stored,
            error=outcome.error,
            deadline=0.0,
            expires=expiry(self._clock.wall(), outcome.ttl_seconds),
            body=b"",
        )
        self._lose_reply("record")
        return Accepted(outcome.fence, stored)

    def _living(self, key: str) -> Row | None:
        row = self._shelf.rows.get(key)
        return None if row is None or row.expires < self._clock.wall() else row

    def _placed(self, outcome: Outcome) -> bytes:
        if not is_large(outcome.result):
            return outcome.result
        if not self._bucket:
            raise ResultTooLarge(outcome.name, len(outcome.result), LARGEST_ITEM_RESULT_BYTES)
        key = object_key(outcome.name, outcome.id, outcome.result)
        self._shelf.objects[key] = outcome.result
        return POINTER_PREFIX + key.encode()

    def _fetched(self, pointer: bytes) -> bytes:
        key, digest = parse_pointer(pointer)
        if key not in self._shelf.objects:
            raise StoreUnavailable("fetch", "NoSuchKey")
        return verified(self._shelf.objects[key], digest)

    def _followed(self, row: Row) -> Row:
        if not row.points:
            return row.with_body(row.stored)
        try:
            return row.with_body(self._fetched(row.stored))
        except StoreUnavailable as error:
            return row.with_body(error)

    def _disturb(self, operation: str, deadline: float | None, *, write: bool = False) -> None:
        if deadline is not None and self._clock.monotonic() >= deadline:
            raise StoreUnavailable(operation, "no time left")
        if self._shelf.throttles:
            self._shelf.throttles -= 1
            raise StoreUnavailable(operation, "ThrottlingException")
        if write and self._shelf.failures:
            self._shelf.failures -= 1
            raise StoreUnavailable(operation, "ConnectTimeoutError")

    def _lose_reply(self, operation: str) -> None:
        if self._shelf.lost_replies:
            self._shelf.lost_replies -= 1
            raise StoreUnavailable(operation, "ReadTimeoutError")
