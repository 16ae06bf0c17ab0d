"""Alarms that ring when they should, say what to do, and reach somebody."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.alarm_rule import alarms_of
from infra.local.cloudwatch.alarms import Alarms
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.queries import Evaluation, Window
from infra.local.cloudwatch.store import MetricStore
from infra.monitoring.thresholds import THRESHOLDS
from tests.infra.monitored import Monitored, arn, spelled_out
from tests.infra.synthesized import KEY, ROOT, synthesize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from infra.local.cloudwatch.definitions import CompositeAlarm, MetricAlarm
    from infra.local.cloudwatch.names import MetricName
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

TOPIC = "AWS::SNS::Topic"
INCIDENTS = {
    "stampede",
    "lock-leak",
    "contention",
    "degraded-mode",
    "growing-backlog",
    "poison-messages",
    "storage-spike",
    "evictions",
    "cold-start-storm",
}
HARMFUL = {"lock-leak", "degraded-mode", "growing-backlog", "poison-messages", "evictions"}
SERVICE = {"service": "flight-reports"}


def short(name: str) -> str:
    """An alarm's name without the stack's."""
    return name.removeprefix("Sekali-dev-").removeprefix("Sekali-prod-")


def by_name(monitored: Monitored) -> tuple[dict[str, MetricAlarm], dict[str, CompositeAlarm]]:
    """The alarms on metrics and the composite ones, by their short names."""
    return (
        {short(one.name): one for one in monitored.alarms},
        {short(one.name): one for one in monitored.composites},
    )


# Who is told.


def test_each_symptom_is_of_the_one_incident_that_its_name_begins_with(
    every_or_own: Synthesized,
) -> None:
    alarms, composites = by_name(Monitored.of(every_or_own))
    names = {one.arn: name for name, one in (alarms | composites).items()}

    symptoms = {
        incident: {names[child] for child in alarms_of(composites[incident].rule)}
        for incident in composites.keys() - {"unhealthy"}
    }

    together = sorted(itertools.chain(*symptoms.values()))
    assert together == sorted(alarms.keys() - {"deploying"})
    for incident, found in symptoms.items():
        assert all(one.startswith(f"{incident}-") for one in found)
    assert {names[one] for one in alarms_of(composites["unhealthy"].rule)} == HARMFUL & set(
        symptoms
    )


def test_every_alarm_that_people_need_to_know_of_reaches_the_topic_through_a_composite(
    every_or_own: Synthesized,
) -> None:
    """Alarms on metrics have no action: one that is in no composite would ring unheard."""
    monitored = Monitored.of(every_or_own)

    assert unheard(monitored.alarms, monitored.composites) == {"deploying"}


def test_an_alarm_that_no_composite_watches_is_found(dev: Synthesized) -> None:
    """Mutant: an incident is left out, or tells nobody."""
    monitored = Monitored.of(dev)
    fewer = [one for one in monitored.composites if short(one.name) != "stampede"]
    mute = [
        replace(one, actions={**one.actions, "ALARM": ()})
        if short(one.name) == "cold-start-storm"
        else one
        for one in monitored.composites
    ]

    assert unheard(monitored.alarms, fewer) == {"deploying", "stampede-hit-ratio"}
    assert unheard(monitored.alarms, mute) == {"deploying", "cold-start-storm-containers"}


def test_every_incident_there_is_has_symptoms_on_every_kind_of_cache(
    dev: Synthesized, serverless: Synthesized
) -> None:
    for stack in (dev, serverless):
        _, composites = by_name(Monitored.of(stack))

        assert composites.keys() == INCIDENTS | {"unhealthy"}


def test_an_incident_tells_the_topic_when_it_begins_and_ends_but_not_during_a_deployment(
    dev: Synthesized,
) -> None:
    alarms, composites = by_name(Monitored.of(dev))
    (topic,) = dev.of(TOPIC)

    for one in composites.values():
        assert one.actions["ALARM"] == one.actions["OK"] == (topic.lower(),)
        assert one.actions_enabled
        assert one.suppressor == alarms["deploying"].arn
        assert one.wait_seconds > 0
        assert one.extension_seconds > 0
    assert not [one.name for one in alarms.values() if any(one.actions.values())]


def test_a_deployment_is_known_by_what_cloudformation_tells_of_this_stack(
    dev: Synthesized,
) -> None:
    alarms, _ = by_name(Monitored.of(dev))
    (query,) = alarms["deploying"].queries
    assert query.metric is not None
    ((name, rule),) = [
        pair
        for pair in dev.of("AWS::Events::Rule").items()
        if pair[1].get("EventPattern", {}).get("source") == ["aws.cloudformation"]
    ]

    assert (query.metric.namespace, query.metric.name) == ("AWS/Events", "TriggeredRules")
    assert dict(query.metric.dimensions) == {"RuleName": name.lower()}
    assert rule["EventPattern"]["detail"] == {"stack-id": [{"Ref": "AWS::StackId"}]}
    assert rule["State"] == "ENABLED"


def test_the_topic_is_encrypted_with_a_key_that_alarms_may_use(every: Synthesized) -> None:
    """With the key of SNS itself, CloudWatch's publish is refused and nobody hears of it."""
    topic = every.only(TOPIC)
    key = every.of(KEY)[topic["KmsMasterKeyId"]["Fn::GetAtt"][0]]
    (usable,) = [one for one in key["KeyPolicy"]["Statement"] if one.get("Sid", "") != ""]
    policy = every.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    published = next(one for one in policy if one["Sid"] == "LetAlarmsPublish")

    for statement in (usable, published):
        assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        assert statement["Condition"] == {
            "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        }
    assert usable["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert published["Action"] == "sns:Publish"
    assert key["EnableKeyRotation"] is True
    assert [one for one in policy if one["Effect"] == "Deny"]


# What it says.


def test_each_alarm_says_what_it_means_what_to_do_first_and_where_more_is(
    dev: Synthesized,
) -> None:
    alarms, composites = by_name(Monitored.of(dev))

    for name, one in (alarms | composites).items():
        if name == "deploying":
            continue
        incident = next((page for page in INCIDENTS if name.startswith(page)), "")
        page = f"{incident}.md" if incident else ""
        meaning, first, runbook = re.split(r" First: | Runbooks?: ", one.description)
        assert len(meaning) > 20, name
        assert len(first) > 20, name
        assert runbook == f"docs/operations/{page}"


def test_every_incident_has_its_page_and_every_page_its_incident() -> None:
    pages = {one.stem for one in (ROOT / "docs" / "operations").glob("*.md")}

    assert pages - {"README"} == INCIDENTS


def test_alarms_link_to_the_pages_where_somebody_reads_them(tmp_path: Path) -> None:
    stack = synthesize(tmp_path, runbooks_url="https://wiki.example.com/sekali/")
    alarms, _ = by_name(Monitored.of(stack))

    assert alarms["lock-leak-lost"].description.endswith(
        "Runbook: https://wiki.example.com/sekali/lock-leak.md"
    )


# When it rings.


def test_each_alarm_says_what_missing_data_mean_and_rings_for_m_of_n(
    every_or_own: Synthesized,
) -> None:
    treated = {
        one["AlarmName"]: one.get("TreatMissingData")
        for one in every_or_own.of("AWS::CloudWatch::Alarm").values()
    }
    monitored = Monitored.of(every_or_own)
    levels = {"lock-leak-overdue", "lock-leak-long-holders", "degraded-mode-pending"}

    for one in monitored.alarms:
        expected = "ignore" if short(one.name) in levels else "notBreaching"
        assert treated[one.name] == expected
        assert 1 <= one.to_alarm <= one.periods
        assert one.period == 60


def test_thresholds_follow_the_stage(dev: Synthesized, prod: Synthesized) -> None:
    for stage, stack in (("dev", dev), ("prod", prod)):
        alarms, _ = by_name(Monitored.of(stack))
        limits = THRESHOLDS[stage]

        assert alarms["growing-backlog-oldest-message"].threshold == limits.oldest_seconds
        assert alarms["poison-messages-retries"].threshold == limits.retries_percent
        assert alarms["poison-messages-retries"].periods == limits.minutes
        assert alarms["poison-messages-retries"].to_alarm == limits.breaching
    assert THRESHOLDS["dev"] != THRESHOLDS["prod"]


def test_no_alarm_searches_or_takes_the_mean_of_a_duration(every_or_own: Synthesized) -> None:
    for one in Monitored.of(every_or_own).alarms:
        for query in one.queries:
            assert "SEARCH" not in query.expression
            timed = query.metric is not None and "Duration" in query.metric.name
            assert not (timed and query.statistic == "Average")


def test_nothing_rings_while_nothing_happens(every_or_own: Synthesized) -> None:
    monitored = Monitored.of(every_or_own)
    watch = Alarms([*monitored.alarms, *monitored.composites], store=MetricStore())

    for minute in range(100, 110):
        watch.step(minute * 60 + 5)

    assert "ALARM" not in watch.states().values()


def test_each_formula_has_a_number_whatever_is_missing(prod: Synthesized) -> None:
    """A quotient of nothing, or of a metric that is not there, is a gap: the alarm sees nothing."""
    monitored = Monitored.of(prod)
    asked = [(one.title, one.queries) for one in monitored.widgets]
    asked += [(one.name, one.queries) for one in monitored.alarms]
    evaluated = 0

    for title, queries in asked:
        metrics = [one.metric for one in queries if one.metric is not None]
        for present in (metrics, *([one] for one in metrics), []):
            series = evaluate(queries, dict.fromkeys(present, 7.0))
            for query in queries:
                if query.expression and not query.expression.startswith("MAX("):
                    values = series[query.id]
                    assert len(values) == 5, (title, query.expression)
                    assert all(math.isfinite(one) for one in values), (title, query.expression)
                    evaluated += 1

    assert evaluated > 70


def test_a_ratio_without_a_floor_of_its_whole_is_caught_by_that(dev: Synthesized) -> None:
    """Mutant: the plain quotient has gaps."""
    alarms, _ = by_name(Monitored.of(dev))
    (query,) = [one for one in alarms["contention-claims"].queries if one.expression]
    plain = [
        type(query)(id="e", expression="100 * contended / (acquired + contended)", period=60),
        *(one for one in alarms["contention-claims"].queries if one.metric),
    ]

    assert evaluate(plain, {})["e"] == []
    assert evaluate(alarms["contention-claims"].queries, {})[query.id] == [0.0] * 5


@pytest.mark.parametrize(
    ("hits", "misses", "states"),
    [
        # Below ten reads a minute a ratio says nothing.
        (0, 9, ["OK"] * 4),
        # Two of three minutes below 30 %.
        (2, 8, ["OK", "ALARM", "ALARM", "ALARM"]),
        (3, 7, ["OK"] * 4),
    ],
)
def test_a_stampede_is_many_misses_not_a_few(
    dev: Synthesized, hits: int, misses: int, states: list[str]
) -> None:
    values = {
        metric("Sekali", "CacheSharedHits", SERVICE): float(hits),
        metric("Sekali", "CacheLoads", SERVICE): float(misses),
    }

    assert played(dev, "stampede-hit-ratio", [values] * 4) == states
    assert played(dev, "stampede", [values] * 4) == states


def test_what_recovery_reported_stands_until_it_reports_again(dev: Synthesized) -> None:
    def overdue(count: float) -> dict[MetricName, float]:
        return {metric("Sekali", "LeasesOverdue", SERVICE): count}

    minutes = [overdue(0), overdue(2), {}, {}, {}, {}, overdue(0), {}]

    found = played(dev, "lock-leak-overdue", minutes)

    assert found == ["OK", *["ALARM"] * 5, "OK", "OK"]
    assert played(dev, "unhealthy", minutes) == found


def test_one_fault_of_one_minute_is_no_incident_and_evictions_are(dev: Synthesized) -> None:
    (node,) = {
        dict(query.metric.dimensions)["CacheClusterId"]
        for one in Monitored.of(dev).alarms
        for query in one.queries
        if query.metric is not None and query.metric.name == "Evictions"
    }
    lost = {metric("Sekali", "LeasesLost", SERVICE): 1.0}
    none = dict.fromkeys(lost, 0.0)
    evicted = {metric("AWS/ElastiCache", "Evictions", {"CacheClusterId": node}): 1.0}

    assert played(dev, "lock-leak", [lost, {}, {}, {}]) == ["OK"] * 4
    assert played(dev, "lock-leak", [lost, lost, none, none]) == ["OK", "ALARM", "ALARM", "OK"]
    assert played(dev, "evictions", [evicted, dict.fromkeys(evicted, 0.0)]) == ["ALARM", "OK"]


def test_more_nodes_than_a_formula_may_hold_are_watched_by_several_alarms(
    tmp_path: Path,
) -> None:
    stack = synthesize(tmp_path, stage="prod", cache_shards="6")
    alarms, composites = by_name(Monitored.of(stack))
    nodes = {
        dict(query.metric.dimensions)["CacheClusterId"]
        for name, one in alarms.items()
        if name.startswith("evictions-evicted")
        for query in one.queries
        if query.metric is not None
    }
    (group,) = stack.of("AWS::ElastiCache::ReplicationGroup").values()
    name = spelled_out(group["ReplicationGroupId"], stack)

    assert nodes == {f"{name}-{shard:04}-{node:03}" for shard in range(1, 7) for node in (1, 2)}
    assert {"evictions-evicted-1", "evictions-evicted-2"} <= alarms.keys()
    assert arn(alarms["evictions-evicted-2"].logical_id) in alarms_of(composites["evictions"].rule)


def unheard(alarms: Iterable[MetricAlarm], composites: Iterable[CompositeAlarm]) -> set[str]:
    """The alarms of which nobody is told: they have no action, and no composite that has one."""
    heard = {
        name
        for one in composites
        if one.actions_enabled and one.actions["ALARM"]
        for name in alarms_of(one.rule)
    }
    return {
        short(one.name)
        for one in alarms
        if not one.actions["ALARM"] and not heard & {one.name, one.arn}
    }


def played(stack: Synthesized, name: str, minutes: list[Any]) -> list[str]:
    """The states of one alarm after each minute, in which metrics had these values."""
    monitored = Monitored.of(stack)
    store = MetricStore()
    watch = Alarms([*monitored.alarms, *monitored.composites], store=store)
    found: list[str] = []
    for minute, values in enumerate(minutes, start=100):
        for named, value in values.items():
            store.put_one(named, value, at=minute * 60)
        watch.step((minute + 1) * 60 + 5)
        found.append(watch.states()[f"Sekali-dev-{name}"])
    return found


def evaluate(queries: Any, values: Mapping[MetricName, float]) -> dict[str, list[float]]:
    """What each query comes to in five minutes, in each of which metrics had these values."""
    store = MetricStore()
    for minute in range(100, 105):
        for name, value in values.items():
            store.put_one(name, value, at=minute * 60)
    window = Window(start=6_000, end=6_300, period=60)
    evaluation = Evaluation(queries, store=store, window=window)
    return {
        one.id: [value for series in evaluation.series(one.id) for value in series.values.values()]
        for one in queries
        if one.expression
    }
