"""How often the local tier hits, beside plain LRU, SIEVE, its peers and the optimum."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import cachebox
import cachetools

from sekali.clock import SystemClock
from sekali.entries import MISSING
from sekali.local import Local
from tests.benchmarks.eviction import Clock, Lru, Sieve, optimum, ratio, with_scans, zipf
from tests.benchmarks.harness import Row, Sample, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.eviction import Cache

SIZE = 1_000
KEYS = 10_000
READS = 60_000
# Of what plain LRU reaches: surviving scans may cost nothing where there are none.
LEAST_OF_LRU = 1.0


class _Local:
    """The local tier as it is built."""

    def __init__(self, size: int) -> None:
        self._local = Local(max_entries=size, max_bytes=sys.maxsize, clock=SystemClock())

    def hit(self, key: int) -> bool:
        name = str(key)
        if self._local.get(name) is not MISSING:
            return True
        self._local.put(name, key, ttl_seconds=900)
        return False


class _Mapping:
    """A peer that behaves like a dictionary."""

    def __init__(self, cache: Any) -> None:  # Any: each peer's own
        self._cache = cache

    def hit(self, key: int) -> bool:
        if self._cache.get(key) is not None:
            return True
        self._cache[key] = True
        return False


CACHES: dict[str, Callable[[int], Cache]] = {
    "sekali": _Local,
    "plain LRU": Lru,
    "CLOCK (second chance)": Clock,
    "SIEVE, without bytes and time": Sieve,
    "cachetools.TTLCache": lambda size: _Mapping(cachetools.TTLCache(size, 900)),
    "cachebox.TTLCache": lambda size: _Mapping(cachebox.TTLCache(size, 900)),
    "cachebox.LRUCache": lambda size: _Mapping(cachebox.LRUCache(size)),
}


@benchmark("cache: hit ratio")
def hit_ratio() -> Iterator[Row]:
    """Read the same keys through each cache, a tenth of them at a time in room."""
    reads = zipf(keys=KEYS, reads=READS, skew=0.9, seed=7)
    scanned = list(with_scans(reads, every=3_000, length=1_000, first=KEYS))
    for trace, keys in (("Zipf 0.9", reads), ("Zipf 0.9 with scans", scanned)):
        best = Sample.exactly(100 * optimum(keys, SIZE))
        ratios = {name: 100 * ratio(make(SIZE), keys) for name, make in CACHES.items()}
        for name, value in ratios.items():
            own = name.startswith("sekali")
            yield Row(
                f"{trace}: {name}",
                Sample.exactly(value),
                "% hits",
                peer="the optimum",
                peer_value=best,
            )
            if own:
                lru = ratios["plain LRU"]
                yield Row(
                    f"{trace}: plain LRU over sekali",
                    Sample.exactly(lru),
                    "% hits",
                    peer="sekali",
                    peer_value=Sample.exactly(value),
                    ratio_at_most=1 / LEAST_OF_LRU,
                )


@benchmark("cache: candidates for the local tier")
def candidates() -> Iterator[Row]:
    """Say what cachebox and cachetools do with a frozen clock, bounds in bytes and aliasing."""
    for name, make in (
        ("cachebox", lambda: cachebox.TTLCache(10, 60)),
        ("cachetools", lambda: cachetools.TTLCache(10, 60)),
    ):
        cache: Any = make()  # Any: each peer's own
        cache["k"] = value = [1]
        value.append(2)
        yield Row(
            f"{name}: a change by the one who put it is seen by the others",
            Sample.exactly(cache["k"] == [1, 2]),
            "(1: yes)",
        )
    frozen = cachetools.TTLCache[str, str](10, 60, timer=time.monotonic)
    frozen["k"] = "v"
    yield Row(
        "cachetools: clocks that decide a TTL",
        Sample.exactly(1),
        "(one timer; sekali compares two)",
    )
