"""Record the outcome of each job id once, in a DynamoDB table.

The first recorded outcome of an id is final, by the condition of the write itself:

    t=0    A runs job 7 and freezes before its write
    t=20   B takes over, runs it too, records its result             accepted
    t=60   A thaws and records its own result                        rejected, with B's row
    t=61   A goes on with B's result

so whoever was frozen, cut off or late learns the recorded result instead of replacing it. Fences
are kept in the item and not compared: a final outcome is stronger, and a fence ahead of its time
could refuse honest work for ever. What is *not* guaranteed is that the body ran once.

While the shared cache is away the table also serves as the place where ids are claimed (`claim`,
`give_back`); such a claim excludes other table claims of that id, and nothing else.

Every call may be repeated after `StoreUnavailable`, with the same arguments: a write that had been
applied is recognised by its token. `deadline` is a reading of the monotonic clock; nothing waits
beyond it, though a request that was sent by then may still arrive.
"""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sekali import conditions
from sekali.aws_clients import SIDE_BY_SIDE, AwsClients, aws_client
from sekali.errors import ResultTooLarge, StoreUnavailable
from sekali.large_results import LARGEST_ITEM_RESULT_BYTES, LargeResults, is_large
from sekali.side_by_side import SideBySide
from sekali.store_rows import (
    Accepted,
    Answer,
    Claim,
    Item,
    JobId,
    Outcome,
    Rejected,
    Row,
    item_of_claim,
    item_of_outcome,
    partition_key,
    pending_part,
    row_of,
    seconds_text,
    values_compared,
)
from sekali.table import KEYS_PER_READ, Table
from sekali.telemetry.events import StoreFailed, StoreRead, StoreWritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.aws_clients import Service
    from sekali.clock import Clock
    from sekali.telemetry.events import Event, Hook

# Each lost race means that another claimer got through; more in a row is no longer a race.
_CLAIM_TRIES = 5

T = TypeVar("T")


def _nobody(_: Event) -> None:
    """Hear nothing."""


