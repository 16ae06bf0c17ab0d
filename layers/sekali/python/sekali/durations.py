"""Remember how long jobs take, for whoever has to know whether the time left is enough."""

from __future__ import annotations


class Durations:
    """Remember how long each job takes, as a mean that forgets slowly, in seconds."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        """Take one measured run in."""
        known = self._seconds.get(name, seconds)
        self._seconds[name] = known + 0.2 * (seconds - known)

    def known(self) -> dict[str, float]:
        """Return the mean run of every job that was measured, in seconds."""
        return dict(self._seconds)

    def expected(self, name: str) -> float:
        """Return the seconds a run of `name` is expected to take; 0 where none was measured."""
        return self._seconds.get(name, 0.0)
