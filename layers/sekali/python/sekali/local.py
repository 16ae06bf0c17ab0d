"""Keep values in this container: bounded, aged by two clocks, never aliased.

The first of the two tiers. It survives from one invocation to the next and sleeps with its
container in between, so every entry is judged by both clocks (see `clock`):

    t=0    put, TTL 60 s
    t=10   frozen
    t=900  thawed: the monotonic clock says 10, the wall clock 900     a miss

A wall clock that was set back makes entries look younger than they are, and no later reading can
tell by how much. It does show as a shrinking difference between the clocks, because nothing else
makes the monotonic one gain on the other; the whole cache is dropped then. What remains uncovered
is a clock set back and a longer sleep, in either order, with neither a hit nor a put in between.

Immutable values are handed out as they are. Others are kept encoded and decoded for each caller:
whoever changes what it was given, changes nobody else's.

Writers share one lock. A reader takes none, which halves the price of a hit: it looks an entry up
in one step and only reads it, or marks it as visited. An entry that is dropped at that instant was
valid when it was found. For the same reason a hit does not reorder anything: what was visited since
it was last looked at gets a second chance when room is needed (the CLOCK form of least recently
used, after Corbató, 1968).
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sekali import codec
from sekali.clock import Clock, Moment, now
from sekali.errors import ResultUnencodable
from sekali.telemetry.events import Hook, LocalFlushed

if TYPE_CHECKING:
    from collections.abc import Mapping


class Missing(Enum):
    """Stand for the absence of a value, which None, False, 0 and "" do not."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

# Wall and monotonic time are disciplined together and part by steps only. This much is the jitter
# of reading one after the other. Steps within it, up or down, are not seen, so that a value may
# outlive its TTL by twice as much after a clock was set back.
STEP_SECONDS = 0.05

