"""Servers that take one request after the other: processor cores, cache shards.

A queue with a fixed order and known service times needs no events of its own: when a request comes,
the end of its service is known. That is what makes 10,000 containers affordable.
"""

from __future__ import annotations

import heapq


class Servers:
    """Some servers with one line in front of them, first come, first served."""

    def __init__(self, count: int) -> None:
        """Let all of them be free at second 0."""
        self._free_at = [0.0] * count
        self.busy_seconds = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """Return when a request that comes now, and takes so long, is done."""
        done = max(now, heapq.heappop(self._free_at)) + seconds
        heapq.heappush(self._free_at, done)
        self.busy_seconds += seconds
        return done


class Unlimited:
    """A server for everybody: each container of Lambda has a processor of its own."""

    def __init__(self) -> None:
        """Count what is served."""
        self.busy_seconds = 0.0

    def serve(self, now: float, seconds: float) -> float:
        """Return when a request that comes now is done: nobody is before it."""
        self.busy_seconds += seconds
        return now + seconds
