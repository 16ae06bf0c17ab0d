"""Which events reach which functions, and what a ranking makes of log lines."""

from __future__ import annotations

from typing import Any

import pytest

from infra.local.cloudwatch.contributors import Contributor, Ranking
from infra.local.event_bus import EventBus, matches
from infra.local.intrinsics import TemplateUnsupported
from infra.local.template import EventRule

EVENT = {
    "source": "aws.s3",
    "detail-type": "Object Created",
    "resources": ["arn:one", "arn:two"],
    "detail": {"bucket": {"name": "data"}, "object": {"key": "flights/2013-01.csv"}},
}


def rule(name: str, *, pattern: Any = None, schedule: str = "") -> EventRule:
    return EventRule(name=name, pattern=pattern, schedule=schedule, functions=("Worker",))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"source": ["aws.s3"]}, True),
        ({"source": ["aws.ec2", "aws.s3"]}, True),
        ({"source": ["aws.ec2"]}, False),
        ({"source": ["aws.s3"], "account": ["1"]}, False),
        ({"resources": ["arn:two"]}, True),
        ({"detail": {"object": {"key": [{"prefix": "flights/"}]}}}, True),
        ({"detail": {"object": {"key": [{"prefix": "trains/"}]}}}, False),
        ({"detail": {"object": {"key": [{"suffix": ".csv"}]}}}, True),
        ({"detail": {"bucket": {"name": [{"anything-but": ["data"]}]}}}, False),
        ({"detail": {"reason": [{"exists": False}]}}, True),
        ({"detail": {"bucket": {"owner": {"id": ["x"]}}}}, False),
    ],
)
def test_a_pattern_matches_by_one_choice_of_each_field(pattern: Any, *, expected: bool) -> None:
    assert matches(pattern, EVENT) is expected


def test_rules_that_match_call_their_functions_and_are_counted() -> None:
    called: list[tuple[str, Any]] = []
    counted: list[tuple[str, int]] = []
    bus = EventBus(
        [rule("objects", pattern={"source": ["aws.s3"]}), rule("no", pattern={"source": ["x"]})],
        call=lambda function, event: called.append((function, event)),
        on_match=lambda name, number: counted.append((name, number)),
    )

    bus.put(EVENT)

    assert called == [("Worker", EVENT)]
    assert counted == [("objects", 1)]


def test_a_clock_strikes_after_each_interval() -> None:
    struck: list[float] = []
    now = 0.0
    bus = EventBus(
        [rule("clock", schedule="rate(5 minutes)")],
        call=lambda _function, _event: struck.append(now),
        on_match=lambda _name, _number: None,
    )

    for minute in range(12):
        now = minute * 60.0
        bus.tick(now)

    assert struck == [300.0, 600.0]


@pytest.mark.parametrize(
    "unknown",
    [rule("a", schedule="cron(0 12 * * ? *)"), rule("b", pattern={"n": [{"numeric": [">", 1]}]})],
)
def test_a_rule_that_would_match_otherwise_is_refused(unknown: EventRule) -> None:
    with pytest.raises(TemplateUnsupported):
        EventBus([unknown], call=lambda *_: None, on_match=lambda *_: None)


def ranking(**changes: Any) -> Ranking:
    contribution = {
        "Keys": ["$.job", "$.key"],
        "Filters": [{"Match": "$.reason", "In": ["busy", "cooling"]}],
    }
    body = {
        "LogGroupNames": ["/worker"],
        "Contribution": contribution | changes.pop("Contribution", {}),
        "AggregateOn": "Count",
    }
    return Ranking("contended", body | changes)


def take(found: Ranking, *lines: dict[str, Any], at: float = 0.0) -> None:
    for line in lines:
        found.take(line, log_group="/worker", at=at)


def test_the_keys_that_lines_name_most_are_ranked_first() -> None:
    found = ranking()
    busy = {"job": "report", "reason": "busy"}

    take(found, busy | {"key": "a"}, busy | {"key": "b"}, busy | {"key": "b"})
    take(found, {"job": "report", "key": "a", "reason": "done"}, busy)
    found.take(busy | {"key": "a"}, log_group="/other", at=0.0)

    assert found.top(5, start=0, end=60) == [
        Contributor(keys=("report", "b"), total=2.0),
        Contributor(keys=("report", "a"), total=1.0),
    ]
    assert found.top(5, start=60, end=120) == []


def test_a_rule_has_metrics_of_its_own() -> None:
    found = ranking()
    line = {"job": "report", "reason": "cooling"}
    take(found, line | {"key": "a"}, line | {"key": "a"}, line | {"key": "b"})

    def values(name: str) -> dict[int, float]:
        return found.series(name, grid=[0, 60], period=60)

    assert values("UniqueContributors") == {0: 2.0}
    assert values("MaxContributorValue") == {0: 2.0}
    assert values("Sum") == {0: 3.0}


def test_a_rule_may_add_up_a_field() -> None:
    found = ranking(Contribution={"ValueOf": "$.wait", "Filters": []}, AggregateOn="Sum")

    take(found, {"job": "r", "key": "a", "wait": 2}, {"job": "r", "key": "a", "wait": "long"})

    assert found.top(1, start=0, end=60) == [Contributor(keys=("r", "a"), total=2.0)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"EqualTo": 3}, True),
        ({"NotEqualTo": 3}, False),
        ({"GreaterThan": 2}, True),
        ({"LessThan": 2}, False),
        ({"IsPresent": True}, True),
        ({"NotIn": [3]}, False),
        ({"StartsWith": ["3"]}, False),
    ],
)
def test_lines_are_chosen_by_comparisons(wanted: dict[str, Any], *, expected: bool) -> None:
    found = ranking(Contribution={"Keys": ["$.key"], "Filters": [{"Match": "$.tries"} | wanted]})

    take(found, {"key": "a", "tries": 3})

    assert bool(found.top(1, start=0, end=60)) is expected


def test_what_is_ranked_takes_bounded_memory() -> None:
    found = ranking(Contribution={"Filters": []})

    take(found, *({"job": "r", "key": str(number)} for number in range(10_000)))

    assert len(found.top(10_000, start=0, end=60)) == 500
