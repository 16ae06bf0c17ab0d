"""Add up the measures of one invocation, job by job, for whoever writes them at its end."""

from __future__ import annotations

import threading
from dataclasses import field
from typing import TYPE_CHECKING

from sekali.light_dataclass import dataclass
from sekali.telemetry.measures import METRICS, MILLISECONDS

if TYPE_CHECKING:
    from sekali.telemetry.measures import Measures


@dataclass(slots=True)
class Sheet:
    """What was measured of one job: counts and levels added up, times value by value."""

    counts: dict[str, float] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)


class Sums:
    """Take measures from any thread; hand the sheets over once.

    Two threads that add to one count at once would lose one of them, so there is a lock. It is held
    for no longer than that.
    """

    def __init__(self) -> None:
        """Start with nothing measured."""
        self._lock = threading.Lock()
        self._sheets: dict[str, Sheet] = {}

    def add(self, job: str, measures: Measures) -> None:
        """Add measures of a job; those of the service alone are kept under the empty name."""
        with self._lock:
            for name, unit, value in measures:
                owner = job if METRICS[name].of == "job" else ""
                sheet = self._sheets.get(owner)
                if sheet is None:
                    sheet = self._sheets[owner] = Sheet()
                if unit == MILLISECONDS:
                    sheet.times.setdefault(name, []).append(value)
                else:
                    sheet.counts[name] = sheet.counts.get(name, 0) + value

    def take(self) -> dict[str, Sheet]:
        """Return the sheets by job, and begin anew."""
        with self._lock:
            sheets, self._sheets = self._sheets, {}
        return sheets
