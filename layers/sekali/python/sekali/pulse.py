"""Call what is due, on one thread that a container keeps.

A thread per invocation costs every quick batch two changes of threads, at its start and at its end,
for beats that never come: the first is due after seconds. So there is one thread, it sleeps through
quick invocations, and nobody wakes it unless something is due before it would look anyway:

    t=0.00  first invocation: due at 4; the thread starts and sleeps until 4
    t=0.05  it ends: nothing is due any more, the thread sleeps on
    t=0.10  the next one: due at 4.1, after the thread looks, so it is left alone
    t=4.00  the thread looks: due at 4.1, it sleeps on
    t=4.10  a beat
    t=8.10  nobody is there; at t=13.1 neither: the thread ends, the next invocation starts another
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Beat = Callable[[], float]

_log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 5.0
"""How long the thread stays while nobody needs it."""


class Pulse:
    """Call beats when they are due, one after the other. Connects to nothing, starts when used."""

    def __init__(self, name: str = "sekali-heartbeat") -> None:
        """Name the thread, and start none yet."""
        self._name = name
        lock = threading.Lock()
        self._woken, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._lock = lock
        self._due: dict[Beat, float] = {}
        self._beating: Beat | None = None
        self._looks_at = math.inf
        self._closed = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of beats that are called."""
        return len(self._due)

    def add(self, beat: Beat, *, after_seconds: float) -> None:
        """Call `beat` after so many seconds, and again after as many as it returns (inf: never)."""
        due = time.monotonic() + after_seconds
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()  # looks at nothing before this lock is free
                self._thread = thread
            elif due < self._looks_at:
                self._woken.notify()
            self._due[beat] = due

    def remove(self, beat: Beat) -> None:
        """Call `beat` no more; one that is under way is waited for."""
        with self._lock:
            self._due.pop(beat, None)
            while self._beating == beat and threading.current_thread() is not self._thread:
                self._ended.wait()

    def close(self) -> None:
        """End the thread. What is closed is not used again."""
        with self._lock:
            self._closed, thread = True, self._thread
            self._due.clear()
            self._woken.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while (beat := self._next()) is not None:
            pause_seconds = _called(beat)
            with self._lock:
                self._beating = None
                if beat in self._due:  # and not asked for sooner while it was under way
                    next_due = time.monotonic() + pause_seconds
                    self._due[beat] = min(self._due[beat], next_due)
                self._ended.notify_all()

    def _next(self) -> Beat | None:
        """Wait until something is due and return it; None when this is closed or long unused."""
        idle_since = time.monotonic()
        with self._lock:
            while not self._closed:
                now = time.monotonic()
                beat = min(self._due, key=self._due.__getitem__, default=None)
                if beat is not None:
                    self._looks_at, idle_since = self._due[beat], now
                elif now >= idle_since + IDLE_SECONDS:
                    break
                else:
                    self._looks_at = idle_since + IDLE_SECONDS
                if beat is not None and self._looks_at <= now:
                    self._beating, self._due[beat] = beat, math.inf
                    return beat
                self._woken.wait(min(self._looks_at - now, threading.TIMEOUT_MAX))
            self._thread = None
            return None


def _called(beat: Beat) -> float:
    try:
        return beat()
    except BaseException:  # noqa: BLE001
        # The edge of a thread that others share: what failed is told and not called again. Nobody
        # interrupts this thread; what would end it comes out of a hook, and others wait for it.
        _log.exception("%s: a call failed and is not repeated", threading.current_thread().name)
        return math.inf
