"""What a synthesized stack watches: its dashboards and alarms, and the metrics that they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.local.cloudwatch.definitions import (
    composite_alarm,
    dashboard,
    metric_alarm,
    widget_queries,
)
from tests.infra.synthesized import resolved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from infra.local.cloudwatch.definitions import CompositeAlarm, MetricAlarm
    from infra.local.cloudwatch.names import MetricName
    from infra.local.cloudwatch.queries import Query
    from tests.infra.synthesized import Synthesized

NAMESPACE = "Sekali"
Names = frozenset[str]


@dataclass(frozen=True)
class Widget:
    """A widget with metrics, and the queries that it draws."""

    dashboard: str
    title: str
    queries: Sequence[Query]


@dataclass(frozen=True)
class Monitored:
    """Everything by which people see a stack."""

    widgets: Sequence[Widget]
    alarms: Sequence[MetricAlarm]
    composites: Sequence[CompositeAlarm]

    @classmethod
    def of(cls, stack: Synthesized) -> Monitored:
        """Read a template."""

        def every(kind: str) -> Iterator[tuple[str, Any]]:  # Any: properties are any JSON.
            for name, properties in stack.of(kind).items():
                yield name, spelled_out(properties, stack)

        boards = [dashboard(name, one) for name, one in every("AWS::CloudWatch::Dashboard")]
        return cls(
            widgets=[
                Widget(board.name, widget["properties"].get("title", ""), queries)
                for board in boards
                for widget in board.widgets
                if (queries := widget_queries(widget["properties"]))
            ],
            alarms=[
                metric_alarm(name, arn=arn(name), properties=one)
                for name, one in every("AWS::CloudWatch::Alarm")
            ],
            composites=[
                composite_alarm(name, arn=arn(name), properties=one)
                for name, one in every("AWS::CloudWatch::CompositeAlarm")
            ],
        )

    def widgets_of(self, name: str) -> list[Widget]:
        """The widgets that draw one of the library's metrics, of a job or of all."""
        return [one for one in self.widgets if name in {m.name for m in own(one.queries)}]

    def alarms_of(self, name: str) -> list[MetricAlarm]:
        """The alarms that one of the library's metrics drives."""
        return [one for one in self.alarms if name in {m.name for m in own(one.queries)}]

    def own_metrics(self) -> set[tuple[str, Names]]:
        """Each of the library's metrics that anything reads, with the names of its dimensions."""
        return {
            (metric.name, frozenset(key for key, _ in metric.dimensions))
            for metric in own(self.queries())
        }

    def own_values(self, dimension: str) -> set[str]:
        """The values of a dimension under which the library's metrics are read."""
        metrics = own(self.queries())
        return {value for one in metrics for key, value in one.dimensions if key == dimension}

    def vended(self) -> dict[tuple[str, str], set[Names]]:
        """AWS' own metrics by namespace and name, with the names of their dimensions."""
        found: dict[tuple[str, str], set[Names]] = {}
        for query in self.queries():
            if query.metric is not None and query.metric.namespace != NAMESPACE:
                key = query.metric.namespace, query.metric.name
                names = frozenset(name for name, _ in query.metric.dimensions)
                found.setdefault(key, set()).add(names)
        return found

    def queries(self) -> Iterator[Query]:
        """Every query of every widget and alarm."""
        for widget in self.widgets:
            yield from widget.queries
        for alarm in self.alarms:
            yield from alarm.queries


def own(queries: Iterable[Query]) -> list[MetricName]:
    """The metrics among some queries that are not AWS' own."""
    found = [one.metric for one in queries if one.metric is not None]
    return [one for one in found if one.namespace == NAMESPACE]


def arn(logical_id: str) -> str:
    """What `spelled_out` puts for an alarm's ARN."""
    return f"{logical_id.lower()}.example.com"


def spelled_out(value: Any, stack: Synthesized) -> Any:  # Any JSON.
    """Put plausible names for every reference in a resource's properties."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::")):
            return resolved(value, stack.resources)
        return {key: spelled_out(one, stack) for key, one in value.items()}
    if isinstance(value, list):
        return [spelled_out(one, stack) for one in value]
    return value
