"""The functions of metric math.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from infra.local.cloudwatch.timeseries import (
    MathUndefined,
    TimeSeries,
    Value,
    apply,
    combine,
    many,
    one,
)

Reduce = Callable[[Sequence[float]], float]


def operate(sign: str, left: Value, right: Value) -> Value:
    """Evaluate an operator; comparisons and logic answer 0 and 1."""
    return combine(_OPERATIONS[sign], left, right)


def reduced(name: str, value: Value) -> Value:
    """SUM, AVG, MAX, MIN, STDDEV: of one series a number, of several a series.

    A point that some of several series miss is reckoned from those that have it; AVG counts the
    missing ones as 0, as SUM does.
    """
    reduce = REDUCTIONS[name]
    if isinstance(value, TimeSeries):
        return reduce(list(value.values.values())) if value.values else 0.0
    series = many(value)
    times = sorted({at for each in series for at in each.values})
    points: dict[int, float] = {}
    for at in times:
        found = [each.values[at] for each in series if at in each.values]
        if name == "AVG":
            found += [0.0] * (len(series) - len(found))
        points[at] = reduce(found)
    period = series[0].period if series else 0
    return TimeSeries(values=points, period=period)


def filled(value: Value, filler: Value | str, grid: Sequence[int]) -> Value:
    """FILL: give every period of the request a value.

    `filler` is a number, a series, REPEAT (the last value before) or LINEAR (between neighbours;
    ends stay missing for both).
    """
    if isinstance(value, list):
        return [_filled(series, filler, grid) for series in value]
    return _filled(one(value), filler, grid)


def chosen(condition: Value, then: Value, otherwise: Value | None) -> Value:
    """IF: where the condition has no data point, there is none; nor where the choice has none."""
    if not isinstance(condition, TimeSeries):
        if isinstance(condition, list):
            raise MathUndefined("IF takes one series as its condition")
        if condition == 0 and otherwise is None:
            raise MathUndefined("IF of a number that is false needs a third argument")
        return then if condition != 0 or otherwise is None else otherwise
    points: dict[int, float] = {}
    for at, truth in condition.values.items():
        side = then if truth != 0 else otherwise
        if side is None:
            continue
        found = _at(side, at)
        if found is not None:
            points[at] = found
    return condition.with_values(points)


def differences(value: Value) -> Value:
    """DIFF: each value less the one before it."""
    return _stepwise(value, lambda before, after, _: after - before)


def rates(value: Value, *, real_seconds: Callable[[float], float]) -> Value:
    """RATE: DIFF over the seconds between the two values."""
    return _stepwise(value, lambda before, after, gap: (after - before) / real_seconds(gap))


def gaps(value: Value, *, real_seconds: Callable[[float], float]) -> Value:
    """DIFF_TIME: the seconds since the value before."""
    return _stepwise(value, lambda _before, _after, gap: real_seconds(gap))


def running_sum(value: Value) -> Value:
    """RUNNING_SUM: each value with all before it."""

    def summed(series: TimeSeries) -> TimeSeries:
        total, points = 0.0, {}
        for at in sorted(series.values):
            total += series.values[at]
            points[at] = total
        return series.with_values(points)

    return [summed(each) for each in value] if isinstance(value, list) else summed(one(value))


def ordered(value: Value, by: str, direction: str, most: float | None) -> list[TimeSeries]:
    """SORT: several series by a statistic of each, the first `most` of them."""
    reduce = REDUCTIONS[by]
    found = sorted(
        many(value),
        key=lambda each: reduce(list(each.values.values())) if each.values else -math.inf,
        reverse=direction == "DESC",
    )
    return found if most is None else found[: int(most)]


def unary(name: str, value: Value) -> Value:
    """ABS, CEIL, FLOOR, LOG, LOG10 of every data point."""
    return apply(UNARY[name], value)


def _filled(series: TimeSeries, filler: Value | str, grid: Sequence[int]) -> TimeSeries:
    values = series.values
    points: dict[int, float] = {}
    last: float | None = None
    for at in grid:
        if at in values:
            last = values[at]
            points[at] = last
        elif filler == "REPEAT":
            if last is not None:
                points[at] = last
        elif filler == "LINEAR":
            between = _between(values, at)
            if between is not None:
                points[at] = between
        else:
            found = _at(filler, at) if not isinstance(filler, str) else None
            if found is not None:
                points[at] = found
    return series.with_values(points)


def _between(values: Mapping[int, float], at: int) -> float | None:
    before = max((time for time in values if time < at), default=None)
    after = min((time for time in values if time > at), default=None)
    if before is None or after is None:
        return None
    share = (at - before) / (after - before)
    return values[before] + share * (values[after] - values[before])


def _at(value: Value, at: int) -> float | None:
    if isinstance(value, TimeSeries):
        return value.values.get(at)
    if isinstance(value, list):
        raise MathUndefined("one series or a number is wanted")
    return value


def _stepwise(value: Value, step: Callable[[float, float, float], float]) -> Value:
    def stepped(series: TimeSeries) -> TimeSeries:
        points = {
            after: step(series.values[before], series.values[after], after - before)
            for before, after in pairwise(sorted(series.values))
        }
        return series.with_values(points)

    return [stepped(each) for each in value] if isinstance(value, list) else stepped(one(value))


def _divided(left: float, right: float) -> float | None:
    return None if right == 0 else left / right


def _power(left: float, right: float) -> float | None:
    try:
        found = left**right
    except (OverflowError, ZeroDivisionError):
        return None
    return None if isinstance(found, complex) else float(found)


_OPERATIONS: Final[Mapping[str, Callable[[float, float], float | None]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "^": _power,
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "<": lambda a, b: float(a < b),
    ">": lambda a, b: float(a > b),
    "<=": lambda a, b: float(a <= b),
    ">=": lambda a, b: float(a >= b),
    "AND": lambda a, b: float(bool(a) and bool(b)),
    "OR": lambda a, b: float(bool(a) or bool(b)),
}

REDUCTIONS: Final[Mapping[str, Reduce]] = {
    "AVG": statistics.fmean,
    "MAX": max,
    "MIN": min,
    "STDDEV": statistics.pstdev,
    "SUM": math.fsum,
}

UNARY: Final[Mapping[str, Callable[[float], float | None]]] = {
    "ABS": abs,
    "CEIL": lambda value: float(math.ceil(value)),
    "FLOOR": lambda value: float(math.floor(value)),
    "LOG": lambda value: math.log(value) if value > 0 else None,
    "LOG10": lambda value: math.log10(value) if value > 0 else None,
}

SHAPES: Final[Mapping[str, Callable[[Value], Value]]] = {
    "DATAPOINT_COUNT": lambda value: float(sum(len(each.values) for each in many(value))),
    "DIFF": differences,
    "FIRST": lambda value: many(value)[0],
    "LAST": lambda value: many(value)[-1],
    "METRIC_COUNT": lambda value: float(len(many(value))),
    "REMOVE_EMPTY": lambda value: [each for each in many(value) if each.values],
    "RUNNING_SUM": running_sum,
}
