"""Keep what has ended in one batch until it is sent: at a record boundary, or beside a long record.

    t=0.00  record 1 starts
    t=0.04  it ends; records 2 to 6 do the same                nothing is sent yet
    t=0.24  record 7 starts: six have ended, due at 0.25
    t=0.25  record 7 runs on: the six are sent from another thread
    t=0.30  had it ended by now, nothing would have been due before the next boundary

So finished work waits for a quarter of a second at most, however long the record after it takes,
and a quick batch, over by then, is sent at once by the thread that ran it.

What is *not* guaranteed without a thread (`SEKALI_HEARTBEAT=false`): there, finished work of that
quarter waits for the next record boundary, and a record that outlives the function takes it along.
"""

from __future__ import annotations

import logging
import math
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

from sekali.invocation import LAST_FLUSH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.pulse import Pulse


_log = logging.getLogger(__name__)


class Ended:
    """What has ended and is not sent. Safe to use from several threads."""

    def __init__(
        self,
        conclude: Callable[[Sequence[Item]], None],
        *,
        invocation: Invocation,
        after_seconds: float,
        pulse: Pulse | None,
    ) -> None:
        """Hold nothing yet.

        Args:
            conclude: takes items to their verdicts; it is called by one thread at a time.
            invocation: whose time this is.
            after_seconds: how long finished work may wait, from the first body that has started
                since the last time anything was sent.
            pulse: calls from its own thread what is due while a body runs; None is no thread.
        """
        self._conclude = conclude
        self._invocation = invocation
        self._after_seconds = after_seconds
        self._pulse = pulse
        self._context = copy_context()
        # One lock for what is kept, one so that no two flushes overlap.
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._items: list[Item] = []
        self._began: float | None = None
        self._running = 0
        self._armed = self._ever_armed = False

    def add(self, *items: Item) -> None:
        """Keep what ended without a body."""
        with self._lock:
            self._items.extend(items)

    def body_starts(self) -> None:
        """Count a body that runs from now on."""
        with self._lock:
            self._running += 1
            self._begin()
            arms = self._is_to_be_armed()
        if arms:
            self._arm()

    def body_ends(self, item: Item) -> None:
        """Keep what a body has come to."""
        with self._lock:
            self._begin()
            self._running -= 1
            self._items.append(item)
            arms = self._is_to_be_armed()
        if arms:
            self._arm()

    def send_if_due(self) -> None:
        """Send at a record boundary what has waited for long enough."""
        with self._lock:
            due = bool(self._items) and self._seconds_left() <= 0
        if due:
            self.send()

    def send(self) -> None:
        """Send all that has ended. A flush that is under way on another thread is waited for."""
        with self._sending:
            self._send(self._taken())

    def close(self) -> None:
        """Let nothing be sent by another thread any more; what one is sending is waited for."""
        if self._pulse is not None and self._ever_armed:
            self._pulse.remove(self._beat)

    def _taken(self) -> list[Item]:
        with self._lock:
            items, self._items, self._began = self._items, [], None
            if self._running:
                self._begin()
        return items

    def _begin(self) -> None:
        if self._began is None:
            self._began = self._invocation.now()

    def _send(self, items: Iterable[Item]) -> None:
        ended = [item for item in items if item.ending]
        try:
            self._conclude(ended)
        except Exception:
            # Whoever sends next tries it again: the thread of the batch, whose failure is seen.
            self.add(*(item for item in ended if item.verdict is None))
            raise

    def _seconds_left(self) -> float:
        """Return the seconds for which finished work may still wait."""
        if self._began is None:
            return math.inf
        last = self._invocation.deadline - LAST_FLUSH_SECONDS
        return min(self._began + self._after_seconds, last) - self._invocation.now()

    def _is_to_be_armed(self) -> bool:
        return bool(self._running and self._items) and not self._armed and self._pulse is not None

    def _arm(self) -> None:
        """Ask for a call when what has ended is due, while a body keeps its thread busy."""
        with self._lock:
            pulse = self._pulse
            if pulse is None or not self._is_to_be_armed():
                return
            self._armed = self._ever_armed = True
            left = self._seconds_left()
        try:
            pulse.add(self._beat, after_seconds=max(left, 0.0))
        except RuntimeError as error:
            # This process can start no thread; what has ended is sent at the next boundary.
            _log.warning("nothing is sent beside a running body: %s", error)
            self._pulse = None

    def _beat(self) -> float:
        """Send what is due, and return the seconds until something else is; inf if nothing is."""
        with self._lock:
            waits = bool(self._items) and self._seconds_left() > 0
        if not waits:
            with self._sending:
                items = self._taken()
                if items:
                    self._context.run(self._send, items)
        with self._lock:
            if self._items and self._running:
                return max(self._seconds_left(), 0.0)
            self._armed = False
        return math.inf
