"""Answer what is local and fresh in as few steps as the language has.

A hit is what a warm container does most, so this one function is written for its price and no other
is: all that it needs lies in the function's own cells, and nothing is looked up on `self`. Measured
as the README writes it, key and loader made anew (tests/benchmarks, "cache: local hit"):

    a hit                                        418 ns
    of it, the caller's key, loader and call     191 ns
    of it, the two clocks                         96 ns

It takes no lock (see `local`), and it checks nothing of the call but `level`: the other options
belong to the load, and are checked where one may follow.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from sekali.errors import ValueUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.clock import Clock
    from sekali.entries import Entry
    from sekali.lifetimes import Loaded
    from sekali.local import Local

    ShortWay = Callable[[str, Callable[[], Any], float | None, Mapping[str, Any]], object]
T = TypeVar("T")


class Way(Enum):
    """Say that a call has to go the long way; nothing was done for it yet."""

    LONG = "long"


class GetOrLoad(Protocol):
    """Return the value of `key`, computing it with `loader` where it is missing."""

    @overload
    def __call__(
        self,
        key: str,
        loader: Callable[[], Loaded[T]],
        *,
        ttl_seconds: float | None = None,
        **options: Any,  # Any: the options of `Tiered.look_up`, which checks them
    ) -> T: ...

    @overload
    def __call__(
        self,
        key: str,
        loader: Callable[[], T],
        *,
        ttl_seconds: float | None = None,
        **options: Any,  # Any: as above
    ) -> T: ...

    def __call__(
        self,
        key: str,
        loader: Callable[[], Any],  # Any: both of them
        *,
        ttl_seconds: float | None = None,
        **options: Any,  # Any: as above
    ) -> Any:  # Any: the value's type, as above
        """Take the way that there is."""
        ...


class Hits:
    """The quick way of one invocation; `otherwise` takes every call that is no plain hit."""

    __slots__ = ("get_or_load", "open", "take")

    get_or_load: GetOrLoad
    open: Callable[[ShortWay], None]
    """Let hits be answered: the local tier is known to be as new as the invocation.

    What is not local goes the short way through the shared tier, if that can be gone.
    """
    take: Callable[[], int]
    """Return the number of hits since the last time."""

    def __init__(self, local: Local, clock: Clock, otherwise: GetOrLoad) -> None:
        """Answer nothing before `open`."""
        entries: dict[str, Entry] = {}
        window, wall_clock, monotonic_clock = local.window, clock.wall, clock.monotonic
        short: ShortWay = _closed
        hits = 0.0  # a whole number; adding to one above 256 would make an object that is dearer

        def get_or_load(
            key: str,
            loader: Callable[[], Any],  # Any: as in GetOrLoad
            *,
            ttl_seconds: float | None = None,
            **options: Any,  # Any: as in GetOrLoad
        ) -> Any:  # Any: as in GetOrLoad
            nonlocal hits
            try:
                entry = entries[key]
            except (KeyError, TypeError):  # what is no text at all is refused further on
                pass
            else:
                # As `Local.fresh`, spelt out.
                wall = wall_clock()
                if (
                    wall < entry.fresh_wall
                    and window.least <= wall - monotonic_clock() <= window.most
                    and (not options or "level" not in options)
                ):
                    entry.visited = True
                    hits += 1.0
                    if entry.body is None:
                        return entry.value
                    try:
                        return entry.decode(entry.body)
                    except ValueUnreadable:  # of the codec: what it wrote it does not read
                        hits -= 1.0
            found = short(key, loader, ttl_seconds, options)
            if found is not Way.LONG:
                return found
            return otherwise(key, loader, ttl_seconds=ttl_seconds, **options)

        get_or_load.__qualname__ = "Tiered.get_or_load"

        def let(shared_hits: ShortWay) -> None:
            nonlocal entries, short
            entries, short = local.plain, shared_hits

        def take() -> int:
            nonlocal hits
            taken, hits = hits, 0.0
            return int(taken)

        self.get_or_load, self.open, self.take = get_or_load, let, take


def _closed(*_: object) -> object:
    """Send everybody the long way."""
    return Way.LONG
