"""Remember which ids this container saw done, which is final for as long as their records live.

A duplicate of one of them is answered without asking anybody. All are remembered for the same time,
so they end in the order in which they came, and what makes room is what came first: a duplicate
that a queue makes by itself follows its original within minutes.

    t=0      noted, record TTL 3,600 s
    t=10     frozen
    t=4000   thawed: the monotonic clock says 10, the wall clock 4000     not known any more

As in the local tier, a wall clock that was set back makes all of them look younger than they are
and shows as a shrinking difference between the clocks; all are forgotten then (see `local`).
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from sekali.clock import Moment, now, seconds_between
from sekali.entries import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sekali.clock import Clock

_ENTRY_BYTES: Final = 380
"""What an id costs beside its own text: hash, moment, tuple, place in the dictionary. A test holds
the sum against what Python allocates."""


def _size_of(scoped_id: str) -> int:
    # The most that its text takes: one character beyond the others makes each take four bytes.
    return len(scoped_id) * (1 if scoped_id.isascii() else 4) + _ENTRY_BYTES


class Noted(NamedTuple):
    """Hold the payload hash of an id that is done, and when that was noted."""

    payload_hash: str
    since: Moment


class DoneIds:
    """Hold at most `max_entries` and `max_bytes`. Safe to use from several threads."""

    def __init__(
        self, *, max_entries: int, max_bytes: int, ttl_seconds: float, clock: Clock
    ) -> None:
        """Know nothing yet; each id is known for `ttl_seconds`."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._lock = Lock()
        self._ids: OrderedDict[str, Noted] = OrderedDict()
        self._bytes = 0
        self._window = Window.around(now(clock))

    def known(self) -> Mapping[str, Noted]:
        """Return what is known at this moment, by `<job name>/<id>`."""
        if self._ids:
            with self._lock:
                self._forget_old(now(self._clock))
        return self._ids

    def note(self, ids: Iterable[tuple[str, str]]) -> None:
        """Take in `<job name>/<id>` and payload hash of ids that are done."""
        moment = now(self._clock)
        with self._lock:
            self._forget_old(moment)
            for scoped_id, payload_hash in ids:
                self._drop(scoped_id)
                self._ids[scoped_id] = Noted(payload_hash, moment)
                self._bytes += _size_of(scoped_id)
            while len(self._ids) > self._max_entries or self._bytes > self._max_bytes:
                self._drop(next(iter(self._ids)))

    def _forget_old(self, moment: Moment) -> None:
        gap = moment.wall - moment.monotonic
        if not self._window.least <= gap <= self._window.most:
            if gap < self._window.least:
                self._ids.clear()
                self._bytes = 0
            self._window = Window.around(moment)
        while self._ids:
            first = next(iter(self._ids))
            if seconds_between(self._ids[first].since, moment) < self._ttl_seconds:
                return
            self._drop(first)

    def _drop(self, scoped_id: str) -> None:
        if self._ids.pop(scoped_id, None) is not None:
            self._bytes -= _size_of(scoped_id)
