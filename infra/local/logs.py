"""What Lambda's log pipeline makes of a function's output.

Each line is one of: an EMF line (JSON with `_aws`), whose metrics are added up by namespace, name
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
from infra.local.kept import ENOUGH, Kept

Listener = Callable[["LogRecord", Environment], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One line that is not EMF. `fields` is empty for plain text."""

    environment: int
    request_id: str
    text: str
    fields: Mapping[str, Any]  # A structured line is any JSON object.


class Logs:
    """What the functions printed, the newest `kept` lines; safe to use from any thread.

    Of metrics there are the sums, of as many as ever were published.
    """

    def __init__(self, *, kept: int = ENOUGH) -> None:
        self._lock = threading.Lock()
        self._records: Kept[LogRecord] = Kept("lines", limit=kept)
        self._totals: dict[MetricName, float] = {}
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
        self._records.add(record)
        for listener in self._listeners:
            listener(record, line.environment)

    def limit(self, kept: int) -> None:
        """Keep so many lines from now on."""
        self._records.limit(kept)

    def records(self) -> list[LogRecord]:
        """Answer every record so far, in the order of reading.

        Raises:
            HistoryCut: There were more than are kept.
        """
        return self._records.all()

    def totals(self) -> dict[MetricName, float]:
        """Answer the sum of every metric so far."""
        with self._lock:
            return dict(self._totals)

    def total(self, name: str) -> float:
        """Add up the values of `name` over all services, each once; 0 where there are none.

        A value of a job is published for the job and for its service, one of no job for the service
        alone: the coarsest set of dimensions has every value.
        """
        found = {metric: total for metric, total in self.totals().items() if metric.name == name}
        coarsest = min((len(metric.dimensions) for metric in found), default=0)
        return math.fsum(
            total for metric, total in found.items() if len(metric.dimensions) == coarsest
        )

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
                        added = math.fsum(_numbers(fields.get(metric["Name"])))
                        self._totals[name] = self._totals.get(name, 0.0) + added


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
