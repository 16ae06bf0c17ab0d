"""Let one caller of this process compute a key while the others wait for it.

One table serves threads and coroutines alike. Whoever joins a key first leads; the others wait,
each as long as it likes:

    t=0.0   A joins and leads          its load runs, and is nobody's but the flight's
    t=0.1   B and C join and wait      B for 1 s, C for 30 s
    t=1.1   B's time is over           B leaves; A and C do not notice
    t=2.0   the load ends              C gets the value; the table is empty
            the load fails             C gets the error, and so does nobody who comes later
            A is cancelled or killed   C is told that nobody leads, and joins again

A flight whose result may be older than what a caller has to have seen is waited for and not
believed, by the numbers that both drew; and who has set or invalidated a key here lets nobody join
the flight under way (`part`).

A caller that comes back for a key which its own loader is computing is told so by `inside`, and
computes through instead of waiting for itself. Two callers that each wait for what the other one
computes part at the bound of their waits.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

T = TypeVar("T")

# By table and key: a process may hold several containers, as tests do.
LOADING: ContextVar[frozenset[tuple[int, str]]] = ContextVar("sekali_loading", default=frozenset())
"""The loads that the caller runs inside of."""


class Abandoned(Exception):
    """Tell waiters that the leader left without a result: join again. Never leaves the tiers."""


class LeftOut(Abandoned):
    """Tell that a loader of many has no value of a key. Who waits for one has another loader."""


class Flight(Generic[T]):
    """One key on its way: a result that is not there yet.

    Most flights carry their leader only, so the future is made when somebody comes to wait.
    """

    __slots__ = ("future", "loop", "seen")

    def __init__(self, number: int) -> None:
        self.seen: int = number
        """What fell before this number was drawn is not in the result: the flight's own, unless the
        leader was content with less."""
        self.future: Future[T] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the load runs on, if it does: whoever blocks that cannot wait."""

    def is_left_behind(self) -> bool:
        """Tell whether the load can never end, because its loop is closed."""
        return self.loop is not None and self.loop.is_closed()

    def wait(self, seconds: float) -> T:
        """Return the leader's result, for somebody who joined and does not lead.

        Raises:
            TimeoutError: it is not there in time.
            Abandoned: there will be none.
            Exception: the leader's own.
        """
        future = self.awaited()
        try:
            return future.result(timeout=max(seconds, 0.0))
        except TimeoutError:
            if future.done():  # the leader's own error may be of this class
                return future.result()
            raise

    def awaited(self) -> Future[T]:
        """Return what the leader fills at the end.

        The first call is made before the load begins, or by `join`, under its lock: what lands
        finds the future of everybody who waits.
        """
        if self.future is None:
            self.future = Future()
        return self.future


class Flights(Generic[T]):
    """The table: one flight per key that somebody leads."""

    def __init__(self) -> None:
        """Start with nobody in flight."""
        self._guard = threading.Lock()
        self._flights: dict[str, Flight[T]] = {}
        self.draw: Callable[[], int] = count(1).__next__
        """Return the next number: flights, invocations and strict calls draw one as they begin."""

    def __len__(self) -> int:
        """Return the number of keys in flight; 0 when nobody leads or waits."""
        return len(self._flights)

    def join(self, key: str) -> tuple[Flight[T], bool]:
        """Return the flight of `key`, and whether the caller leads it and must end it."""
        with self._guard:
            flight = self._flights.get(key)
            if flight is not None and not flight.is_left_behind():
                flight.awaited()
                return flight, False
            mine = self._flights[key] = Flight(self.draw())
        if flight is not None:  # whoever waits for what was left behind joins again
            self.fail(key, flight, Abandoned())
        return mine, True

    def part(self, keys: Iterable[str] | None = None) -> None:
        """Let nobody join the flights of `keys` that are under way; they go on.

        None is every key: which tags a value will carry, only its loader knows.
        """
        with self._guard:
            if keys is None:
                self._flights.clear()
            else:
                for key in keys:
                    self._flights.pop(key, None)

    def land(self, key: str, flight: Flight[T], result: T) -> None:
        """End a flight with its result."""
        waiting = self.close(key, flight)
        if waiting is not None:
            waiting.set_result(result)

    def fail(self, key: str, flight: Flight[T], error: BaseException) -> None:
        """End a flight without: with the load's error, or, where the leader left, without one."""
        waiting = self.close(key, flight)
        if waiting is None or waiting.done():  # it was left behind, and its coroutine thrown away
            return
        shared = error if isinstance(error, Exception) else Abandoned()
        waiting.set_exception(shared)
        # Nobody may wait for it, and an unheard error is no warning.
        waiting.exception()

    def close(self, key: str, flight: Flight[T]) -> Future[T] | None:
        """Let nobody join a flight any more; return what those who did wait for, if any did."""
        with self._guard:
            if self._flights.get(key) is flight:
                del self._flights[key]
        return flight.future

    def inside(self, key: str) -> bool:
        """Tell whether the caller runs inside the load of `key`."""
        return (id(self), key) in LOADING.get()

    def loading(self, *keys: str) -> Inside:
        """Mark the block, and whatever it starts with its context, as the load of `keys`."""
        own = id(self)
        return Inside({(own, key) for key in keys})


class Inside:
    """The block in which keys are loaded. It is entered once."""

    __slots__ = ("_keys", "_token")

    def __init__(self, keys: set[tuple[int, str]]) -> None:
        self._keys = keys

    def __enter__(self) -> None:
        self._token = LOADING.set(LOADING.get() | self._keys)

    def __exit__(self, *_: object) -> None:
        LOADING.reset(self._token)


class Gate:
    """Let a bounded number of loads run at once: what stands between an outage and the database."""

    def __init__(self, most: int) -> None:
        """Take the bound."""
        self.most = most
        self._free = threading.Semaphore(most)

    def enter(self, wait_seconds: float) -> bool:
        """Take a place, waiting for it; False if there was none in time."""
        return self._free.acquire(timeout=max(wait_seconds, 0.0))

    def leave(self) -> None:
        """Give the place back."""
        self._free.release()
