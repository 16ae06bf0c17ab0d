"""Series over a grid of periods, and arithmetic between them as CloudWatch defines it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """Values by the time (CloudWatch's seconds) at which their period begins; gaps are missing."""

    values: Mapping[int, float]
    label: str = ""
    query: str = ""  # The id under which it was asked for.
    period: int = 0
    children: Sequence[str] = field(default=())

    def with_values(self, values: Mapping[int, float]) -> "TimeSeries":
        """Answer the same series with other values."""
        return replace(self, values=values)


Value = float | TimeSeries | list[TimeSeries]


class MathUndefined(ValueError):
    """An expression asks for something that metric math does not define; the text says what."""


def apply(function: Callable[[float], float | None], value: Value) -> Value:
    """Apply a function of one number to every data point; None drops the point."""
    if isinstance(value, list):
        return [_applied(function, series) for series in value]
    if isinstance(value, TimeSeries):
        return _applied(function, value)
    found = function(value)
    if found is None:
        raise MathUndefined("a scalar came to nothing")
    return found


def combine(operation: Callable[[float, float], float | None], left: Value, right: Value) -> Value:
    """Combine two values point by point.

    Where only one of two series has a value, the other counts as 0; where neither has, or the
    operation comes to nothing (a division by zero), there is no data point.
    """
    if isinstance(left, list) or isinstance(right, list):
        return _pairwise(operation, left, right)
    if isinstance(left, TimeSeries):
        other = right.values if isinstance(right, TimeSeries) else None
        times = left.values.keys() | (other.keys() if other is not None else set())
        points = {
            at: operation(
                left.values.get(at, 0.0), other.get(at, 0.0) if other is not None else _flat(right)
            )
            for at in sorted(times)
        }
        return left.with_values({at: one for at, one in points.items() if one is not None})
    if isinstance(right, TimeSeries):
        number = left
        return _applied(lambda one: operation(number, one), right)
    found = operation(left, right)
    if found is None:
        raise MathUndefined("a scalar was divided by zero")
    return found


def many(value: Value) -> list[TimeSeries]:
    """Answer the series of a value.

    Raises:
        MathUndefined: It is a number.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, TimeSeries):
        return [value]
    raise MathUndefined("a series is wanted, not a number")


def one(value: Value) -> TimeSeries:
    """Answer the one series of a value.

    Raises:
        MathUndefined: It is a number, or several.
    """
    found = many(value)
    if len(found) != 1:
        raise MathUndefined(f"one series is wanted, not {len(found)}")
    return found[0]


def _applied(function: Callable[[float], float | None], series: TimeSeries) -> TimeSeries:
    points = {at: function(value) for at, value in series.values.items()}
    return series.with_values({at: value for at, value in points.items() if value is not None})


def _pairwise(
    operation: Callable[[float, float], float | None], left: Value, right: Value
) -> list[TimeSeries]:
    lefts = left if isinstance(left, list) else None
    rights = right if isinstance(right, list) else None
    if lefts is not None and rights is not None:
        if len(lefts) != len(rights):
            raise MathUndefined("two arrays of different length")
        return [one(combine(operation, a, b)) for a, b in zip(lefts, rights, strict=True)]
    if lefts is not None:
        return [one(combine(operation, a, right)) for a in lefts]
    return [one(combine(operation, left, b)) for b in rights or ()]


def _flat(value: Value) -> float:
    if isinstance(value, TimeSeries | list):
        raise MathUndefined("a number is wanted")
    return value


EMPTY: Final = TimeSeries(values={})
