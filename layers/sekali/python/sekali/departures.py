"""Let the messages of a batch go: send what is owed for them, then name those that return.

Step 7 of PROTOCOL §4, in this order and no other:

    copy or dead letter sent  →  acknowledged  →  the original may be left out

A copy that was not acknowledged leaves its original to return by itself, when its visibility ends.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sekali.drawing import Drawing
from sekali.items import Verdict
from sekali.outbox import MAX_DELAY_SECONDS, Letter
from sekali.outgoing import MAX_MESSAGE_BYTES, dead_letter, delayed_copy
from sekali.settling import give_back
from sekali.telemetry import events
from sekali.waves import BEHIND, group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.warm import Container

_log = logging.getLogger(__name__)

LAST_LETTER_SECONDS = 0.25
"""Closer to the deadline no letter is sent any more."""

SHORTEST_DELAY_SECONDS = 1.0
GROWTH_PER_DEFERRAL = 0.25
LARGEST_GROWTH = 8.0
"""Each deferral adds a quarter to the delay, up to eight times what the holder still needs."""


_SENT = frozenset({"defer", "dead_letter"})


class Departures:
    """Step 7 of one batch."""

    def __init__(
        self,
        container: Container,
        invocation: Invocation,
        *,
        drawing: Drawing | None = None,
        uniform: Callable[[float, float], float] | None = None,
    ) -> None:
        """Keep the container, whose outbox sends and whose chance jitters, and the invocation."""
        self._drawing = drawing or Drawing(container, invocation)
        self._container = container
        self._invocation = invocation
        self._emit = container.emit
        self._heard = container.is_heard()
        self._uniform = uniform or container.uniform
        self._queues = container.settings.for_worker()

    def settle(self, items: Sequence[Item]) -> set[str]:
        """Send what is owed and return the ids of the messages that must come back."""
        for item in items:
            self._bound_age(item)
        # What is sent for one of two records must not let the other one go.
        back = {item.message_id for item in items if item.verdict and item.verdict.fate == "return"}
        letters = {
            item.message_id: self._written(item)
            for item in items
            if item.verdict and item.verdict.fate in _SENT and item.message_id not in back
        }
        acknowledged = self._send(items, letters)
        returning = {
            item.message_id
            for item in items
            if not _may_go(item) and item.message_id not in acknowledged
        }
        self._hide(items)
        for item in items:
            self._tell(item, returned=item.message_id in returning)
        return returning

    def _send(self, items: Sequence[Item], letters: Mapping[str, Letter | None]) -> set[str]:
        owed = [letter for letter in letters.values() if letter is not None]
        if not owed:
            return set()
        senders = [item for item in items if letters.get(item.message_id) is not None]
        with self._drawing.step("send", senders):
            return self._container.outbox.send(owed, in_time=self._has_time)

    def _hide(self, items: Sequence[Item]) -> None:
        """Set the delay of FIFO messages that are deferred: a copy would leave their order.

        The rest of their group goes along: while any message of a group is in flight, the queue
        hands out none of it.
        """
        if not self._container.settings.fifo:
            return
        delays: dict[str, float] = {}
        hidden: list[tuple[str, float]] = []
        for item in items:
            verdict, message = item.verdict, item.message
            if verdict is not None and message is not None and verdict.fate == "defer":
                delay = self._delay_seconds(verdict.seconds, message.receive_count - 1)
                delays[group_of(item)] = delay
            elif verdict is None or verdict.reason != BEHIND or group_of(item) not in delays:
                continue
            hidden.append((str(item.raw.get("receiptHandle")), delays[group_of(item)]))
        if hidden:
            self._container.outbox.hide(self._queues.queue_url, hidden)

    def _has_time(self) -> bool:
        return self._invocation.remaining_seconds() > LAST_LETTER_SECONDS

    def _bound_age(self, item: Item) -> None:
        """Turn the deferral of a job that waited longer than allowed into a dead letter."""
        if item.verdict is None or item.verdict.fate != "defer" or item.message is None:
            return
        # A redriven dead letter starts a new wait, though it was first sent long ago; and a sender
        # whose clock is behind must not make its jobs too old.
        began = max(item.message.first_sent, item.message.enqueued_at)
        waited = self._container.clock.wall() - began
        if waited > self._container.settings.max_age_seconds:
            item.verdict = Verdict(
                fate="dead_letter",
                reason="waited_too_long",
                error=f"waited {waited:.0f} s, the last time because: {item.verdict.reason}",
                attempts=item.attempt or None,
            )

    def _written(self, item: Item) -> Letter | None:
        try:
            return self._letter(item)
        except Exception:  # noqa: BLE001
            # The edge of one record: what it holds keeps no other one from its queue.
            _log.exception("message %s returns: no letter can be written", item.message_id)
            item.verdict = give_back("letter_unwritable")
            return None

    def _letter(self, item: Item) -> Letter | None:
        verdict = item.verdict
        if verdict is None:
            return None
        if verdict.fate == "dead_letter":
            return self._dead_letter(item, verdict)
        return self._copy(item, verdict)

    def _dead_letter(self, item: Item, verdict: Verdict) -> Letter:
        group = group_of(item)
        lease_fence = item.lease.fence if item.lease else 0
        return Letter(
            message_id=item.message_id,
            queue_url=self._queues.dead_letter_queue_url,
            outgoing=dead_letter(
                item.message or item.raw,
                reason=verdict.reason,
                error_type=verdict.error_type,
                error=verdict.error,
                attempts=verdict.attempts if verdict.attempts is not None else item.attempt or None,
                fence=max(verdict.fence, lease_fence),
                trace=item.trace,
            ),
            trace=item.trace,
            group=(group or "sekali") if self._container.settings.fifo else None,
        )

    def _copy(self, item: Item, verdict: Verdict) -> Letter | None:
        if item.message is None or self._container.settings.fifo:
            return None
        message = replace(item.message, trace=item.trace)
        copy = delayed_copy(message, deferrals=message.deferrals + 1)
        if copy.size_bytes > MAX_MESSAGE_BYTES:
            item.verdict = give_back("copy_too_large")
            return None
        return Letter(
            message_id=item.message_id,
            queue_url=self._queues.queue_url,
            outgoing=copy,
            delay_seconds=self._delay_seconds(verdict.seconds, item.message.deferrals),
            trace=item.trace,
        )

    def _delay_seconds(self, needed: float, deferrals: int) -> float:
        """Return how long to stay away: what is needed, at least a second, jittered, growing."""
        growth = min(1.0 + GROWTH_PER_DEFERRAL * deferrals, LARGEST_GROWTH)
        delay = max(needed, SHORTEST_DELAY_SECONDS) * growth * self._uniform(1.0, 1.25)
        return min(delay, MAX_DELAY_SECONDS)

    def _tell(self, item: Item, *, returned: bool) -> None:
        verdict = item.verdict or give_back("unsettled")
        if verdict.fate == "dead_letter" and not returned:
            self._emit(events.DeadLettered(name=item.name, reason=verdict.reason))
        elif verdict.fate == "defer" and not returned:
            self._emit(
                events.Deferred(name=item.name, seconds=verdict.seconds, reason=verdict.reason)
            )
        if verdict.reason == "retry":
            self._emit(events.Retried(name=item.name, attempt=item.attempt, error="retry"))
        if not (self._heard or self._drawing.batch is not None):
            return
        settled = self._settled(item, verdict, returned=returned)
        self._emit(settled)
        if self._drawing.batch is not None:
            self._drawing.batch.end(item, settled)

    def _settled(self, item: Item, verdict: Verdict, *, returned: bool) -> events.RecordSettled:
        now, message, lease = self._container.clock.wall(), item.message, item.lease
        waited = max(now - message.enqueued_at, 0.0) if message else 0.0
        return events.RecordSettled(
            name=item.name,
            id=item.id,
            key=item.key,
            outcome="return" if returned else verdict.fate,
            attempt=item.attempt,
            fence=lease.fence if lease is not None else verdict.fence,
            source=item.source,
            deferrals=message.deferrals if message else 0,
            receives=message.receive_count if message else 1,
            queue_seconds=max(waited - self._invocation.elapsed_seconds(), 0.0),
            run_seconds=item.run_seconds,
            took=(
                item.claim_seconds,
                item.load_seconds,
                item.wait_seconds,
                item.store_seconds,
                item.finish_seconds,
            ),
            latency_seconds=waited,
            retries=item.attempt - 1 if item.attempt else 0,
            reason=verdict.reason,
            failure=item.failure,
            trace=item.trace,
        )


def _may_go(item: Item) -> bool:
    return item.verdict is not None and item.verdict.fate == "delete"
