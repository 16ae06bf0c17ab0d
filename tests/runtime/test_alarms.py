"""Alarms over a store: when they ring, what composite ones make of it, and who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.alarm_rule import RuleInvalid, holds, parse_rule
from infra.local.cloudwatch.alarm_state import ALARM
from infra.local.cloudwatch.alarms import Alarms, Change
from infra.local.cloudwatch.definitions import (
    DefinitionUnsupported,
    composite_alarm,
    dashboard,
    metric_alarm,
    widget_queries,
)
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import MetricStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.local.cloudwatch.definitions import Alarm, CompositeAlarm, MetricAlarm

ERRORS = metric("AWS/Lambda", "Errors", {"FunctionName": "worker"})
TOPIC = "arn:aws:sns:us-east-1:000000000000:alerts"


def errors(**changes: Any) -> MetricAlarm:
    properties = {
        "AlarmName": "errors",
        "AlarmActions": [TOPIC],
        "OKActions": [TOPIC],
        "ComparisonOperator": "GreaterThanThreshold",
        "Dimensions": [{"Name": "FunctionName", "Value": "worker"}],
        "EvaluationPeriods": 3,
        "DatapointsToAlarm": 2,
        "MetricName": "Errors",
        "Namespace": "AWS/Lambda",
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 0,
        "TreatMissingData": "notBreaching",
    }
    return metric_alarm("Errors", arn="arn:errors", properties=properties | changes)


def composite(rule: str, **changes: Any) -> CompositeAlarm:
    properties = {"AlarmName": "unhealthy", "AlarmRule": rule, "AlarmActions": [TOPIC]} | changes
    return composite_alarm("Unhealthy", arn="arn:unhealthy", properties=properties)


def told(
    rows: Sequence[float | None], suppressor: Sequence[float | None], **changes: Any
) -> list[tuple[int, str]]:
    """Answer at which minute somebody was told what of a composite alarm with a suppressor."""
    store = MetricStore()
    quick = errors(EvaluationPeriods=1, DatapointsToAlarm=1)
    calm = metric_alarm("Calm", arn="arn:calm", properties=_as_properties(MetricName="Deploys"))
    whole = composite('ALARM("errors")', ActionsSuppressor="arn:calm", **changes)
    watch = Alarms([quick, calm, whole], store=store)
    deploys = metric("AWS/Lambda", "Deploys", {"FunctionName": "worker"})
    for minute, (value, other) in enumerate(zip(rows, suppressor, strict=True)):
        for name, one in ((ERRORS, value), (deploys, other)):
            if one is not None:
                store.put_one(name, one, at=(100 + minute) * 60)
        watch.step((101 + minute) * 60 + 5)
    return [
        (int(notice.at) // 60 - 101, notice.state)
        for notice in watch.notices()
        if notice.alarm == "unhealthy"
    ]


def played(
    rows: Sequence[float | None], *alarms: Alarm, changes: list[Change] | None = None
) -> list[dict[str, str]]:
    """Evaluate after each minute in which the errors had such a value."""
    store = MetricStore()
    told = [] if changes is None else changes
    watch = Alarms(alarms, store=store, on_change=told.append)
    seen: list[dict[str, str]] = []
    for minute, value in enumerate(rows, start=100):
        if value is not None:
            store.put_one(ERRORS, value, at=minute * 60)
        watch.step((minute + 1) * 60 + 5)
        seen.append(dict(watch.states()))
    return seen


def states(rows: Sequence[float | None], *alarms: Alarm, name: str = "errors") -> list[str]:
    return [found[name] for found in played(rows, *alarms)]


def test_two_of_three_data_points_ring_and_it_ends_when_they_are_out_of_sight() -> None:
    found = states([0, 1, 0, 1, 0, 0, 0], errors())

    assert found == ["OK", "OK", "OK", "ALARM", "OK", "OK", "OK"]


def test_missing_data_are_treated_as_the_alarm_says() -> None:
    rows = [0, None, None, None, None, None]

    assert states(rows, errors()) == ["OK"] * 6
    assert states(rows, errors(TreatMissingData="breaching"))[-1] == "ALARM"
    assert states(rows, errors(TreatMissingData="missing"))[-1] == "INSUFFICIENT_DATA"
    assert states(rows, errors(TreatMissingData="ignore")) == ["OK"] * 6


def test_a_minute_that_is_not_over_is_not_looked_at() -> None:
    store = MetricStore()
    watch = Alarms([errors(EvaluationPeriods=1, DatapointsToAlarm=1)], store=store)
    store.put_one(ERRORS, 5, at=6_000)

    watch.step(6_059)
    before = watch.states()
    watch.step(6_060)

    assert before == {"errors": "OK"}
    assert watch.states() == {"errors": "ALARM"}


def test_an_alarm_on_an_expression_rings_by_the_expression() -> None:
    lambda_metric = {"Namespace": "AWS/Lambda", "Dimensions": []}
    stat = {"Period": 60, "Stat": "Sum"}
    rows = [
        {
            "Id": "e",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/Lambda",
                    "MetricName": "Errors",
                    "Dimensions": [{"Name": "FunctionName", "Value": "worker"}],
                },
                **stat,
            },
            "ReturnData": False,
        },
        {
            "Id": "i",
            "MetricStat": {"Metric": lambda_metric | {"MetricName": "Invocations"}, **stat},
            "ReturnData": False,
        },
        {"Id": "rate", "Expression": "100 * FILL(e, 0) / IF(FILL(i, 0) > 0, i, 1)"},
    ]
    alarm = metric_alarm(
        "Rate",
        arn="arn:rate",
        properties={
            "AlarmName": "errors",
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "EvaluationPeriods": 1,
            "Metrics": rows,
            "Threshold": 200,
            "TreatMissingData": "notBreaching",
        },
    )

    assert states([1, None, 2, 0], alarm) == ["OK", "OK", "ALARM", "OK"]


def test_a_percentile_of_few_values_may_be_ignored() -> None:
    few = {
        "ExtendedStatistic": "p99",
        "Statistic": None,
        "EvaluateLowSampleCountPercentile": "ignore",
        "EvaluationPeriods": 1,
        "DatapointsToAlarm": 1,
    }

    assert states([5, 5], errors(**few)) == ["INSUFFICIENT_DATA"] * 2
    few["EvaluateLowSampleCountPercentile"] = "evaluate"
    assert states([5, 5], errors(**few)) == ["ALARM"] * 2


def test_a_composite_alarm_follows_its_rule_and_tells_whom_it_names() -> None:
    changes: list[Change] = []
    other = metric_alarm("Calm", arn="arn:calm", properties=_as_properties(Threshold=100))
    rule = 'ALARM("errors") AND NOT ALARM("arn:calm")'

    seen = played([1, 1, 0, 0, 0], errors(), other, composite(rule), changes=changes)

    assert [found["unhealthy"] for found in seen] == ["OK", "ALARM", "ALARM", "OK", "OK"]
    rung = [change for change in changes if change.alarm.name == "unhealthy"]
    assert [change.after for change in rung] == ["OK", "ALARM", "OK"]
    assert rung[1].actions == (TOPIC,)
    assert rung[1].reason == "in alarm: errors"


def test_a_suppressor_keeps_a_composite_alarm_silent_until_it_ends() -> None:
    deploying = [1, 1, 0, 0, 0]

    found = told([1, 1, 1, 1, 1], deploying)
    extended = told([1, 1, 1, 1, 1], deploying, ActionsSuppressorExtensionPeriod=120)
    over_before = told([1, 1, 0, 0, 0], deploying)

    assert found == [(2, ALARM)]
    assert extended == [(3, ALARM)]
    assert over_before == []


def test_a_composite_alarm_waits_for_its_suppressor() -> None:
    alone = told([1, 1, 1, 1], [0, 0, 0, 0], ActionsSuppressorWaitPeriod=120)
    late = told([1, 1, 1, 1], [0, 1, 1, 1], ActionsSuppressorWaitPeriod=120)

    assert alone == [(2, ALARM)]
    assert late == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("TRUE", True),
        ("FALSE OR TRUE", True),
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
        ("NOT FALSE AND TRUE", True),
        ("NOT (FALSE OR TRUE)", False),
        ("ALARM(rings) AND OK('fine')", True),
        ('ALARM("fine") OR INSUFFICIENT_DATA("rings")', False),
    ],
)
def test_a_rule_holds_as_it_is_written(rule: str, *, expected: bool) -> None:
    states = {"rings": "ALARM", "fine": "OK"}

    assert holds(parse_rule(rule), states.__getitem__) is expected


@pytest.mark.parametrize("rule", ["", "ALARM(", "ALARM(a) ALARM(b)", "AND", "(TRUE", "ring(a)"])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(RuleInvalid):
        parse_rule(rule)


def test_an_alarm_that_is_evaluated_otherwise_is_refused() -> None:
    with pytest.raises(DefinitionUnsupported, match="LessThanLowerThreshold"):
        errors(ComparisonOperator="LessThanLowerThreshold")


def test_alarms_on_dynamodb_ignore_missing_data_unless_told_otherwise() -> None:
    usual = _as_properties(Namespace="AWS/DynamoDB")
    del usual["TreatMissingData"]

    assert metric_alarm("A", arn="a", properties=usual).treatment == "ignore"
    usual["TreatMissingData"] = "breaching"
    assert metric_alarm("A", arn="a", properties=usual).treatment == "breaching"


def test_a_widgets_rows_are_read_with_their_abbreviations() -> None:
    body = """{"widgets": [{"type": "metric", "properties": {"period": 60, "stat": "Sum", "metrics":
        [["AWS/Lambda", "Errors", "FunctionName", "worker", {"id": "e", "visible": false}],
         [".", "Invocations", ".", "."],
         ["...", "other", {"stat": "p99", "label": "theirs"}],
         [{"expression": "e * 2", "id": "twice"}]]}}]}"""

    (widget,) = dashboard("Board", {"DashboardBody": body}).widgets
    one, two, three, four = widget_queries(widget["properties"])

    assert (one.id, one.metric, one.shown, one.period) == ("e", ERRORS, False, 60)
    assert two.metric == metric("AWS/Lambda", "Invocations", {"FunctionName": "worker"})
    assert three.metric == metric("AWS/Lambda", "Invocations", {"FunctionName": "other"})
    assert (three.statistic, three.label) == ("p99", "theirs")
    assert (four.id, four.expression) == ("twice", "e * 2")


def _as_properties(**changes: Any) -> dict[str, Any]:
    return {
        "AlarmName": "calm",
        "ComparisonOperator": "GreaterThanThreshold",
        "Dimensions": [{"Name": "FunctionName", "Value": "worker"}],
        "EvaluationPeriods": 1,
        "MetricName": "Errors",
        "Namespace": "AWS/Lambda",
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 0,
        "TreatMissingData": "notBreaching",
    } | changes
