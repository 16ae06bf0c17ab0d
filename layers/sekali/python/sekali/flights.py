"""Let one thread of this process compute a key while the others wait for it.

Each key has a lock as long as somebody holds it or waits for it, and no longer: the table is empty
when nobody does. A thread that comes back for a key it already holds is told so, and computes
through instead of waiting for itself. Two threads that each hold what the other one wants part at
the bound of their wait.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class _Flight:
    lock: threading.Lock = field(default_factory=threading.Lock)
    owner: int | None = None
    users: int = 0


class Flights:
    """A table of locks, one per key in flight."""

    def __init__(self) -> None:
        """Start with nobody in flight."""
        self._guard = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def __len__(self) -> int:
        """Return the number of keys that somebody holds or waits for."""
        return len(self._flights)

    def entered(self, key: str) -> bool:
        """Tell whether the calling thread already holds `key`."""
        flight = self._flights.get(key)
        return flight is not None and flight.owner == threading.get_ident()

    @contextmanager
    def hold(self, key: str, *, wait_seconds: float) -> Iterator[bool]:
        """Hold `key` for the block; yields False, without it, after `wait_seconds`."""
        with self._guard:
            flight = self._flights.setdefault(key, _Flight())
            flight.users += 1
        held = flight.lock.acquire(timeout=max(wait_seconds, 0.0))
        try:
            if held:
                flight.owner = threading.get_ident()
            yield held
        finally:
            if held:
                flight.owner = None
                flight.lock.release()
            with self._guard:
                flight.users -= 1
                if flight.users == 0:
                    del self._flights[key]
