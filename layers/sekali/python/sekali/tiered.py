"""Cache in two tiers: local, then shared or lease in one step, then the loader.

    t=0.000  A: local miss → claim: Acquired → its loader runs
    t=0.010  B: local miss → claim: Busy → B waits, asking again at most ten times a second
    t=0.900  A: finish: the value is stored in the shared tier, then in A's local one
    t=0.950  B: claim: Served → stored in B's local tier; the loader ran once

This module is the door: it validates, answers what is local and fresh without a further step, and
lets one caller of the process take each key through `loading` while the others wait. `None`,
`False`, `0` and `""` are values.

Levels of coherence, for each call:

    per_invocation   no value that was invalidated before this invocation began (the default): the
                     first read finds the log's tail already read by the batch, or reads it
    strict           no value that was invalidated before this call began: one flush for each read
    ttl              nothing is asked; a value lives until its TTL

What is *not* guaranteed: that a loader runs once (see `loading`); that an invalidation which a
cache node acknowledged survives that node's loss: until its hard TTL the old value may come back.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from sekali.answers import terms_of_loads
from sekali.calls import Level, Result, Tiers, call_of, tags_of, texts_of
from sekali.driving import Driver
from sekali.entries import MISSING
from sekali.errors import LoadTimeout
from sekali.explaining import Explanation, explain
from sekali.flights import LeftOut
from sekali.hits import GetOrLoad, Hits, Way
from sekali.keys import CACHE_NAME
from sekali.loading_many import loaded_alone
from sekali.local import PLAIN_PREFIX
from sekali.packing import PLAIN
from sekali.reading import Reading, current
from sekali.refreshes import Refreshes
from sekali.shared_hits import SharedHits
from sekali.single_flight import SingleFlight
from sekali.telemetry import events
from sekali.writing import invalidate, set_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sekali.answers import Terms
    from sekali.clock import Clock
    from sekali.coherence import Coherence
    from sekali.flights import Flights, Gate
    from sekali.invocation import Invocation
    from sekali.lifetimes import Uniform
    from sekali.local import Local
    from sekali.packing import Packing
    from sekali.served import Taken
    from sekali.shared import Shared
    from sekali.telemetry.spans import Spans

T = TypeVar("T")


class Tiered:
    """The two tiers, as one invocation sees them. Safe to use from several threads and tasks."""

    def __init__(
        self,
        *,
        local: Local,
        shared: Shared,
        flights: Flights[Result[Any]],
        gate: Gate,
        coherence: Coherence,
        invocation: Invocation,
        terms: Terms,
        clock: Clock,
        emit: Callable[[events.Event], None],
        spans: Spans | None = None,
        outside: bool = False,
        uniform: Uniform = random.uniform,
    ) -> None:
        """Keep the tiers and the invocation whose time every wait is cut from."""
        self._outside = outside
        self._tiers = Tiers(
            local=local,
            coherence=coherence,
            invocation=invocation,
            terms=terms_of_loads(terms),
            clock=clock,
            emit=emit,
            uniform=uniform,
        )
        self._local = local
        self._flights = flights
        self._driver = Driver(shared, invocation, gate, spans)
        self._refreshes = Refreshes()
        self._flying = SingleFlight(
            self._tiers,
            self._driver,
            flights,
            is_due=self._is_due,
            postpone=self._refreshes.add,
        )
        self._glances = coherence.glances
        self._due = True
        self._hits = 0
        self._quick = Hits(local, clock, self._get_or_load)
        self._shared = shared
        self.get_or_load = self._quick.get_or_load

    # Get or load.

    get_or_load: GetOrLoad
    """Return the value of `key`, computing it with `loader` where neither tier has it.

    The arguments are those of `look_up`. A method in all but its making (see `hits`).
    """

    def _get_or_load(
        self,
        key: str,
        loader: Callable[[], Any],  # Any: as in GetOrLoad
        *,
        ttl_seconds: float | None = None,
        level: Level | None = None,
        **options: Any,  # Any: the options of `look_up`, which checks them
    ) -> Any:  # Any: as in GetOrLoad
        if self._due and level is None and self._follows():  # the first call of an invocation
            found = self._short.get_or_load(key, loader, ttl_seconds, options)
            if found is not Way.LONG:
                return found
        call = call_of(key, loader, ttl_seconds=ttl_seconds, level=level, **options)
        found = self._hit(key, level)
        if found is not MISSING:
            return found
        return self._flying.look_up(call).value

    def look_up(
        self,
        key: str,
        loader: Callable[[], T],
        *,
        ttl_seconds: float | None = None,
        soft_ttl_seconds: float | None = None,
        stale_if_error_seconds: float | None = None,
        negative_ttl_seconds: float | None = None,
        local_ttl_seconds: float | None = None,
        tags: Sequence[str] = (),
        level: Level | None = None,
        refresh: Literal["now", "end"] = "now",
        wait_seconds: float | None = None,
        on_timeout: Literal["load", "raise"] = "load",
        packing: Packing = PLAIN,
    ) -> Result[T]:
        """Return the value of `key` with its source and its age, loading it where it is missing.

        Args:
            key: the cache key, shared by all jobs of the namespace.
            loader: called without arguments; returns the value, or `Loaded` to decide TTL and tags.
            ttl_seconds: hard TTL of both tiers. None is 300, 0 does not store.
            soft_ttl_seconds: age from which one caller of the fleet refreshes; None for never.
            stale_if_error_seconds: how long past its TTL a value may be served if the loader fails,
                or if nobody can say whether it is still good. None is not at all.
            negative_ttl_seconds: TTL of a value that is None; None is `ttl_seconds`.
            local_ttl_seconds: shorter life in this container; None is as long as the shared one.
            tags: what invalidates the value beside its key.
            level: how sure the caller wants to be (see the module); None is `per_invocation`.
            refresh: whether the caller who finds a value due refreshes it now, or serves it and
                refreshes it at the end of the invocation, if the time allows.
            wait_seconds: bound of the wait for another holder; None is half the remaining time.
            on_timeout: at that bound, load without the lease, or raise.
            packing: codec, fingerprint, compression and limits.

        Raises:
            KeyInvalid: the key or a tag is no text that can be used.
            SettingInvalid: a TTL is negative, or a word is none of those above.
            LoadTimeout: the bound was reached and `on_timeout` is `raise`, or too many loads run
                while the shared cache is away.
            Exception: whatever the loader raised, where no stale value may be served.
        """
        call = call_of(
            key,
            loader,
            ttl_seconds=ttl_seconds,
            soft_ttl_seconds=soft_ttl_seconds,
            stale_if_error_seconds=stale_if_error_seconds,
            negative_ttl_seconds=negative_ttl_seconds,
            local_ttl_seconds=local_ttl_seconds,
            tags=tags,
            level=level,
            refresh=refresh,
            wait_seconds=wait_seconds,
            on_timeout=on_timeout,
            packing=packing,
        )
        return self._flying.look_up(call)

    async def get_or_load_async(
        self,
        key: str,
        loader: Callable[[], Awaitable[T]],
        *,
        level: Level | None = None,
        **options: Any,  # Any: the options of `look_up`, which checks them
    ) -> T:
        """Return the value of `key` as `get_or_load` does, without holding up the event loop.

        The load is nobody's but its own: a caller that is cancelled or out of time leaves, and the
        others get the value. `refresh` is always `now`.
        """
        found = self._hit(key, level)
        if found is not MISSING:
            return cast("T", found)
        return (await self.look_up_async(key, loader, level=level, **options)).value

    async def look_up_async(
        self,
        key: str,
        loader: Callable[[], Awaitable[T]],
        **options: Any,  # Any: the options of `look_up`, which checks them
    ) -> Result[T]:
        """Return the value of `key` as `get_or_load_async` does, with its source and its age."""
        call = call_of(key, loader, **options)._replace(refresh="now")
        return await self._flying.look_up_async(call)

    def get_or_load_many(
        self,
        keys: Iterable[str],
        loader: Callable[[list[str]], Mapping[str, T]],
        *,
        level: Level | None = None,
        **options: Any,  # Any: the options of `look_up`, which checks them
    ) -> dict[str, T]:
        """Return the values of `keys`; the loader is called once with all that are missing.

        One flush claims them, one fills them. Keys that another caller computes are waited for. A
        key that the loader leaves out is left out here too, and not stored.
        """
        wanted = texts_of("key", keys)
        alone = partial(partial, loaded_alone, loader)
        calls = {key: call_of(key, alone(key), level=level, **options) for key in wanted}
        found: dict[str, Any] = {}  # Any: whatever the caller caches
        for key in wanted:
            value = self._hit(key, level)
            if value is not MISSING:
                found[key] = value
        missing = [call for key, call in calls.items() if key not in found]
        waiting = self._flying.load_many(missing, loader, found)
        until = self._flying.until(calls[waiting[0]]) if waiting else None  # one for all of them
        for key in waiting:
            try:
                found[key] = self._flying.look_up(calls[key], until=until).value
            except LeftOut:
                continue
        return {key: found[key] for key in wanted if key in found}

    # Get, set, invalidate, explain.

    def get(
        self,
        key: str,
        default: Any = None,  # Any: stands in for whatever is cached
        *,
        level: Level | None = None,
        packing: Packing = PLAIN,
    ) -> Any:  # Any: whatever is cached
        """Return the value of `key` from either tier, or `default`; nothing is loaded."""
        if level is None and packing is PLAIN and self._follows():
            found = self._short.get(key)
            if found is not Way.LONG:
                return default if found is MISSING else found
        return self.get_many([key], level=level, packing=packing).get(key, default)

    def _current(self, key: str, taken: Taken) -> object:
        """Return a value that carries tags if it is fresh by them, else MISSING."""
        found = self._driver.drive(current(self._tiers, {key: taken}))
        return found[key].value if key in found else MISSING

    def get_many(
        self,
        keys: Iterable[str],
        *,
        level: Level | None = None,
        packing: Packing = PLAIN,
    ) -> dict[str, Any]:  # Any: whatever is cached
        """Return the values that either tier has, in one flush; what is missing is left out."""
        calls = [
            call_of(key, _no_loader, level=level, packing=packing) for key in texts_of("key", keys)
        ]
        steps = Reading(self._tiers, calls, due=self._is_due()).steps()
        return {key: result.value for key, result in self._driver.drive(steps).items()}

    def set(
        self,
        key: str,
        value: object,
        *,
        ttl_seconds: float | None = None,
        **options: Any,  # Any: the options of `look_up`, which checks them
    ) -> bool:
        """Store `value` in both tiers; True if it is stored there, and everybody sees it.

        A load under way that began before is refused. Where one does not end within the bound of
        the wait, or the value cannot be stored (size, codec, a TTL of 0), the answer is False, and
        the older value is gone all the same.

        Raises:
            SharedUnavailable: the shared tier did not answer; what it holds is not known.
        """
        call = call_of(key, _no_loader, ttl_seconds=ttl_seconds, **options)
        loading = self._flights.inside(call.scoped)
        try:
            return self._driver.drive(set_value(self._tiers, call, value, patient=not loading))
        finally:
            self._flights.part([call.scoped])

    def invalidate(
        self, keys: Iterable[str] = (), *, tags: Iterable[str] = (), job: str = CACHE_NAME
    ) -> None:
        """Drop keys, and every value that carries one of `tags`, in every container.

        Values whose load is under way are not stored. This container sees it at once, others at
        the beginning of their next invocation, or at their next `strict` read.

        Args:
            keys: cache keys, or with `job` the keys of that job's values.
            tags: tags of values of either kind.
            job: name of a job.

        Raises:
            SharedUnavailable: the shared cache did not take it within the time; do it again.
        """
        scoped, fallen = [(job, key) for key in texts_of("key", keys)], tags_of(tags)
        try:
            self._driver.drive(invalidate(self._tiers, scoped, fallen))
        finally:  # not before: what begins meanwhile may still find what is about to fall
            self._flights.part(None if fallen else map("/".join, scoped))

    def explain(self, key: str, *, packing: Packing = PLAIN, job: str = CACHE_NAME) -> Explanation:
        """Return what both tiers hold of `key` and who computes it; nothing is changed.

        Args:
            key: a cache key, or with `job` a key of that job's values.
            packing: how the value was packed; another one shows as unreadable.
            job: name of a job.
        """
        call = call_of(key, _no_loader, packing=packing)._replace(scoped=f"{job}/{key}")
        return self._driver.drive(explain(self._tiers, call))

    def is_over(self, seconds: float) -> bool:
        """Tell whether these tiers stood for a moment outside of any invocation, which is over."""
        return self._outside and self._tiers.invocation.elapsed_seconds() > seconds

    def end(self) -> None:
        """End the invocation: run the postponed refreshes that its time allows, tell the hits."""
        self._refreshes.run(self._tiers, self._driver, self._flights)
        hits, self._hits = self._hits + self._quick.take(), 0
        if hits:
            self._tiers.emit(events.CacheRead(source="local", name=CACHE_NAME, count=hits))

    # One key, in this process.

    _short: SharedHits  # there once hits are answered

    def _is_due(self) -> bool:
        """Tell whether the log's tail was not read since this invocation began."""
        return self._tiers.coherence.applied <= self._glances

    def _follows(self) -> bool:
        """Tell whether the local tier is as new as the invocation; if so, hits are answered."""
        if self._due:
            if self._is_due():
                return False
            # Not before somebody asks: many a batch reads no key.
            self._short = SharedHits(
                self._tiers,
                self._shared,
                self._flights,
                go_on=self._flying.go_on,
                current=self._current,
            )
            self._quick.open(self._short.get_or_load)
            self._due = False  # the last: another thread goes by it
        return True

    def _hit(self, key: str, level: Level | None) -> object:
        """Return what is local and fresh, where the level needs no question, else MISSING."""
        if level not in (None, "per_invocation") or type(key) is not str or not self._follows():
            return MISSING
        found = self._local.fresh(PLAIN_PREFIX + key)
        if found is not MISSING:
            self._hits += 1
        return found


def _no_loader() -> None:
    raise LoadTimeout("(no loader)", 0.0)
