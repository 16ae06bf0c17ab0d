"""Read a line of the embedded metric format as CloudWatch Logs does.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from infra.local.cloudwatch.names import MetricName
from infra.local.cloudwatch.store import Datum

MOST_METRICS: Final = 100
MOST_VALUES: Final = 100
MOST_DIMENSIONS: Final = 30
_PAST_SECONDS: Final = 14 * 86_400
_FUTURE_SECONDS: Final = 2 * 3_600

Fields = Mapping[str, Any]  # A line is any JSON object.


class EmfRefused(ValueError):
    """CloudWatch would take no metric out of this line; `rule` says why."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


def data(fields: Fields, *, now: float | None = None) -> list[Datum]:
    """Answer the metrics of one line.

    Raises:
        EmfRefused: A limit of the format is broken. The line stays a log line.
    """
    told = fields.get("_aws")
    if not isinstance(told, dict) or not isinstance(told.get("CloudWatchMetrics"), list):
        raise EmfRefused("_aws.CloudWatchMetrics is a list of directives")
    at = _timestamp(told, now=time.time() if now is None else now)
    return [
        datum for directive in told["CloudWatchMetrics"] for datum in _read(directive, fields, at)
    ]


def _timestamp(told: Fields, *, now: float) -> float:
    stamp = told.get("Timestamp")
    if not isinstance(stamp, int | float):
        raise EmfRefused("_aws.Timestamp is milliseconds since 1970")
    at = stamp / 1000
    if not now - _PAST_SECONDS <= at <= now + _FUTURE_SECONDS:
        raise EmfRefused("a timestamp is at most 14 days old and 2 hours ahead")
    return at


def _read(directive: Fields, fields: Fields, at: float) -> Iterator[Datum]:
    metrics = directive.get("Metrics") or []
    if len(metrics) > MOST_METRICS:
        raise EmfRefused(f"a directive names at most {MOST_METRICS} metrics, got {len(metrics)}")
    for keys in directive.get("Dimensions") or [[]]:
        if len(keys) > MOST_DIMENSIONS:
            raise EmfRefused(f"a set has at most {MOST_DIMENSIONS} dimensions, got {len(keys)}")
        missing = [key for key in keys if key not in fields]
        if missing:
            raise EmfRefused(f"the dimension {missing[0]} has no value")
        dimensions = frozenset((key, str(fields[key])) for key in keys)
        for metric in metrics:
            name = MetricName(
                namespace=directive["Namespace"], name=metric["Name"], dimensions=dimensions
            )
            yield from _datum(name, metric, fields.get(metric["Name"]), at)


def _datum(name: MetricName, metric: Fields, value: object, at: float) -> Iterator[Datum]:
    unit = str(metric.get("Unit", "None"))
    if isinstance(value, dict) and "Values" not in value:
        count, total = float(value["Count"]), float(value["Sum"])
        summary = (count, total, float(value["Min"]), float(value["Max"]))
        yield Datum(name=name, summary=summary, unit=unit, at=at)
        return
    values, counts = _values(value)
    if len(values) > MOST_VALUES:
        raise EmfRefused(f"{name.name} has at most {MOST_VALUES} values, got {len(values)}")
    if values:
        pairs = tuple(zip(values, counts, strict=True))
        yield Datum(name=name, values=pairs, unit=unit, at=at)


def _values(value: object) -> tuple[list[float], list[float]]:
    """Read a number, a list of them, or values with their counts."""
    if isinstance(value, dict):
        values = _numbers(value.get("Values"))
        counts = _numbers(value.get("Counts")) or [1.0] * len(values)
        if len(counts) != len(values):
            raise EmfRefused("Values and Counts are of equal length")
        return values, counts
    values = _numbers(value if isinstance(value, list) else [value])
    return values, [1.0] * len(values)


def _numbers(listed: object) -> list[float]:
    found = listed if isinstance(listed, list) else []
    return [float(one) for one in found if isinstance(one, int | float)]
