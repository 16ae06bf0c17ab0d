"""Ask and write the durable record on behalf of a batch (PROTOCOL §3 and §4, steps 3 and 5).

The table is written before the shared cache is told, so that a crash between the two is found
again. The first recorded outcome of an id is final: whoever comes second takes over what is there.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sekali.answers import new_token
from sekali.errors import InDoubt, ResultTooLarge, StoreUnavailable
from sekali.items import TableClaim
from sekali.settling import defer, delete, encode_error, failed_verdict, give_back, mismatch_verdict
from sekali.store_rows import Accepted, Claim, Outcome, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sekali.items import Ending, Item, Verdict
    from sekali.store_rows import DurableStore, JobId, Row

_log = logging.getLogger(__name__)


class Durable:
    """Join the items of a batch with their rows."""

    def __init__(
        self, store: DurableStore, *, ttl_seconds: float, wall: Callable[[], float]
    ) -> None:
        """Keep the store, the life of a row in seconds, and the clock that bounds table claims."""
        self._store = store
        self._ttl_seconds = ttl_seconds
        self._wall = wall

    def ask(self, items: Sequence[Item], *, deadline: float) -> None:
        """Read the rows of claimed `items`; end those that the table knows better."""
        try:
            rows = self._rows(items, deadline=deadline)
        except StoreUnavailable as error:
            _log.error("%d claims are given back unasked: %s", len(items), error)
            for item in items:
                item.end("U", then=give_back("store_unavailable"))
            return
        for item in items:
            row = rows.get((item.name, item.id))
            if row is not None:
                self._meet(item, row)

    def look(self, items: Sequence[Item], *, deadline: float) -> None:
        """Look once more before items become dead letters by what the shared cache said.

        A job that is done is done, whatever the cache remembers; and the dead letter of a failed
        one names the greater fence of record and row, so that one redrive re-arms both. Of a row
        that is not final the fence is left alone: a table claim takes it from its own clock, and
        while that is ahead of the record each retry of a redriven job would be its first.
        """
        try:
            rows = self._rows(items, deadline=deadline)
        except StoreUnavailable as error:
            _log.error("%d records become dead letters without their rows: %s", len(items), error)
            return
        for item in items:
            row, verdict = rows.get((item.name, item.id)), item.verdict
            if row is None or verdict is None:
                continue
            if row.payload_hash == item.payload_hash and row.is_final(rearm=item.rearm):
                final = _final_verdict(row)
                item.verdict = replace(final, fence=max(verdict.fence, row.fence))
                item.source = "table"

    def _rows(self, items: Sequence[Item], *, deadline: float) -> dict[JobId, Row]:
        wanted = dict.fromkeys((item.name, item.id) for item in items)
        return self._store.get_many(list(wanted), deadline=deadline)

    def _meet(self, item: Item, row: Row) -> None:
        if row.payload_hash != item.payload_hash:
            item.end("U", then=mismatch_verdict(fence=row.fence))
        elif row.is_final(rearm=item.rearm):
            _take_over(item, row)
        elif row.status == "running" and row.deadline >= self._wall():
            item.end("U", then=defer("running_elsewhere", row.deadline - self._wall()))
        elif row.status == "running" and item.never_twice:
            item.end("X", result=encode_error("in_doubt", InDoubt(item.id)))

    def claim(self, items: Sequence[Item], *, remaining_seconds: float, deadline: float) -> None:
        """Claim items in the table: under their lease where they have one, else on its own.

        An item whose claim is refused ends as the row says; one whose claim is unknown goes back.
        """
        claims = [self._claim_of(item, remaining_seconds) for item in items]
        answers = self._store.claim_many(claims, deadline=deadline)
        for item, claim, answer in zip(items, claims, answers, strict=True):
            match answer:
                case Accepted(fence=fence):
                    item.table_claim = TableClaim(claim.token, fence)
                case Rejected(row=row):
                    self._meet(item, row)
                    if item.ending is None and item.verdict is None:
                        item.verdict = give_back("table_claim_contended")
                case _:
                    _log.error("an id could not be claimed in the table: %s", answer)
                    item.end("U", then=give_back("store_unavailable"))
            self._without_lease(item)

    def _claim_of(self, item: Item, remaining_seconds: float) -> Claim:
        return Claim(
            name=item.name,
            id=item.id,
            payload_hash=item.payload_hash,
            token=item.lease.token if item.lease else new_token(),
            remaining_seconds=remaining_seconds,
            ttl_seconds=self._ttl_seconds,
            rearm=item.rearm,
        )

    def _without_lease(self, item: Item) -> None:
        """Settle at once what has no lease to end and needs no body."""
        ending = item.ending
        if ending is None or item.lease is not None:
            return
        item.ending = None
        if ending.outcome == "S":
            item.verdict = delete("duplicate")
        else:
            item.verdict = ending.then

    def mark_pending(self, items: Sequence[Item], *, deadline: float) -> None:
        """Leave rows that say that ids wait for the shared cache; the message stays the driver.

        Items that the table knows better are settled on the way.
        """
        self.claim(items, remaining_seconds=0.0, deadline=deadline)
        self.give_back([item for item in items if item.table_claim], deadline=deadline)

    def give_back(self, items: Sequence[Item], *, deadline: float) -> None:
        """Make table claims pending, so that anybody may claim the ids at once."""
        claims = [
            (item.name, item.id, item.table_claim.token) for item in items if item.table_claim
        ]
        if not claims:
            return
        for answer in self._store.give_back_many(claims, deadline=deadline):
            if isinstance(answer, StoreUnavailable):
                _log.warning("a table claim is not given back but ends by itself: %s", answer)

    def record(self, items: Sequence[Item], *, deadline: float) -> list[Item]:
        """Write the outcome of each item, and follow what the table says against it.

        Returns:
            The items whose outcome may or may not be recorded. Record them again, or `withdraw`.
        """
        writing = [(item, item.ending) for item in items if item.ending is not None]
        outcomes = [self._outcome(item, ending) for item, ending in writing]
        replies = self._store.record_many(outcomes, deadline=deadline)
        oversized: list[Item] = []
        unknown: list[Item] = []
        for (item, ending), reply in zip(writing, replies, strict=True):
            match reply:
                case Accepted(stored=stored):
                    ending.recorded = True
                    if ending.outcome != "X":
                        ending.result = stored
                case Rejected(row=row):
                    self._yield_to(item, row)
                case ResultTooLarge():
                    oversized.append(item)
                    error = encode_error("result_too_large", reply)
                    item.end("X", result=error, fence=ending.fence)
                case _:
                    _log.error("an outcome could not be recorded: %s", reply)
                    unknown.append(item)
        if oversized:
            unknown += self.record(oversized, deadline=deadline)
        return unknown

    def withdraw(self, item: Item) -> None:
        """Give an item back because what became of its outcome is not known."""
        self._drop(item, then=give_back("store_unavailable"))

    def _outcome(self, item: Item, ending: Ending) -> Outcome:
        failed = ending.outcome == "X"
        return Outcome(
            name=item.name,
            id=item.id,
            outcome="failed" if failed else "done",
            payload_hash=item.payload_hash,
            fence=ending.fence,
            token=ending.token,
            result=b"" if failed else ending.result,
            error=ending.result if failed else b"",
            ttl_seconds=self._ttl_seconds,
            rearm=item.rearm,
        )

    def _yield_to(self, item: Item, row: Row) -> None:
        """Take over the outcome that was recorded first."""
        if row.payload_hash != item.payload_hash:
            self._drop(item, then=mismatch_verdict(fence=row.fence))
        elif row.is_final(rearm=item.rearm):
            _take_over(item, row)
        else:
            self.withdraw(item)

    def _drop(self, item: Item, *, then: Verdict) -> None:
        """Give the claim back, or, where there was none, only the message."""
        if item.lease is None and item.table_claim is None:
            item.ending, item.verdict = None, then
        else:
            item.end("W", then=then)


def _take_over(item: Item, row: Row) -> None:
    """End the claim with what the table recorded first."""
    if row.status == "done":
        item.end("S", result=row.stored, recorded=True, fence=row.fence)
        item.source = "table"
    else:
        # Without a claim of its own: a failure under fence 0 would not be final in the cache.
        then = failed_verdict(row.error, fence=row.fence)
        item.end("X", result=row.error, recorded=True, then=then, fence=row.fence)


def _final_verdict(row: Row) -> Verdict:
    return delete("duplicate") if row.status == "done" else failed_verdict(row.error)
