"""A stack's alarms and dashboards as its template defines them, intrinsics resolved."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from infra.local.cloudwatch.alarm_rule import Rule, parse_rule
from infra.local.cloudwatch.alarm_state import COMPARISONS, Treatment
from infra.local.cloudwatch.names import MetricName, metric
from infra.local.cloudwatch.queries import Query

Json = Any  # A template and a dashboard's body are any JSON.
_DEFAULT_PERIOD: Final = 300


class DefinitionUnsupported(ValueError):
    """An alarm or a widget that would be evaluated differently here; `what` names it."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"cannot evaluate {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricAlarm:
    """An alarm over one metric or one expression: `returned` is the query that counts."""

    logical_id: str
    name: str
    arn: str
    description: str
    queries: tuple[Query, ...]
    returned: str
    comparison: str
    threshold: float
    periods: int
    to_alarm: int
    treatment: Treatment
    ignore_low_samples: bool
    actions_enabled: bool
    actions: Mapping[str, tuple[str, ...]]  # State to ARNs.

    @property
    def period(self) -> int:
        """Answer the length of a data point's period, in CloudWatch's seconds."""
        return next(query.period for query in self.queries if query.id == self.returned)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeAlarm:
    """An alarm over the states of others. While `suppressor` is in ALARM its actions wait."""

    logical_id: str
    name: str
    arn: str
    description: str
    rule: Rule
    suppressor: str | None
    wait_seconds: int
    extension_seconds: int
    actions_enabled: bool
    actions: Mapping[str, tuple[str, ...]]


Alarm = MetricAlarm | CompositeAlarm


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard: its widgets as the body holds them."""

    name: str
    widgets: Sequence[Json]


def metric_alarm(logical_id: str, *, arn: str, properties: Json) -> MetricAlarm:
    """Read an AWS::CloudWatch::Alarm.

    Raises:
        DefinitionUnsupported: It is of a kind that is not known here (anomaly detection).
    """
    comparison = properties["ComparisonOperator"]
    if comparison not in COMPARISONS:
        raise DefinitionUnsupported(f"{logical_id}: the comparison {comparison}")
    queries, returned = _alarm_queries(logical_id, properties)
    dynamo = any(q.metric and q.metric.namespace == "AWS/DynamoDB" for q in queries)
    # Alarms on DynamoDB's metrics ignore missing data unless they say otherwise.
    usual = "ignore" if dynamo else "missing"
    periods = int(properties["EvaluationPeriods"])
    return MetricAlarm(
        logical_id=logical_id,
        name=properties.get("AlarmName") or logical_id,
        arn=arn,
        description=str(properties.get("AlarmDescription", "")),
        queries=tuple(queries),
        returned=returned,
        comparison=comparison,
        threshold=float(properties["Threshold"]),
        periods=periods,
        to_alarm=int(properties.get("DatapointsToAlarm") or periods),
        treatment=cast("Treatment", properties.get("TreatMissingData", usual)),
        ignore_low_samples=properties.get("EvaluateLowSampleCountPercentile") == "ignore",
        actions_enabled=bool(properties.get("ActionsEnabled", True)),
        actions=_actions(properties),
    )


def composite_alarm(logical_id: str, *, arn: str, properties: Json) -> CompositeAlarm:
    """Read an AWS::CloudWatch::CompositeAlarm."""
    return CompositeAlarm(
        logical_id=logical_id,
        name=properties.get("AlarmName") or logical_id,
        arn=arn,
        description=str(properties.get("AlarmDescription", "")),
        rule=parse_rule(properties["AlarmRule"]),
        suppressor=properties.get("ActionsSuppressor"),
        wait_seconds=int(properties.get("ActionsSuppressorWaitPeriod", 0)),
        extension_seconds=int(properties.get("ActionsSuppressorExtensionPeriod", 0)),
        actions_enabled=bool(properties.get("ActionsEnabled", True)),
        actions=_actions(properties),
    )


def dashboard(logical_id: str, properties: Json) -> Dashboard:
    """Read an AWS::CloudWatch::Dashboard."""
    body = json.loads(properties["DashboardBody"])
    return Dashboard(
        name=properties.get("DashboardName") or logical_id, widgets=body.get("widgets", [])
    )


def widget_queries(properties: Json) -> list[Query]:
    """Read the metrics of a widget: each row is [namespace, name, key, value, ..., options].

    `.` repeats what stands at the same place of the row before, `...` all of it.
    """
    usual_period = int(properties.get("period", _DEFAULT_PERIOD))
    usual_statistic = properties.get("stat", "Average")
    found: list[Query] = []
    before: list[str] = []
    for number, row in enumerate(properties.get("metrics") or []):
        options: Json = row[-1] if isinstance(row[-1], dict) else {}
        words = [part for part in row if not isinstance(part, dict)]
        name = options.get("id") or f"row{number}"
        shown = options.get("visible", True) is not False
        if "expression" in options:
            found.append(
                Query(
                    id=name,
                    expression=options["expression"],
                    period=int(options.get("period", usual_period)),
                    label=str(options.get("label", options["expression"])),
                    shown=shown,
                )
            )
            continue
        words = before = list(_spelled_out(words, before))
        found.append(
            Query(
                id=name,
                metric=_named(words),
                statistic=options.get("stat", usual_statistic),
                period=int(options.get("period", usual_period)),
                label=str(options.get("label", "")),
                shown=shown,
            )
        )
    return found


def _alarm_queries(logical_id: str, properties: Json) -> tuple[list[Query], str]:
    if "Metrics" not in properties:
        dimensions = {one["Name"]: one["Value"] for one in properties.get("Dimensions", [])}
        query = Query(
            id="m1",
            metric=metric(properties["Namespace"], properties["MetricName"], dimensions),
            statistic=properties.get("Statistic") or properties["ExtendedStatistic"],
            period=int(properties["Period"]),
            unit=properties.get("Unit"),
        )
        return [query], query.id
    rows = properties["Metrics"]
    periods = {
        int(period)
        for row in rows
        if (period := row.get("Period") or row.get("MetricStat", {}).get("Period")) is not None
    }
    if len(periods) != 1:
        raise DefinitionUnsupported(f"{logical_id}: periods of {sorted(periods)} in one alarm")
    (period,) = periods
    queries = [_alarm_query(row, period) for row in rows]
    returned = [query.id for query in queries if query.shown]
    if len(returned) != 1:
        raise DefinitionUnsupported(f"{logical_id}: {len(returned)} results in one alarm")
    return queries, returned[0]


def _alarm_query(row: Json, period: int) -> Query:
    shown = row.get("ReturnData", True) is not False
    label = row.get("Label", "")
    if "Expression" in row:
        return Query(
            id=row["Id"], expression=row["Expression"], period=period, label=label, shown=shown
        )
    stat = row["MetricStat"]
    dimensions = {one["Name"]: one["Value"] for one in stat["Metric"].get("Dimensions", [])}
    return Query(
        id=row["Id"],
        metric=metric(stat["Metric"]["Namespace"], stat["Metric"]["MetricName"], dimensions),
        statistic=stat["Stat"],
        period=period,
        unit=stat.get("Unit"),
        label=label,
        shown=shown,
    )


def _spelled_out(words: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    if words and words[0] == "...":
        yield from before[: len(before) - len(words) + 1]
        yield from words[1:]
        return
    for place, word in enumerate(words):
        yield before[place] if word == "." else word


def _named(words: Sequence[str]) -> MetricName:
    namespace, name, *pairs = words
    return metric(namespace, name, dict(zip(pairs[::2], pairs[1::2], strict=True)))


def _actions(properties: Json) -> Mapping[str, tuple[str, ...]]:
    return {
        state: tuple(properties.get(field, ()))
        for state, field in (
            ("ALARM", "AlarmActions"),
            ("OK", "OKActions"),
            ("INSUFFICIENT_DATA", "InsufficientDataActions"),
        )
    }
