"""Claim a wave of records and sort the answers (PROTOCOL §4, step 2).

Results are looked up locally, then shared, before any work:

    known done here?      the id's record is final: nothing is sent for it
    value known here?     the key's value is in the local tier: a look at the id's record
    else                  a claim, all of them in one pipeline behind the invalidation log's tail

A value from the local tier counts only if the tail of the same pipeline did not drop it and the
record, compared as a claim would, has no better answer; those whose value was dropped are claimed
in one more flush. Without a tail nothing local is known.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sekali import codec
from sekali.answers import Acquired, Ask, Busy, Done, Mismatch, Served, new_token, new_tokens
from sekali.clock import now
from sekali.errors import SharedUnavailable, ValueUnreadable
from sekali.lease_events import tell_claim
from sekali.marks import Marks
from sekali.settling import claim_verdict, defer, delete, give_back, mismatch_verdict
from sekali.shared import in_parts
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sekali.answers import ClaimAnswer, Lease, Terms
    from sekali.clock import Moment
    from sekali.degraded import Degraded
    from sekali.done_ids import Noted
    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.scripts import Command
    from sekali.warm import Container

_log = logging.getLogger(__name__)


class Claiming:
    """Step 2 of one batch."""

    def __init__(self, container: Container, invocation: Invocation, degraded: Degraded) -> None:
        """Keep the container and the invocation whose leases are claimed."""
        self._container = container
        self._invocation = invocation
        self._emit = container.emit
        self._degraded = degraded
        self._heard = container.is_heard()
        self._terms: dict[str, Terms] = {}
        self._tokens: list[str] = []

    def claim(self, wave: Sequence[Item]) -> None:
        """Give every item of `wave` its answer, and a verdict where the answer decides it."""
        self._terms.clear()
        done = self._container.done.known()
        waiting = [item for item in wave if not self._known_done(item, done)]
        self._tokens = new_tokens(len(waiting))
        known = {item: self.ask(item) for item in waiting if self._known_value(item)}
        # A value that the tail drops because of its tag is still there: it is refused at once.
        local = {item: item.ending.fence for item in known if item.ending is not None}
        asking = [item for item in waiting if item not in known] if known else waiting
        self._send(asking, {}, known, with_tail=bool(waiting))
        again = {
            item: replace(ask, refuse=local[item])
            for item, ask in known.items()
            if self._was_dropped(item)
        }
        again.update(
            (item, replace(self.ask(item), refuse=fence))
            for item in asking
            if (fence := self._refused_fence(item)) is not None
        )
        self._send(list(again), again, {}, with_tail=False)
        for item in again:
            if self._refused_fence(item) is not None:
                item.answer, item.verdict = None, give_back("value_unreadable")
        leases: list[Lease] = []
        for item in wave:
            self._sort(item, wave, leases)
        self._invocation.heartbeat.watch_all(leases)

    def ask(self, item: Item) -> Ask:
        """Return the claim of `item`, with a token of its own."""
        return Ask(
            name=item.name,
            id=item.id,
            key=item.key,
            payload_hash=item.payload_hash,
            token=self._tokens.pop() if self._tokens else new_token(),
            terms=self._terms_of(item),
            rearm=item.rearm,
            slot=item.slot,
        )

    def _terms_of(self, item: Item) -> Terms:
        """Return the terms of an item's job, its lease bounded by the time left; once per wave."""
        terms = self._terms.get(item.name)
        if terms is None:
            container, spec = self._container, item.spec
            terms = container.terms_of(spec) if spec else container.default_terms()
            seconds = self._invocation.bounded_lease_seconds(terms.lease_seconds)
            if seconds != terms.lease_seconds:
                terms = replace(terms, lease_seconds=seconds)
            self._terms[item.name] = terms
        return terms

    def _known_done(self, item: Item, done: Mapping[str, Noted]) -> bool:
        """Answer from this container's own memory of ids that are done, which is final."""
        known = done.get(f"{item.name}/{item.id}")
        if known is None:
            return False
        item.answer = Done(b"") if known.payload_hash == item.payload_hash else Mismatch()
        item.source = "local_record"
        return True

    def _known_value(self, item: Item) -> bool:
        """Settle from the local tier, for now: the log's tail may still drop the value."""
        item.ending, item.source = None, ""
        if item.spec is None or item.spec.key is None or item.rearm:
            return False
        value = self._container.local.get(item.scoped_key)
        if not isinstance(value, bytes):
            return False
        fence, body = codec.fence_of(value), value[codec.FENCE_DIGITS :]
        item.settle(body, token="", fence=fence, source="local")
        return True

    def _was_dropped(self, item: Item) -> bool:
        decided = item.answer or item.verdict or item.table_claim
        return decided is None and not self._known_value(item)

    def _send(
        self,
        asking: Sequence[Item],
        asks: dict[Item, Ask],
        looks: Mapping[Item, Ask],
        *,
        with_tail: bool,
    ) -> None:
        """Claim `asking`, and only look at the records of `looks`, whose value is known here.

        `asks` holds the claims that are made already; the others are made on the way.
        """
        claims, container = self._invocation.claims, self._container
        coherence, drops = container.coherence, container.local.drops
        glance = coherence.glance() if with_tail else None
        marks = Marks(coherence, asking)
        tail = [*([glance.command] if glance else []), *marks.commands]
        wanted = [*looks, *asking] if looks else asking
        bound = [item for item in wanted if item.key != item.id]
        parts = self._written(
            [*tail, *map(claims.look, looks.values())], asking, asks, looks=looks, bound=bound
        )
        sent_at, sent = self._invocation.now(), now(container.clock)
        try:
            replies = container.shared.flush(next(parts, []), operation="claim", more=parts)
        except SharedUnavailable as error:
            self._degraded.take(wanted, error)
            return
        both = {**looks, **asks}
        refused: dict[Item, Exception] = {}
        marks.learn(replies[len(tail) - len(marks.commands) : len(tail)])
        first_bind = len(tail) + len(both)
        for (item, ask), reply in zip(both.items(), replies[len(tail) : first_bind], strict=True):
            if isinstance(reply, Exception):
                refused[item] = reply
            elif item in asks:
                item.answer = claims.read_claim(ask, reply, sent_at)
                item.epochs = marks.of(item)
                self._keep_served(item, sent, drops)
            else:
                item.answer = claims.read_look(ask, reply)
                item.ending = item.ending if item.answer is None else None
        for item, reply in zip(bound, replies[first_bind:], strict=True):
            if not isinstance(reply, Exception) and not claims.read_bind(both[item], reply):
                self._refuse_payload(item)
        if refused:
            self._degraded.take(refused, next(iter(refused.values())))
        # After the values of the same pipeline: shards answer in any order.
        if glance is not None:
            coherence.apply(glance, replies[0])

    def _written(
        self,
        first: list[Command],
        asking: Sequence[Item],
        asks: dict[Item, Ask],
        *,
        looks: Mapping[Item, Ask],
        bound: Sequence[Item],
    ) -> Iterator[list[Command]]:
        """Write the commands in parts: the server claims the first ones while others are written.

        Leases count from before the first of them.
        """
        claims, part = self._invocation.claims, [*first]
        for at, some in enumerate(in_parts(asking)):
            if at:
                yield part
                part = []
            for item in some:
                ask = asks.get(item)
                if ask is None:
                    ask = asks[item] = self.ask(item)
                part.append(claims.claim(ask))
        part += [claims.bind(asks.get(item) or looks[item]) for item in bound]
        if part:
            yield part

    def _refuse_payload(self, item: Item) -> None:
        """End what was claimed for an id that is bound to another payload: it is never run."""
        if isinstance(item.answer, Acquired):
            item.end("U", then=mismatch_verdict(fence=item.answer.lease.fence))
        elif not isinstance(item.answer, Done):
            item.answer, item.ending = Mismatch(), None

    def _keep_served(self, item: Item, sent: Moment, drops: int) -> None:
        """Settle with a served value, and keep it in the local tier for what is left of its TTL."""
        if not isinstance(item.answer, Served):
            return
        value = item.answer.value
        try:
            opened = codec.read(value, key=item.scoped_key)
        except ValueUnreadable as error:
            self._emit(events.UnreadableValue(name=item.name, reason=error.reason))
            return
        if not self._container.coherence.current(opened.epochs, named=item.tags):
            return
        item.settle(opened.body, token="", fence=opened.fence, source="shared")
        left = min(item.answer.remaining_seconds, opened.ttl_seconds)
        self._container.keep(
            item, opened.body, opened.fence, left, epochs=opened.epochs, drops=drops, since=sent
        )

    def _refused_fence(self, item: Item) -> int | None:
        """Return the fence of a served value that could not be used, else None."""
        if isinstance(item.answer, Served) and item.ending is None:
            return codec.fence_of(item.answer.value)
        return None

    def _sort(self, item: Item, wave: Sequence[Item], leases: list[Lease]) -> None:
        if item.verdict is not None:
            return
        answer = item.answer
        if self._heard:
            self._count(item, answer)
        if answer is None:
            return
        if isinstance(answer, Acquired):
            self._note_acquired(item, answer)
            leases.append(answer.lease)
        elif isinstance(answer, Done):
            item.verdict = delete("duplicate")
            item.source = item.source or "record"
        elif isinstance(answer, Busy):
            self._sort_busy(item, answer, wave)
        else:
            item.verdict = claim_verdict(answer)

    def _count(self, item: Item, answer: ClaimAnswer | None) -> None:
        if item.ending is not None and item.source == "local":
            self._emit(events.CacheRead(source="local", name=item.name, key=item.key))
        elif isinstance(answer, Served):
            self._emit(events.CacheRead(source="shared", name=item.name, key=item.key))
        elif isinstance(answer, Acquired) and item.spec is not None and item.spec.key is not None:
            # A job whose key is its id has no value to find.
            self._emit(events.CacheRead(source="miss", name=item.name, key=item.key))

    def _sort_busy(self, item: Item, answer: Busy, wave: Sequence[Item]) -> None:
        sibling = next((one for one in wave if _leads(one, item)), None)
        if sibling is not None:
            item.leader = sibling
            return
        self._emit(
            events.LeaseContended(name=item.name, key=item.key, owner=answer.owner, record=True)
        )
        rest = self._container.durations.expected(item.name) - answer.age_seconds
        wait = answer.remaining_seconds if answer.cooling else max(answer.remaining_seconds, rest)
        item.verdict = defer("cooling" if answer.cooling else "busy", wait)

    def _note_acquired(self, item: Item, answer: Acquired) -> None:
        item.attempt = answer.attempt
        if self._heard or answer.takeover or answer.abandoned_owner:
            tell_claim(self._emit, answer.lease.ask, answer)


def _leads(leader: Item, item: Item) -> bool:
    return (
        leader is not item
        and isinstance(leader.answer, Acquired)
        and leader.verdict is None
        and leader.scoped_key == item.scoped_key
    )
