"""Ways to evict, as small as they can be written, to hold the local tier's own beside."""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Cache(Protocol):
    """Be asked for a key; it is there afterwards."""

    def hit(self, key: int) -> bool:
        """Tell whether the key was there, and put it there."""
        ...


class Lru:
    """Evict what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._keys: OrderedDict[int, None] = OrderedDict()

    def hit(self, key: int) -> bool:
        """Move it to the young end."""
        found = key in self._keys
        if found:
            self._keys.move_to_end(key)
        else:
            if len(self._keys) >= self._size:
                self._keys.popitem(last=False)
            self._keys[key] = None
        return found


class Clock:
    """Give what was used since it was last looked at a second chance (Corbató, 1968)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._keys: OrderedDict[int, bool] = OrderedDict()

    def hit(self, key: int) -> bool:
        """Mark it; nothing moves before room is needed."""
        if key in self._keys:
            self._keys[key] = True
            return True
        while len(self._keys) >= self._size:
            oldest, visited = self._keys.popitem(last=False)
            if visited:
                self._keys[oldest] = False
        self._keys[key] = False
        return False


class _Node:
    __slots__ = ("key", "newer", "older", "visited")

    def __init__(self, key: int) -> None:
        self.key = key
        self.visited = False
        self.newer: _Node | None = None
        self.older: _Node | None = None


class Sieve:
    """Evict with a hand that stays where it was (Zhang et al., SIEVE, NSDI 2024)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._nodes: dict[int, _Node] = {}
        self._newest: _Node | None = None
        self._oldest: _Node | None = None
        self._hand: _Node | None = None

    def hit(self, key: int) -> bool:
        """Mark it; nothing moves."""
        node = self._nodes.get(key)
        if node is not None:
            node.visited = True
            return True
        if len(self._nodes) >= self._size:
            self._evict()
        node = self._nodes[key] = _Node(key)
        node.older = self._newest
        if self._newest is not None:
            self._newest.newer = node
        self._newest = node
        self._oldest = self._oldest or node
        return False

    def _evict(self) -> None:
        hand = self._hand or self._oldest
        while hand is not None and hand.visited:
            hand.visited = False
            hand = hand.newer or self._oldest
        if hand is None:
            return
        self._hand = hand.newer
        if hand.older is not None:
            hand.older.newer = hand.newer
        else:
            self._oldest = hand.newer
        if hand.newer is not None:
            hand.newer.older = hand.older
        else:
            self._newest = hand.older
        del self._nodes[hand.key]


def optimum(keys: Sequence[int], size: int) -> float:
    """Return the hit ratio of whoever knows the future (Belady, 1966)."""
    following = [len(keys)] * len(keys)
    last: dict[int, int] = {}
    for at in range(len(keys) - 1, -1, -1):
        following[at] = last.get(keys[at], len(keys))
        last[keys[at]] = at
    held: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    hits = 0
    for at, key in enumerate(keys):
        hits += key in held
        if key not in held and len(held) >= size:
            while True:
                negative, candidate = heappop(heap)
                if held.get(candidate) == -negative:
                    del held[candidate]
                    break
        held[key] = following[at]
        heappush(heap, (-following[at], key))
        if len(heap) > 20 * size:
            heap = [(-when, one) for one, when in held.items()]
            heapify(heap)
    return hits / len(keys)


def zipf(*, keys: int, reads: int, skew: float, seed: int) -> list[int]:
    """Return reads of `keys` keys whose popularity falls with their rank to the power of `skew`."""
    chance = random.Random(seed)
    weights = list(itertools.accumulate(1 / (rank + 1) ** skew for rank in range(keys)))
    return [bisect(weights, chance.random() * weights[-1]) for _ in range(reads)]


def with_scans(reads: Sequence[int], *, every: int, length: int, first: int) -> Iterator[int]:
    """Yield the reads, and after `every` of them a scan of `length` keys that nobody asks again."""
    cold = itertools.count(first)
    for at, key in enumerate(reads, 1):
        yield key
        if at % every == 0:
            yield from itertools.islice(cold, length)


def ratio(cache: Cache, keys: Sequence[int]) -> float:
    """Return the part of the reads that hit."""
    return sum(cache.hit(key) for key in keys) / len(keys)