# What an entry costs beside its key and value (measured: 242): the object, its numbers, its place.
_ENTRY_BYTES = 242
_NO_EPOCHS: Mapping[str, str] = MappingProxyType({})
_ATOMS = frozenset({str, bytes, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Tell how full the cache is, and how many entries made room for others so far."""

    entries: int
    bytes: int
    evictions: int


@dataclass(slots=True)
class _Entry:
    """Hold one value; only `visited` changes."""

    value: object
    body: bytes | None
    size: int
    wall_deadline: float
    monotonic_deadline: float
    fence: int
    epochs: Mapping[str, str]
    visited: bool = False


class Local:
    """Hold at most `max_entries` and `max_bytes`; what was not used for longest goes first.

    Safe to use from several threads. Either bound at 0 switches it off. `on_event` is told of every
    flush, outside the lock.
    """

    def __init__(
        self, *, max_entries: int, max_bytes: int, clock: Clock, on_event: Hook | None = None
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._on_event = on_event
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._tagged: dict[str, set[str]] = {}
        self._bytes = 0
        self._evictions = 0
        # Looked up once: a hit uses all three, and pays for each attribute.
        self._find = self._entries.get
        self._wall = clock.wall
        self._monotonic = clock.monotonic
        self._least_gap, self._most_gap = _gaps(now(clock))

    def get(self, key: str) -> object:
        """Return the value of `key`, or MISSING.

        A mutable value is a fresh copy. A value is never returned once its TTL has passed.
        """
        entry = self._find(key)
        if entry is None:
            return MISSING
        wall = self._wall()
        monotonic = self._monotonic()
        if (
            wall < entry.wall_deadline
            and monotonic < entry.monotonic_deadline
            and self._least_gap <= wall - monotonic <= self._most_gap
        ):
            entry.visited = True
            return entry.value if entry.body is None else codec.decode(entry.body)
        return self._get_with_care(key)

    def put(
        self,
        key: str,
        value: object,
        *,
        ttl_seconds: float,
        encoded: bytes | None = None,
        since: Moment | None = None,
        fence: int = 0,
        epochs: Mapping[str, str] = _NO_EPOCHS,
    ) -> bool:
        """Keep `value` for `ttl_seconds` and tell whether it is kept.

        It is not kept, and what was there is dropped, if the TTL is 0, if it is larger than the
        whole cache, or if it is neither immutable nor JSON. It is not kept, and what is there
        stays, if that has a greater `fence`.

        Args:
            key: the scoped key.
            value: text, bytes, numbers, booleans, None, and tuples and frozensets of them are
                handed out as they are; anything else is encoded.
            ttl_seconds: finite and not negative; jitter is up to the caller.
            encoded: what `codec.encode` made of `value`, where the caller has it. Everything but
                text, numbers, booleans and None is then handed out as the shared tier would: from
                these bytes.
            since: when the value began to age, if that was not now: the moment before the request
                that brought it was sent.
            fence: of the claim that computed the value.
            epochs: the mark of each of its tags.

        Raises:
            ValueError: the TTL is negative or not finite.
        """
        if not 0 <= ttl_seconds < math.inf:
            raise ValueError(f"ttl_seconds must be finite and not negative, got {ttl_seconds!r}")
        size = _frozen_bytes(value) if encoded is None or type(value) in _ATOMS else None
        if size is not None:
            encoded = None
        elif encoded is None:
            try:
                encoded = codec.encode(value)
            except ResultUnencodable:
                self.drop(key)
                return False
        born = now(self._clock) if since is None else since
        entry = _Entry(
            value=value if encoded is None else None,
            body=encoded,
            size=(size or sys.getsizeof(encoded)) + sys.getsizeof(key) + _ENTRY_BYTES,
            wall_deadline=born.wall + ttl_seconds,
            monotonic_deadline=born.monotonic + ttl_seconds,
            fence=fence,
            epochs=epochs,
        )
        fits = ttl_seconds > 0 and entry.size <= self._max_bytes and self._max_entries > 0
        self._follow_clocks()
        with self._lock:
            there = self._entries.get(key)
            if there is not None and there.fence > fence:
                return False
            self._remove(key)
            # A clock that was set back after the value was born leaves its age unknown.
            if not fits or born.wall - born.monotonic > self._most_gap:
                return False
            self._insert(key, entry)
            return True

    def drop(self, key: str) -> bool:
        """Forget one key and tell whether it was there."""
        with self._lock:
            return self._remove(key)

    def drop_tag(self, tag: str, *, mark: str | None = None) -> int:
        """Forget every value that carries `tag`, and return how many.

        A value whose epoch is `mark` was loaded after the invalidation that set it, and stays.
        """
        with self._lock:
            keys = [
                key
                for key in self._tagged.get(tag, ())
                if mark is None or self._entries[key].epochs[tag] != mark
            ]
            for key in keys:
                self._remove(key)
            return len(keys)

    def flush(self, cause: str) -> int:
        """Forget everything, and return how many entries that was."""
        with self._lock:
            entries = self._clear()
        self._tell(cause, entries)
        return entries

    def stats(self) -> Stats:
        """Return the numbers as they are now."""
        with self._lock:
            return Stats(entries=len(self._entries), bytes=self._bytes, evictions=self._evictions)

    def _get_with_care(self, key: str) -> object:
        """Repeat a read that met a deadline, or clocks that do not agree as they did."""
        self._follow_clocks()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return MISSING
            if self._wall() >= entry.wall_deadline or self._monotonic() >= entry.monotonic_deadline:
                self._remove(key)
                return MISSING
            entry.visited = True
        return entry.value if entry.body is None else codec.decode(entry.body)

    def _follow_clocks(self) -> None:
        """Note how far the clocks are apart now; if they came closer, drop everything.

        They are read afresh: a reader that was held up between its two readings saw a difference
        that never was.
        """
        with self._lock:
            moment = now(self._clock)
            gap = moment.wall - moment.monotonic
            if self._least_gap <= gap <= self._most_gap:
                return
            set_back = gap < self._least_gap
            self._least_gap, self._most_gap = _gaps(moment)
            entries = self._clear() if set_back else 0
        if set_back:
            self._tell("clock", entries)

    def _insert(self, key: str, entry: _Entry) -> None:
        # Room first: among entries that were all used, the new one would be the first to go.
        most_bytes = self._max_bytes - entry.size
        while len(self._entries) >= self._max_entries or self._bytes > most_bytes:
            self._evict_one()
        self._entries[key] = entry
        self._bytes += entry.size
        for tag in entry.epochs:
            self._tagged.setdefault(tag, set()).add(key)

    def _evict_one(self) -> None:
        while True:
            key, entry = next(iter(self._entries.items()))
            if not entry.visited:
                break
            entry.visited = False
            self._entries.move_to_end(key)
        self._remove(key)
        self._evictions += 1

    def _remove(self, key: str) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._bytes -= entry.size
        for tag in entry.epochs:
            keys = self._tagged[tag]
            keys.discard(key)
            if not keys:
                del self._tagged[tag]
        return True

    def _clear(self) -> int:
        entries = len(self._entries)
        self._entries.clear()
        self._tagged.clear()
        self._bytes = 0
        return entries

    def _tell(self, cause: str, entries: int) -> None:
        if self._on_event is not None:
            self._on_event(LocalFlushed(cause=cause, entries=entries))


def _gaps(moment: Moment) -> tuple[float, float]:
    """Return the least and the greatest distance between the clocks that is no step."""
    gap = moment.wall - moment.monotonic
    return gap - STEP_SECONDS, gap + STEP_SECONDS


def _frozen_bytes(value: object) -> int | None:
    """Return the size of an immutable value, or None if any part of it can be changed.

    Exact types only: an instance of a subclass may have attributes, which can be changed.
    """
    size = 0
    rest = [value]
    while rest:
        part = rest.pop()
        kind = type(part)
        if kind in _ATOMS:
            size += sys.getsizeof(part)
        elif isinstance(part, (tuple, frozenset)) and kind in {tuple, frozenset}:
            size += sys.getsizeof(part)
            rest += part
        else:
            return None
    return size
