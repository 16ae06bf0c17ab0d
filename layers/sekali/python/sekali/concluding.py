"""Record what has ended, finish it in one pipeline, read the verdicts (PROTOCOL §4, steps 5 and 6).

    t=0.00  leader's body returns          D, not recorded
    t=0.01  table: conditional write       accepted; or rejected: the other's result is ours
    t=0.02  table: its followers' settles  only if its own body computed, under a live lease
    t=0.03  one pipeline: every finish, leaders before followers
    t=0.04  verdicts; what the shared tier took is kept in the local tier too

The table comes first: a container that dies in between leaves a row that the next one finds.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sekali import codec
from sekali.answers import Acquired, End, Finished, FinishSuperseded
from sekali.errors import SharedUnavailable
from sekali.invocation import LAST_FLUSH_SECONDS
from sekali.lease_events import tell_end
from sekali.marks import Marks
from sekali.settling import defer, degraded_verdict, finish_verdict
from sekali.shared import exhaust, in_parts, is_passing
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from sekali.answers import FinishAnswer, Lease, Outcome
    from sekali.claiming import Claiming
    from sekali.drawing import Drawing
    from sekali.durable import Durable
    from sekali.invocation import Invocation
    from sekali.items import Ending, Item
    from sekali.scripts import Command
    from sekali.warm import Container

_log = logging.getLogger(__name__)

RETRY_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
RECORDED_PATIENCE_SECONDS = 2.0
"""How long a failing flush is repeated when every outcome in it is in the table already."""


class Concluding:
    """Steps 5 and 6 of one batch."""

    def __init__(
        self,
        container: Container,
        invocation: Invocation,
        claiming: Claiming,
        drawing: Drawing,
    ) -> None:
        """Keep the container, the invocation, and the claiming that knows each item's terms."""
        self._drawing = drawing
        self._container = container
        self._invocation = invocation
        self._claiming = claiming

    def conclude(self, ended: Sequence[Item], batch: Iterable[Item]) -> None:
        """Take `ended`, and whoever in `batch` follows one of them, to their verdicts."""
        self._record(ended)
        followers = self._settle_followers(ended, batch)
        self._record(followers)
        finishing = [item for item in (*ended, *followers) if item.verdict is None]
        self._give_back(finishing)
        degraded = [item for item in finishing if item.table_claim and item.lease is None]
        if degraded:
            self._conclude_degraded(degraded)
        coordinated = [item for item in finishing if item not in degraded]
        if coordinated:
            self._finish(coordinated)

    def _record(self, items: Sequence[Item]) -> None:
        durable = self._container.durable
        if durable is None:
            return
        lasting = [
            item
            for item in items
            if item.ending and item.ending.outcome in "DSX" and not item.ending.recorded
        ]
        if lasting:
            with self._drawing.step("store", lasting):
                self._write(durable, lasting)

    def _write(self, durable: Durable, lasting: list[Item]) -> None:
        """Record outcomes until the table has told of each, or the time is over."""
        pause = RETRY_PAUSE_SECONDS
        while lasting:
            lasting = durable.record(lasting, deadline=self._invocation.monotonic_deadline())
            if self._invocation.remaining_seconds() < LAST_FLUSH_SECONDS + pause:
                break
            if lasting:
                self._invocation.pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        for item in lasting:
            durable.withdraw(item)

    def _give_back(self, items: Sequence[Item]) -> None:
        """Make the table claims pending of those who ended without an outcome."""
        durable = self._container.durable
        open_claims = [
            item
            for item in items
            if item.table_claim and item.ending and item.ending.outcome in "TWU"
        ]
        if durable is not None and open_claims:
            durable.give_back(open_claims, deadline=self._invocation.monotonic_deadline())

    def _conclude_degraded(self, items: Sequence[Item]) -> None:
        """Settle table claims by what the table holds, and tell the cache if it answers again."""
        recorded = [item for item in items if item.ending and item.ending.recorded]
        for item in items:
            if item.ending is not None:
                item.verdict = degraded_verdict(item.ending)
        # No lease, value or key record is touched: a settle of the id alone, and only once.
        ends = [
            replace(self._end(item), token="", outcome=_settled_as(item), header=b"")
            for item in recorded
        ]
        try:
            self._container.shared.flush([*map(self._invocation.claims.finish, ends)])
        except SharedUnavailable:
            _log.info("%d outcomes are recorded; the cache is told by a duplicate", len(ends))

    def _settle_followers(self, ended: Sequence[Item], batch: Iterable[Item]) -> list[Item]:
        """Settle who asked for a key that a sibling's own body has just computed."""
        concluded = set(ended)
        followers = []
        for item in batch:
            leader = item.leader
            if leader is None or item.verdict or item.ending or item.id == leader.id:
                continue
            if leader in concluded and self._may_be_followed(leader):
                item.settle(
                    leader.ending.result if leader.ending else b"",
                    token=leader.lease.token if leader.lease else "",
                    fence=leader.lease.fence if leader.lease else 0,
                    source="followed",
                )
                followers.append(item)
            elif leader in concluded or leader.verdict is not None:
                item.verdict = defer("leader_failed", 0.0)
        return followers

    def _may_be_followed(self, leader: Item) -> bool:
        """Tell whether `leader` has a result of its own body, under a lease that is still live."""
        ending, lease = leader.ending, leader.lease
        if leader.verdict is not None or ending is None or lease is None:
            return False
        return ending.outcome == "D" and ending.computed and self._invocation.holds(lease)

    def _finish(self, items: Sequence[Item]) -> None:
        claims = self._invocation.claims
        coherence, drops = self._container.coherence, self._container.local.drops
        news = [coherence.replaced(item.scoped_key) for item in items if _replaces(item)]
        marks = Marks(coherence, items)
        leases = [item.lease for item in items]
        ends: list[End] = []
        along = [*news, *marks.commands, *self._container.run_commands()]
        recorded = all(item.ending and item.ending.recorded for item in items)
        with self._drawing.step("finish", items):
            parts = self._written(items, ends, along)
            replies = self._flush(parts, leases, recorded=recorded)
        first = len(items) + len(news)
        marks.learn(replies[first : first + len(marks.commands)])
        if self._container.is_heard():
            now = self._invocation.now()
            for lease, reply in zip(leases, replies, strict=False):
                if lease is not None and reply is not None:
                    tell_end(self._container.emit, lease, now)
        for item, end, reply in zip(items, ends, replies, strict=False):
            if reply is None or isinstance(reply, Exception):
                self._read(item, None)
            else:
                answer = claims.read_finish(end, reply)
                self._read(item, answer)
                self._keep(item, end, answer, drops)
        gone = [item for item in items if item.verdict and item.verdict.fate == "delete"]
        if gone:
            self._container.remember_done(gone)

    def _written(
        self, items: Sequence[Item], ends: list[End], along: list[Command]
    ) -> Iterator[list[Command]]:
        """Write the finishes in parts, adding to `ends` how each one ends; `along` goes last.

        The server works on the first ones while the others are written.
        """
        claims = self._invocation.claims
        part: list[Command] = []
        for some in in_parts(items):
            if part:
                yield part
            fresh = [self._end(item) for item in some]
            ends += fresh
            part = [*map(claims.finish, fresh)]
        yield [*part, *along]

    def _flush(
        self,
        parts: Iterator[list[Command]],
        leases: Sequence[Lease | None],
        *,
        recorded: bool,
    ) -> list[Any]:  # Any: replies, as `Shared.flush`
        """Send the finishes, and again what was not heard or was refused for the moment.

        They are repeatable. What the table holds already is tried for a moment only: its messages
        may go without it. A lease is not renewed while its own finish is under way: the refusal
        would look like a loss.

        Args:
            parts: the finish of each lease first, then whatever goes along.
            leases: who is finished; None where nobody holds one.
            recorded: whether the table holds every outcome in it.

        Returns:
            One reply per command: None where there is none, an error where it is refused for good.
        """
        heartbeat = self._invocation.heartbeat
        patience = self._invocation.remaining_seconds() - LAST_FLUSH_SECONDS
        if recorded:
            patience = min(patience, RECORDED_PATIENCE_SECONDS)
        until, pause = self._invocation.now() + patience, RETRY_PAUSE_SECONDS
        commands: list[Command] = []
        sending = _noted(parts, commands)
        replies: list[Any] = []
        left: Sequence[int] = range(len(leases))
        while True:
            heartbeat.unwatch(*_held(leases, left))
            got, trouble = self._try(sending)
            if not replies:  # all of them are written by now
                replies, left = [None] * len(commands), range(len(commands))
            if got:
                for at, reply in zip(left, got, strict=True):
                    replies[at] = reply
                left = [at for at in left if is_passing(replies[at])]
                trouble = next(filter(is_passing, got), None)
            if not left:
                return replies
            if self._invocation.now() >= until:
                _log.error("%d finishes stay unconfirmed: %s", len(left), trouble)
                return replies
            for lease in _held(leases, left):
                heartbeat.watch(lease)
            self._invocation.pause(min(pause, max(until - self._invocation.now(), 0.0)))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            sending = iter([[commands[at] for at in left]])

    def _try(self, sending: Iterator[list[Command]]) -> tuple[list[Any], object]:  # Any: as above
        """Return the replies, or none and why there are none."""
        try:
            return self._container.shared.flush(
                next(sending), operation="finish", more=sending
            ), None
        except SharedUnavailable as error:
            exhaust(sending)
            return [], error

    def _end(self, item: Item) -> End:
        ending, spec, lease = item.ending, item.spec, item.lease
        if ending is None or spec is None:
            raise ValueError(f"message {item.message_id} has not ended")
        computed = ending.outcome == "D" and ending.computed and spec.key is not None
        # Without the marks of its tags a value could not be invalidated by them.
        storable = computed and (item.epochs is not None or not item.tags)
        ttl_seconds = spec.ttl_seconds if storable else 0.0
        header = b""
        if ttl_seconds > 0:
            header = codec.header(
                ending.fence,
                key=item.scoped_key,
                created=self._container.clock.wall(),
                ttl_seconds=ttl_seconds,
                epochs=item.epochs or {},
                body=ending.result,
            )
        return End(
            ask=lease.ask if lease else self._claiming.ask(item),
            token=ending.token,
            fence=ending.fence,
            outcome=ending.outcome,
            recorded=ending.recorded,
            result=ending.result,
            header=header,
            value_ttl_seconds=ttl_seconds,
        )

    def _read(self, item: Item, answer: FinishAnswer | None) -> None:
        ending, container = item.ending, self._container
        if ending is None:
            return
        item.verdict = finish_verdict(ending, answer)
        if _was_late(item, ending, answer):
            container.emit(events.Superseded(name=item.name, key=item.key, fence=ending.fence))

    def _keep(self, item: Item, end: End, answer: FinishAnswer, drops: int) -> None:
        """Keep in the local tier what the shared one took, unless one of its tags has fallen."""
        if isinstance(answer, Finished) and answer.filled:
            self._container.keep(
                item,
                end.result,
                end.fence,
                end.value_ttl_seconds,
                epochs=item.epochs or {},
                drops=drops,
            )


