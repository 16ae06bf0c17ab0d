"""A clock that tests move: it freezes, steps and is restored, as those of a Lambda are."""

from __future__ import annotations

import threading


class FrozenClock:
    """Be a clock that moves only when told. Safe to use from several threads.

    Moving both clocks is time passing; moving the wall clock alone is a frozen container or a step.

    ```python
    clock = FrozenClock()
    clock.sleep(1.5)          # a second and a half pass, on both clocks
    clock.freeze(600)         # frozen for ten minutes: the monotonic clock stands still
    clock.step(-3600)         # the wall clock is set back by an hour
    clock.restore(86_400)     # a snapshot of a day ago comes back to life, on another host
    ```
    """

    def __init__(self, *, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        """Start at the given readings, in seconds."""
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()

    def wall(self) -> float:
        """Return the wall clock's reading."""
        return self._wall

    def monotonic(self) -> float:
        """Return the monotonic clock's reading."""
        return self._monotonic

    def advance(self, *, wall: float, monotonic: float) -> None:
        """Move each clock by its own number of seconds; only the wall clock may go back."""
        if monotonic < 0:
            message = f"monotonic must not be negative, got {monotonic!r}"
            raise ValueError(message)
        with self._lock:
            self._wall += wall
            self._monotonic += monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.advance(wall=seconds, monotonic=seconds)

    def freeze(self, seconds: float) -> None:
        """Let time pass while the container is frozen and its monotonic clock stands still."""
        self.advance(wall=seconds, monotonic=0.0)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back where `seconds` is negative; no time passes."""
        self.advance(wall=seconds, monotonic=0.0)

    def restore(self, seconds: float, *, monotonic: float = 5.0) -> None:
        """Come back from a snapshot of `seconds` ago, where the host's own clock says `monotonic`.

        The only thing that sets a monotonic clock back.
        """
        with self._lock:
            self._wall += seconds
            self._monotonic = monotonic
