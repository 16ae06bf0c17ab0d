"""Help tests of programs that use this library."""

from __future__ import annotations

from sekali.testing.store import MemoryStore

__all__ = ["FrozenClock", "MemoryStore"]


class FrozenClock:
    """Be a clock that moves only when told.

    Moving both clocks is time passing; moving the wall clock alone is a frozen container or a step.

    ```python
    clock = FrozenClock()
    clock.advance(wall=600.0, monotonic=0.0)      # frozen for ten minutes
    clock.advance(wall=-5.0, monotonic=0.0)       # the wall clock was set back
    clock.sleep(1.5)                              # a second and a half pass
    ```
    """

    def __init__(self, *, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        """Start at the given readings, in seconds."""
        self._wall = wall
        self._monotonic = monotonic

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
        self._wall += wall
        self._monotonic += monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.advance(wall=seconds, monotonic=seconds)