def _was_late(item: Item, ending: Ending, answer: FinishAnswer | None) -> bool:
    """Tell whether a body's own result came after somebody newer's, and does not count.

    Where the table has the outcome, the cache settles the id whoever is late (PROTOCOL §2, finish):
    then another result stands there, or a lease that was lost filled nothing.
    """
    if isinstance(answer, FinishSuperseded):
        return True
    if not isinstance(answer, Finished):
        return False
    lease, spec = item.lease, item.spec
    if lease is None or not lease.started:
        return False
    if item.source == "table" or answer.result != ending.result:
        return True
    keeps_values = spec is not None and spec.key is not None and spec.ttl_seconds > 0
    return lease.lost and keeps_values and not answer.filled


def _noted(parts: Iterator[list[Command]], commands: list[Command]) -> Iterator[list[Command]]:
    """Return the parts as they are made, and note their commands."""
    for part in parts:
        commands += part
        yield part


def _held(leases: Sequence[Lease | None], places: Sequence[int]) -> list[Lease]:
    """Return the leases whose finishes stand in these places of a pipeline."""
    return [lease for at in places if at < len(leases) and (lease := leases[at]) is not None]


def _settled_as(item: Item) -> Outcome:
    return "X" if item.ending is not None and item.ending.outcome == "X" else "S"


def _replaces(item: Item) -> bool:
    """Tell whether this result takes the place of an older value that other containers may hold."""
    return (
        isinstance(item.answer, Acquired)
        and item.answer.older
        and item.ending is not None
        and item.ending.outcome == "D"
    )
