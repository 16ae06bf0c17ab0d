"""What a run brings, kept up to a limit: a stack that is left to run for days stays small.

A run that is judged by what was seen of it needs all of that, so a history that was cut is never
handed out as if it were whole.
"""

import threading
from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ENOUGH: Final = 200_000
"""More than any test brings; a line of a log takes about a kilobyte."""
LEFT_ALONE: Final = 20_000
"""What is kept of a stack that nobody will judge."""


class HistoryCut(RuntimeError):
    """What was asked for is not whole any more: `dropped` came before the newest `limit`.

    Raised to whoever reads a history; who needs it whole makes the stack with a larger limit.
    """

    def __init__(self, what: str, *, limit: int, dropped: int) -> None:
        self.what = what
        self.limit = limit
        self.dropped = dropped
        super().__init__(f"only the newest {limit} {what} were kept; {dropped} came before")


class Kept(Generic[T]):
    """The newest of many things, in their order; safe to use from any thread.

    Args:
        what: What they are, for people.
        limit: How many are kept.
    """

    def __init__(self, what: str, *, limit: int = ENOUGH) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._newest: deque[T] = deque(maxlen=limit)
        self._added = 0

    def add(self, item: T) -> None:
        """Keep one more; at the limit the oldest goes."""
        with self._lock:
            self._newest.append(item)
            self._added += 1

    def limit(self, limit: int) -> None:
        """Keep so many from now on."""
        with self._lock:
            self._newest = deque(self._newest, maxlen=limit)

    def __len__(self) -> int:
        """Answer how many are kept now."""
        with self._lock:
            return len(self._newest)

    def all(self) -> list[T]:
        """Answer everything so far, oldest first.

        Raises:
            HistoryCut: There was more than the limit.
        """
        with self._lock:
            dropped = self._added - len(self._newest)
            if dropped:
                raise HistoryCut(self._what, limit=len(self._newest), dropped=dropped)
            return list(self._newest)