class Store:
    """Read and write the durable records of one table.

    Safe for threads. Nothing is imported or connected before the first call. `reset` drops clients
    and threads; call it in a forked or restored process.
    """

    def __init__(
        self,
        table_name: str,
        *,
        clock: Clock,
        bucket: str | None = None,
        client_factory: Callable[[Service], Any] = aws_client,  # Any: see `aws_client`
        on_event: Hook = _nobody,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Name the table, and the bucket for results that do not fit an item."""
        self._clock = clock
        self._clients = AwsClients(client_factory)
        self._on_event = on_event
        self._calls = SideBySide(threads=SIDE_BY_SIDE, clock=clock)
        self._table = Table(
            table_name,
            partial(self._clients.of, "dynamodb"),
            calls=self._calls,
            clock=clock,
            sleep=sleep,
            jitter=jitter,
        )
        objects = partial(self._clients.of, "s3")
        self._large = None if bucket is None else LargeResults(bucket, objects)

    def reset(self) -> None:
        """Forget clients, sockets and threads; the next call builds new ones."""
        self._clients.forget()
        self._calls.reset()

    def _all(
        self, operation: str, calls: Sequence[Callable[[], T]], deadline: float | None
    ) -> list[T | StoreUnavailable]:
        """Make calls side by side, and tell how many of them failed."""
        answers = self._calls.all(operation, calls, deadline)
        failed = sum(isinstance(answer, StoreUnavailable) for answer in answers)
        if failed:
            self._on_event(StoreFailed(operation=operation, count=failed))
        return answers

    def get_many(self, ids: Sequence[JobId], *, deadline: float | None = None) -> dict[JobId, Row]:
        """Read what is recorded of these ids, consistently; an absent or expired one is left out.

        A result whose object cannot be read fails alone: its row is there, and `Row.result` raises.

        Raises:
            StoreUnavailable: an item could not be read in time.
        """
        keys = {partition_key(*job): job for job in ids}
        names = list(keys)
        chunks = [names[at : at + KEYS_PER_READ] for at in range(0, len(names), KEYS_PER_READ)]
        now = self._clock.wall()
        reads = [partial(self._table.read, chunk, deadline=deadline) for chunk in chunks]
        found: dict[JobId, Row] = {}
        for items in self._all("read", reads, deadline):
            if isinstance(items, StoreUnavailable):
                raise items
            rows = ((keys[item["pk"]["S"]], row_of(item)) for item in items)
            found.update((job, row) for job, row in rows if row.expires >= now)
        if keys:
            self._on_event(StoreRead(count=len(keys)))
        pointing = [job for job, row in found.items() if row.points]
        bodies = [partial(self._fetch, found[job].stored, deadline) for job in pointing]
        for job, body in zip(pointing, self._all("fetch", bodies, deadline), strict=True):
            found[job] = found[job].with_body(body)
        return found

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
        """Record how an id ended; see `Outcome` for the arguments.

        Returns:
            `Accepted`, or `Rejected` with the row that stands: a final one, or one of another
            payload.

        Raises:
            StoreUnavailable: whether it was recorded is not known. Repeat it.
            ResultTooLarge: the result needs a bucket and there is none. Nothing was written.
        """
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
        """Record many outcomes side by side, each as `record` does.

        Returns:
            One answer for each outcome, in order. What `record` would raise stands in its place.
        """
        calls = [partial(self._record, outcome, deadline) for outcome in outcomes]
        answers = self._all("record", calls, deadline)
        accepted = sum(isinstance(answer, Accepted) for answer in answers)
        if accepted:
            self._on_event(StoreWritten(count=accepted))
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
        """Claim an id in the table, for as long as this invocation can last.

        Accepted where nothing is recorded, or the same payload is not final and its claim is over
        or our own. The fence is greater than the one it replaces and follows the wall clock.

        Returns:
            `Accepted` with the fence, or `Rejected` with the row that stands.

        Raises:
            StoreUnavailable: whether it was claimed is not known. Repeat it with the same token.
        """
        asked = Claim(
            name=name,
            id=job_id,
            payload_hash=payload_hash,
            token=token,
            remaining_seconds=remaining_seconds,
            ttl_seconds=ttl_seconds,
            rearm=rearm,
        )
        [answer] = self.claim_many([asked], deadline=deadline)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    def claim_many(
        self, claims: Sequence[Claim], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable]:
        """Claim many ids side by side, each as `claim` does; one answer for each, in order."""
        now = self._clock.wall()
        calls = [
            partial(self._claim, item_of_claim(one, now=now), one.rearm, now, deadline)
            for one in claims
        ]
        return self._all("claim", calls, deadline)

    def give_back(
        self, name: str, job_id: str, *, token: str, deadline: float | None = None
    ) -> bool:
        """Mark an id as pending, so that anybody may claim it at once.

        Returns:
            Whether it is pending by our hand. False: the claim was no longer ours.

        Raises:
            StoreUnavailable: not known. Repeat it, or let the claim run out.
        """
        [answer] = self.give_back_many([(name, job_id, token)], deadline=deadline)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    def give_back_many(
        self, claims: Sequence[tuple[str, str, str]], *, deadline: float | None = None
    ) -> list[bool | StoreUnavailable]:
        """Give many claims back side by side: name, id and token of each; answers in order."""
        now = self._clock.wall()
        calls = [
            partial(self._give_back, partition_key(name, job_id), token, now, deadline)
            for name, job_id, token in claims
        ]
        return self._all("give back", calls, deadline)

    def pending(
        self, *, before: float, most: int = 1_000, deadline: float | None = None
    ) -> tuple[list[tuple[str, str, float]], bool]:
        """List jobs that have been pending since before Unix time `before`.

        Reads the index `pending`, which holds nothing else and follows the table by a moment.

        Returns:
            Name, id and Unix time of each, the oldest first, and whether these are all.

        Raises:
            StoreUnavailable: the index could not be read, or the table has none.
        """
        items, complete = self._table.pending(before=before, most=most, deadline=deadline)
        found = []
        for item in items:
            name, _, job_id = item["pk"]["S"].partition("/")
            found.append((name, job_id, int(item["f"]["N"]) / 1_000_000))
        return found, complete

    def fetch(self, pointer: bytes, *, deadline: float | None = None) -> bytes:
        """Return the result behind a pointer.

        Raises:
            StoreUnavailable: it cannot be read, or is not there any more.
        """
        return self._calls.one("fetch", partial(self._fetch, pointer, deadline), deadline)

    def _record(self, outcome: Outcome, deadline: float | None) -> Answer | ResultTooLarge:
        stored = self._placed(outcome, deadline)
        if isinstance(stored, ResultTooLarge):
            return stored
        now = self._clock.wall()
        item = item_of_outcome(outcome, stored=stored, now=now)
        values = values_compared(item, rearm=outcome.rearm, now=now)
        old = self._table.put(
            "record", item, condition=conditions.OUTCOME, values=values, deadline=deadline
        )
        if old is None:
            return Accepted(outcome.fence, stored)
        if not old:
            raise StoreUnavailable("record", "a refusal without the item that refused")
        row = row_of(old)
        # An empty token is nobody's: two settles of one id are not each other's repeats.
        if outcome.token and (outcome.token, outcome.outcome) == (row.token, row.status):
            return Accepted(row.fence, row.stored, repeated=True)
        return Rejected(self._followed(row, deadline))

    def _claim(self, item: Item, rearm: int, now: float, deadline: float | None) -> Answer:
        fence = int(item["f"]["N"])
        values = {**values_compared(item, rearm=rearm, now=now), ":tk": item["tk"]}
        seen: Mapping[str, Any] = {}  # Any: see `Item`
        for _ in range(_CLAIM_TRIES):
            condition = conditions.CLAIM_SEEN if seen else conditions.CLAIM_NEW
            if seen:
                fence = max(fence, int(seen["f"]["N"]) + 1)
                values[":seen"] = seen["f"]
            item["f"] = {"N": str(fence)}
            old = self._table.put(
                "claim", item, condition=condition, values=values, deadline=deadline
            )
            if old is None:
                return Accepted(fence)
            if old and all(old[name] == item[name] for name in ("st", "f", "tk", "ph")):
                # This very write had been applied and its reply lost.
                return Accepted(fence, repeated=True)
            if seen and old.get("f") == seen["f"]:
                return Rejected(self._followed(row_of(old), deadline))
            seen = old
        raise StoreUnavailable("claim", "another claimer at every try")

    def _give_back(self, key: str, token: str, now: float, deadline: float | None) -> bool:
        values = {
            ":pending": {"S": "pending"},
            ":part": {"N": str(pending_part(key))},
            ":zero": {"N": "0"},
            ":running": {"S": "running"},
            ":tk": {"S": token},
            ":now": {"N": seconds_text(now)},
        }
        old = self._table.update(
            "give back",
            {"pk": {"S": key}},
            update="SET st = :pending, deadline = :zero, pending = :part",
            condition=conditions.GIVE_BACK,
            values=values,
            deadline=deadline,
        )
        if not old:
            return old is None
        row = row_of(old)
        return (row.status, row.token) == ("pending", token) and row.expires >= now

    def _placed(self, outcome: Outcome, deadline: float | None) -> bytes | ResultTooLarge:
        """Return what the item holds: the result, or the pointer to where it was put."""
        if not is_large(outcome.result):
            return outcome.result
        if self._large is None:
            return ResultTooLarge(outcome.name, len(outcome.result), LARGEST_ITEM_RESULT_BYTES)
        self._calls.in_time("put", deadline)
        return self._large.put(outcome.name, outcome.id, outcome.result)

    def _fetch(self, pointer: bytes, deadline: float | None) -> bytes:
        if self._large is None:
            raise StoreUnavailable("fetch", "no bucket for large results")
        self._calls.in_time("fetch", deadline)
        return self._large.get(pointer)

    def _followed(self, row: Row, deadline: float | None) -> Row:
        if not row.points:
            return row
        try:
            return row.with_body(self._fetch(row.stored, deadline))
        except StoreUnavailable as error:
            return row.with_body(error)
