"""What Lambda's log pipeline makes of a function's output.

Each line is one of: an EMF line (JSON with `_aws`), whose metrics are collected by namespace, name
and dimensions; a structured line (any other JSON object), kept as a record; or plain text.
"""

import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.local.cloudwatch.names import MetricName
from infra.local.environment import Environment, LogLine

Listener = Callable[["LogRecord", Environment], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One line that is not EMF. `fields` is empty for plain text."""

    environment: int
    request_id: str
    text: str
    fields: Mapping[str, Any]  # A structured line is any JSON object.


class Logs:
    """Everything that the functions printed; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[LogRecord] = []
        self._metrics: dict[MetricName, list[float]] = {}
        self._listeners: list[Listener] = []
        self._metric_listeners: list[Callable[[Mapping[str, Any]], None]] = []  # Any JSON.

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every record and who wrote it, from the thread that reads it.

        The writer may be in the middle of its work.
        """
        self._listeners.append(listener)

    # A line of metrics is any JSON object.
    def listen_metrics(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `listener` with every EMF line, from the thread that reads it."""
        self._metric_listeners.append(listener)

    def take(self, line: LogLine) -> None:
        """Sort one line."""
        fields = _json_object(line.text)
        if "_aws" in fields:
            self._take_metrics(fields)
            for hear in self._metric_listeners:
                hear(fields)
            return
        record = LogRecord(
            environment=line.environment.number,
            request_id=line.request_id,
            text=line.text,
            fields=fields,
        )
        with self._lock:
            self._records.append(record)
        for listener in self._listeners:
            listener(record, line.environment)

    def records(self) -> list[LogRecord]:
        """Answer every record so far, in the order of reading."""
        with self._lock:
            return list(self._records)

    def metrics(self) -> dict[MetricName, list[float]]:
        """Answer every metric so far with all of its values."""
        with self._lock:
            return {name: list(values) for name, values in self._metrics.items()}

    def values(self, name: str) -> list[float]:
        """Answer the values of `name` over all services, each counted once.

        A value of a job is published for the job and for its service, one of no job for the service
        alone: the coarsest set of dimensions has every value.
        """
        found = {metric: values for metric, values in self.metrics().items() if metric.name == name}
        coarsest = min((len(metric.dimensions) for metric in found), default=0)
        return [
            value
            for metric, values in found.items()
            if len(metric.dimensions) == coarsest
            for value in values
        ]

    def total(self, name: str) -> float:
        """Add up the values of `name`; 0 for a metric that was never published."""
        return math.fsum(self.values(name))

    def _take_metrics(self, fields: Mapping[str, Any]) -> None:  # One EMF line.
        with self._lock:
            for directive in fields["_aws"].get("CloudWatchMetrics", ()):
                for keys in directive.get("Dimensions") or [[]]:
                    dimensions = frozenset((key, str(fields.get(key))) for key in keys)
                    for metric in directive.get("Metrics", ()):
                        name = MetricName(
                            namespace=directive["Namespace"],
                            name=metric["Name"],
                            dimensions=dimensions,
                        )
                        values = self._metrics.setdefault(name, [])
                        values.extend(_numbers(fields.get(metric["Name"])))


def percentile(values: Sequence[float], share: float) -> float:
    """Answer the smallest value that at least `share` (0 to 1) of all values do not exceed.

    0 for no values.
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _json_object(text: str) -> Mapping[str, Any]:  # Any JSON object.
    if not text.startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _numbers(value: object) -> Iterable[float]:
    """Read a metric's value: a number, or a list of them."""
    listed = value if isinstance(value, list) else [value]
    return [float(number) for number in listed if isinstance(number, int | float)]
