"""Measure side by side, hold the result against a budget, and show both.

::

    @benchmark("local hit")
    def local_hit() -> Iterator[Row]:
        ours, peer = interleaved([hit_of_sekali, hit_of_cachebox], rounds=20)
        yield Row("local hit", ours, "ns", peer="cachebox, decorated", peer_value=peer, at_most=350)

Absolute times belong to one machine at one moment; what is claimed are ratios. So whatever is
compared is measured in one run, in turns, and each turn begins with another one of them: a machine
that is slow for a second is slow for all.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold the measurements of one thing; it stands for their median."""

    values: tuple[float, ...]

    @classmethod
    def exactly(cls, value: float) -> Sample:
        """Return a sample of something that is counted, not timed."""
        return cls((value,))

    @property
    def median(self) -> float:
        """Return the middle of the measurements."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the first and the third quartile."""
        if len(self.values) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def most(self) -> float:
        """Return the greatest of the measurements."""
        return max(self.values)

    def times(self, factor: float) -> Sample:
        """Return the same in another unit."""
        return Sample(tuple(value * factor for value in self.values))


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one line of the table.

    A budget bounds the value (`at_most`) or the value over its peer's (`ratio_at_most`); a row may
    have neither and only tell.
    """

    name: str
    value: Sample
    unit: str
    peer: str = field(default="", kw_only=True)
    peer_value: Sample | None = field(default=None, kw_only=True)
    at_most: float | None = field(default=None, kw_only=True)
    ratio_at_most: float | None = field(default=None, kw_only=True)
    note: str = field(default="", kw_only=True)

    @property
    def ratio(self) -> float | None:
        """Return our median over the peer's; below 1 we are faster."""
        if self.peer_value is None or self.peer_value.median == 0:
            return None
        return self.value.median / self.peer_value.median

    @property
    def within(self) -> bool | None:
        """Tell whether every budget of the row is kept; None where it has none."""
        kept: list[bool] = []
        if self.at_most is not None:
            kept.append(self.value.median <= self.at_most)
        if self.ratio_at_most is not None:
            kept.append(self.ratio is not None and self.ratio <= self.ratio_at_most)
        return all(kept) if kept else None

    @property
    def budget(self) -> str:
        """Return the budget as a reader takes it in."""
        parts = []
        if self.at_most is not None:
            parts.append(f"≤ {_short(self.at_most)} {self.unit}")
        if self.ratio_at_most is not None:
            parts.append(f"≤ {self.ratio_at_most:.3g} × peer")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:  # Any: JSON
        """Return the fields of the report: these, and no others."""
        return {
            "name": self.name,
            "value": self.value.median,
            "unit": self.unit,
            "budget": self.budget or None,
            "within": self.within,
            "peer": self.peer or None,
            "peer_value": self.peer_value.median if self.peer_value else None,
            "ratio": self.ratio,
        }

    def details(self) -> dict[str, Any]:  # Any: JSON
        """Return what lies behind the row: quartiles, the greatest, and how often it was taken."""
        return {
            "name": self.name,
            "spread": self.value.spread,
            "most": self.value.most,
            "peer_spread": self.peer_value.spread if self.peer_value else None,
            "measurements": len(self.value.values),
            "note": self.note or None,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table, as text."""
        ratio = self.ratio
        within = {None: "", True: "yes", False: "**no**"}[self.within]
        return (
            self.name,
            f"{_spread(self.value)} {self.unit}",
            self.peer,
            _spread(self.peer_value) if self.peer_value else "",
            "" if ratio is None else f"{ratio:.3g}",
            self.budget,
            within,
        )


COLUMNS: Final = ("what", "value (quartiles)", "beside", "its value", "ratio", "budget", "within")

REGISTERED: Final[dict[str, Callable[[], Iterator[Row]]]] = {}


def benchmark(
    name: str,
) -> Callable[[Callable[[], Iterator[Row]]], Callable[[], Iterator[Row]]]:
    """Register the decorated generator of rows under `name`, which `--only` selects by."""

    def register(function: Callable[[], Iterator[Row]]) -> Callable[[], Iterator[Row]]:
        if name in REGISTERED:
            raise ValueError(f"two benchmarks are called {name}")
        REGISTERED[name] = function
        return function

    return register


def interleaved(
    contestants: Sequence[Callable[[], float | None]], *, rounds: int, warm_up: int = 1
) -> list[Sample]:
    """Measure each contestant once per round, in an order that turns, and return their samples.

    A contestant returns what it measured, or None to be timed from outside, in seconds. The garbage
    collector runs between the turns and not within.
    """
    values: list[list[float]] = [[] for _ in contestants]
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(-warm_up, rounds):
            for step in range(len(contestants)):
                index = (number + step) % len(contestants)
                gc.collect(0)
                value = _measured(contestants[index])
                if number >= 0:
                    values[index].append(value)
    finally:
        if was_enabled:
            gc.enable()
    return [Sample(tuple(one)) for one in values]


def repeated(call: Callable[[], object], *, times: int) -> Callable[[], float]:
    """Return a contestant that tells the seconds of one of `times` calls in a row."""

    def measure() -> float:
        clock = time.perf_counter
        began = clock()
        for _ in range(times):
            call()
        return (clock() - began) / times

    return measure


def prepared(
    call: Callable[[], object], *, before: Callable[[], object], times: int
) -> Callable[[], float]:
    """Return the same for calls that need something done before each, which is not counted."""

    def measure() -> float:
        clock, seconds = time.perf_counter, 0.0
        for _ in range(times):
            before()
            began = clock()
            call()
            seconds += clock() - began
        return seconds / times

    return measure


def _measured(contestant: Callable[[], float | None]) -> float:
    began = time.perf_counter()
    value = contestant()
    ended = time.perf_counter()
    return ended - began if value is None else value


def _spread(sample: Sample) -> str:
    low, high = sample.spread
    if len(sample.values) < 2 or low == high:
        return _short(sample.median)
    return f"{_short(sample.median)} ({_short(low)}–{_short(high)})"


def _short(number: float) -> str:
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number):,}"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"
