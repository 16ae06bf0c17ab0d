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

An entry has three ages. Until `fresh` it is a hit on the quick path; until its TTL it is a value,
which somebody should refresh; past the TTL it may be kept for callers whose loader fails. `fresh`
and `get` end at the first and second of them, `look` tells which one it is.

Writers share one lock. A reader takes none, which halves the price of a hit: it looks an entry up
in one step and only reads it, or marks it as visited (see `entries`). An entry that is dropped at
that instant was valid when it was found.
"""

from __future__ import annotations

import math
import sys
from threading import Lock
from typing import TYPE_CHECKING, Final

from sekali import codec
from sekali.clock import Clock, Moment, now
from sekali.entries import ATOMS, MISSING, Entry, Seen, Sieve, Stats, Window, frozen_bytes
from sekali.errors import ResultUnencodable, ValueUnreadable
from sekali.keys import CACHE_NAME
from sekali.telemetry.events import Hook, LocalFlushed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

PLAIN_PREFIX: Final = f"{CACHE_NAME}/"

# What an entry and a tag of it cost beside key, value and name; a test compares it with Python's.
_ENTRY_BYTES, _TAG_BYTES = 400, 340
_size_of = sys.getsizeof


class Local:
    """Hold at most `max_entries` and `max_bytes`; what was not used for longest goes first.

    Safe to use from several threads. Either bound at 0 switches it off. `drops` counts the keys
    and flushes that were asked for: a value asked for before one of them may be older than it.
    `vouch` tells, under the lock, whether a value with these marks may be kept: whoever comes next
    is served it without a look at them. `on_event` is told of every flush, outside the lock.

    `plain` holds the entries of the plain cache under their bare keys, for the one reader who
    cannot pay for more than a look into a dictionary: it compares `fresh_wall` and the `window` of
    the clocks, as `fresh` does.
    """

    def __init__(
        self, *, max_entries: int, max_bytes: int, clock: Clock, on_event: Hook | None = None
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._on_event = on_event
        self._lock = Lock()
        self._entries: dict[str, Entry] = {}
        self._order = Sieve()
        self.plain: dict[str, Entry] = {}
        self._tagged: dict[str, set[str]] = {}
        self._bytes = 0
        self._evictions = 0
        self.drops: int = 0
        self.vouch: Callable[[Mapping[str, str]], bool] = lambda _: True
        # Looked up once: a hit uses all three, and pays for each attribute.
        self._find = self._entries.get
        self._wall = clock.wall
        self._monotonic = clock.monotonic
        self.window: Window = Window.around(now(clock))

    def fresh(self, key: str) -> object:
        """Return the value of `key` while nobody needs to refresh it, else MISSING.

        A mutable value is a copy of the caller's own.
        """
        entry = self._find(key)
        if entry is None:
            return MISSING
        wall = self._wall()
        monotonic = self._monotonic()
        if wall < entry.fresh_wall and self.window.least <= wall - monotonic <= self.window.most:
            entry.visited = True
            if entry.body is None:
                return entry.value
            try:
                return entry.decode(entry.body)
            except ValueUnreadable:  # of the codec: what it wrote it does not read
                self.drop(key)
        return MISSING

    def get(self, key: str) -> object:
        """Return the value of `key`, or MISSING. It is never returned once its TTL has passed."""
        found = self.fresh(key)
        if found is not MISSING:
            return found
        seen = self.look(key)
        return MISSING if seen is None or seen.left_seconds <= 0 else seen.value

    def look(self, key: str) -> Seen | None:
        """Return what is held of `key`, a value past its TTL included."""
        if key not in self._entries:
            return None
        self._follow_clocks()
        with self._lock:
            moment = now(self._clock)
            entry = self._entries.get(key)
            if entry is None:
                return None
            held = entry.held_seconds(moment)
            if held >= entry.kept_seconds:
                self._remove(key)
                return None
            entry.visited = True
        try:
            value = entry.read()
        except ValueUnreadable:
            self.drop(key)
            return None
        return Seen(
            value=value,
            fence=entry.fence,
            age_seconds=entry.age_seconds + held,
            left_seconds=entry.ttl_seconds - held,
            held_seconds=held,
            fresh=moment.wall < entry.fresh_wall,
            quiet=entry.is_quiet(moment),
            epochs=entry.epochs,
        )

    def hush(self, key: str, seconds: float) -> None:
        """Let nobody here try to refresh `key` for a while: it has just failed, or is under way."""
        with self._lock:
            moment = now(self._clock)
            entry = self._entries.get(key)
            if entry is not None:
                entry.quiet_until = Moment(moment.wall + seconds, moment.monotonic + seconds)

    def put(
        self,
        key: str,
        value: object,
        *,
        ttl_seconds: float,
        encoded: bytes | None = None,
        since: Moment | None = None,
        fence: int = 0,
        epochs: Mapping[str, str] = codec.NO_EPOCHS,
        fresh_seconds: float | None = None,
        stale_seconds: float = 0.0,
        age_seconds: float = 0.0,
        decode: Callable[[bytes], object] = codec.decode,
        only_if: Callable[[], bool] | None = None,
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
            fresh_seconds: how long nobody needs to refresh it; None is as long as its TTL.
            stale_seconds: how long it is kept past its TTL, for `look` alone.
            age_seconds: how old it was when it began to age here.
            decode: what makes a value of `encoded`.
            only_if: asked under the lock, right before the value is kept: what is learnt later
                finds it there and drops it, and what was learnt before is seen here.

        Raises:
            ValueError: the TTL is negative or not finite.
        """
        if not 0 <= ttl_seconds < math.inf:
            raise ValueError(f"ttl_seconds must be finite and not negative, got {ttl_seconds!r}")
        size = frozen_bytes(value) if encoded is None or type(value) in ATOMS else None
        if size is not None:
            encoded = None
        elif encoded is None:
            try:
                encoded = codec.encode(value)
            except ResultUnencodable:
                self.drop(key)
                return False
        return self.keep(
            key,
            value,
            encoded,
            decode,
            now(self._clock) if since is None else since,
            fresh_seconds=ttl_seconds if fresh_seconds is None else fresh_seconds,
            ttl_seconds=ttl_seconds,
            kept_seconds=ttl_seconds + stale_seconds,
            age_seconds=age_seconds,
            fence=fence,
            epochs=epochs,
            size=size,
            only_if=only_if,
        )

    def keep(
        self,
        key: str,
        value: object,
        body: bytes | None,
        decode: Callable[[bytes], object],
        born: Moment,
        *,
        fresh_seconds: float,
        ttl_seconds: float,
        kept_seconds: float,
        age_seconds: float,
        fence: int,
        epochs: Mapping[str, str],
        size: int | None = None,
        drops: int | None = None,
        only_if: Callable[[], bool] | None = None,
    ) -> bool:
        """Keep a value that is known to fit one of both forms.

        Args, where `put` does not say the same of them:
            value: what was decoded, or put.
            body: what `codec.encode` or another codec made of it, None if it is immutable.
            born: when it began to age here.
            kept_seconds: how long it is kept, past its TTL for `look` alone.
            size: of an immutable value in bytes, where the caller has it.
            drops: it is not kept if `drops` is another number by then.
        """
        if body is not None and type(value) in ATOMS:
            body = None
        if size is None:
            size = _size_of(value if body is None else body)
        fresh = min(fresh_seconds, ttl_seconds)
        entry = Entry(
            key,
            value if body is None else None,
            body,
            decode,
            size + _size_of(key) + _ENTRY_BYTES + (_tag_bytes(epochs) if epochs else 0),
            born.wall + fresh if fresh > 0 else born.wall,
            born,
            age_seconds,
            ttl_seconds,
            kept_seconds,
            fence,
            epochs,
        )
        window = self.window
        if not window.least <= self._wall() - self._monotonic() <= window.most:
            self._follow_clocks()
        with self._lock:
            there = self._entries.get(key)
            if there is not None and there.fence > fence:
                return False
            if drops is not None and drops != self.drops:
                return False
            if (only_if is not None and not only_if()) or (epochs and not self.vouch(epochs)):
                return False
            if there is not None:
                self._remove(key)
            if not (kept_seconds > 0 and entry.size <= self._max_bytes and self._max_entries > 0):
                return False
            # A clock that was set back after the value was born leaves its age unknown.
            if born.wall - born.monotonic > window.most:
                return False
            self._insert(key, entry)
            return True

    def drop(self, key: str) -> bool:
        """Forget one key and tell whether it was there."""
        with self._lock:
            self.drops += 1
            return self._remove(key)

    def drop_many(self, keys: AbstractSet[str]) -> None:
        """Forget many keys at once."""
        with self._lock:
            self.drops += 1
            for key in self._entries.keys() & keys:
                self._remove(key)

    def drop_tag(self, tag: str, *, mark: str | None = None) -> int:
        """Forget every value that carries `tag`, and return how many.

        A value whose epoch is `mark` was loaded after the invalidation that set it, and stays.
        """
        with self._lock:
            tagged = self._tagged.get(tag, ())
            keys = [k for k in tagged if mark is None or self._entries[k].epochs[tag] != mark]
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

    def _follow_clocks(self) -> None:
        """Note how far the clocks are apart now; if they came closer, drop everything.

        Under the lock they are read afresh: a reader that was held up between its two readings saw
        a difference that never was.
        """
        gap = self._wall() - self._monotonic()
        if self.window.least <= gap <= self.window.most:
            return
        with self._lock:
            moment = now(self._clock)
            gap = moment.wall - moment.monotonic
            if self.window.least <= gap <= self.window.most:
                return
            set_back = gap < self.window.least
            around = Window.around(moment)
            self.window.least, self.window.most = around.least, around.most
            entries = self._clear() if set_back else 0
        if set_back:
            self._tell("clock", entries)

    def _insert(self, key: str, entry: Entry) -> None:
        # Room first: among entries that were all used, the new one would be the first to go.
        most_bytes = self._max_bytes - entry.size
        while len(self._entries) >= self._max_entries or self._bytes > most_bytes:
            self._evict_one()
        self._entries[key] = entry
        self._order.add(entry)
        if key.startswith(PLAIN_PREFIX):
            self.plain[key[len(PLAIN_PREFIX) :]] = entry
        self._bytes += entry.size
        for tag in entry.epochs:
            self._tagged.setdefault(tag, set()).add(key)

    def _evict_one(self) -> None:
        self._remove(self._order.victim().key)
        self._evictions += 1

    def _remove(self, key: str) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._order.remove(entry)
        if key.startswith(PLAIN_PREFIX):
            del self.plain[key[len(PLAIN_PREFIX) :]]
        self._bytes -= entry.size
        for tag in entry.epochs:
            keys = self._tagged[tag]
            keys.discard(key)
            if not keys:
                del self._tagged[tag]
        return True

    def _clear(self) -> int:
        entries = len(self._entries)
        self.drops += 1
        self._entries.clear()
        self._order.clear()
        self.plain.clear()
        self._tagged.clear()
        self._bytes = 0
        return entries

    def _tell(self, cause: str, entries: int) -> None:
        if self._on_event is not None:
            self._on_event(LocalFlushed(cause=cause, entries=entries))


def _tag_bytes(epochs: Mapping[str, str]) -> int:
    return len(epochs) * _TAG_BYTES + sum(map(_size_of, epochs))
