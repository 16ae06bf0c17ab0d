"""The values of one metric in one slot of time, and CloudWatch's statistics over them."""

import math
import re
from collections.abc import Iterable
from typing import Final, Self

_PERCENTILE: Final = re.compile(r"[pP](100|[0-9]{1,2}(?:\.[0-9]{1,10})?)")
_TRIMMED: Final = re.compile(r"(?:tm|TM)(100|[0-9]{1,2}(?:\.[0-9]{1,10})?)")
_SIMPLE: Final = frozenset({"Average", "Maximum", "Minimum", "SampleCount", "Sum"})
_SHORT: Final = {
    "avg": "Average",
    "max": "Maximum",
    "min": "Minimum",
    "n": "SampleCount",
    "sum": "Sum",
}
# Past this many different values they are rounded to three digits, as few lose sight of them.
_DISTINCT: Final = 512
_DIGITS: Final = 3


class StatisticUnknown(ValueError):
    """A statistic that CloudWatch, or this copy of it, does not have; `name` is it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the statistic {name!r} is not known")


class Samples:
    """Values with how often each was seen."""

    __slots__ = ("_values", "count", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self.count = 0.0
        self.total = 0.0
        self.minimum = math.inf
        self.maximum = -math.inf
        self._values: dict[float, float] = {}

    def add(self, value: float, count: float = 1.0) -> None:
        """Take in a value that was seen `count` times."""
        if count <= 0:
            return
        self.count += count
        self.total += value * count
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)
        if len(self._values) >= _DISTINCT:
            value = float(f"{value:.{_DIGITS}g}")
        self._values[value] = self._values.get(value, 0.0) + count

    def add_summary(self, *, count: float, total: float, minimum: float, maximum: float) -> None:
        """Take in values of which only a statistic set is known; percentiles see their mean."""
        if count <= 0:
            return
        self.count += count
        self.total += total
        self.minimum = min(self.minimum, minimum)
        self.maximum = max(self.maximum, maximum)
        mean = total / count
        self._values[mean] = self._values.get(mean, 0.0) + count

    @classmethod
    def of(cls, parts: Iterable["Samples"]) -> Self:
        """Put slots together."""
        whole = cls()
        for part in parts:
            whole.count += part.count
            whole.total += part.total
            whole.minimum = min(whole.minimum, part.minimum)
            whole.maximum = max(whole.maximum, part.maximum)
            for value, count in part._values.items():  # noqa: SLF001 - one of our own kind
                whole._values[value] = whole._values.get(value, 0.0) + count
        return whole

    def statistic(self, name: str) -> float:
        """Compute a statistic of at least one value.

        Raises:
            StatisticUnknown: `name` is none of Sum, Average, Minimum, Maximum, SampleCount, pNN
                and tmNN.
        """
        name = _SHORT.get(name, name)
        if name in _SIMPLE:
            return {
                "Average": self.total / self.count,
                "Maximum": self.maximum,
                "Minimum": self.minimum,
                "SampleCount": self.count,
                "Sum": self.total,
            }[name]
        if (found := _PERCENTILE.fullmatch(name)) is not None:
            return self._percentile(float(found[1]) / 100)
        if (found := _TRIMMED.fullmatch(name)) is not None:
            return self._trimmed_mean(float(found[1]) / 100)
        raise StatisticUnknown(name)

    def _percentile(self, share: float) -> float:
        """Answer the smallest value that at least `share` of all do not exceed."""
        rank, seen = max(share * self.count, 1e-9), 0.0
        for value in sorted(self._values):
            seen += self._values[value]
            if seen >= rank - 1e-9:
                return value
        return self.maximum

    def _trimmed_mean(self, share: float) -> float:
        """Answer the mean of the lowest `share` of the values."""
        left = wanted = max(share * self.count, min(1.0, self.count))
        total = 0.0
        for value in sorted(self._values):
            taken = min(left, self._values[value])
            total += value * taken
            left -= taken
            if left <= 0:
                break
        return total / wanted


def percentile_of(statistic: str) -> float | None:
    """Answer the share (0 to 1) of a percentile statistic, None for another one."""
    found = _PERCENTILE.fullmatch(statistic)
    return None if found is None else float(found[1]) / 100
