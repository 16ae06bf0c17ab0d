"""A loader that counts, takes its time, and fails when told."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FakeLoader:
    """Return `values` in turn, the last one for ever. Safe to call from several threads.

    ```python
    load = FakeLoader("old", "new")                 # "old", then "new" at every later call
    slow = FakeLoader("v", seconds=0.2)             # takes its time
    broken = FakeLoader(OSError("no route"), "v")   # what is an exception is raised
    racing = FakeLoader("v", during=lambda: cache.invalidate(["k"]))
    ```

    `calls` counts the calls, `most_at_once` how many of them ran at the same time.
    """

    def __init__(
        self,
        *values: Any,  # Any: whatever is cached
        seconds: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
        during: Callable[[], object] = lambda: None,
    ) -> None:
        """Take the values, and what a call does before it returns one: `during`, then sleeping."""
        if not values:
            message = "a loader needs a value or an exception"
            raise ValueError(message)
        self._values: Sequence[Any] = values
        self._seconds = seconds
        self._sleep = sleep
        self._during = during
        self._lock = threading.Lock()
        self._running = 0
        self.calls: int = 0
        self.most_at_once: int = 0

    def __call__(self) -> Any:  # Any: whatever is cached
        """Load once."""
        with self._lock:
            value = self._values[min(self.calls, len(self._values) - 1)]
            self.calls += 1
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        try:
            self._during()
            if self._seconds:
                self._sleep(self._seconds)
            if isinstance(value, BaseException):
                raise value
            return value
        finally:
            with self._lock:
                self._running -= 1
