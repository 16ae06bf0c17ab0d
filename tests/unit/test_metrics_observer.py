"""What an invocation's metrics look like in the log, and that CloudWatch takes all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch import emf
from sekali.telemetry import events, powertools
from sekali.telemetry.measures import METRICS
from sekali.telemetry.powertools import MetricsObserver
from tests.telemetry_events import EVERY, settled

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BYTES = 256 * 1024
"""CloudWatch Logs drops what is longer."""


def told(capsys: pytest.CaptureFixture[str], *invocation: events.Event) -> list[dict[str, Any]]:
    """The lines of one invocation in which these events happened."""
    observer = MetricsObserver("service")
    for one in invocation:
        observer(one)
    assert capsys.readouterr().out == ""
    observer(events.InvocationEnded())
    output = capsys.readouterr().out
    assert max((len(line) for line in output.splitlines()), default=0) < MOST_BYTES
    return [json.loads(line) for line in output.splitlines()]


def values(lines: Iterable[dict[str, Any]], name: str, **dimensions: str) -> list[float]:
    """What CloudWatch takes of one metric, value by value."""
    wanted = frozenset({"service": "service", **dimensions}.items())
    return [
        value
        for line in lines
        for datum in emf.data(line)
        if datum.name.name == name and datum.name.dimensions == wanted
        for value, _ in datum.values
    ]


def test_a_batch_of_ten_thousand_is_taken_whole(capsys: pytest.CaptureFixture[str]) -> None:
    batch = [
        one
        for number in range(10_000)
        for one in (
            events.LeaseAcquired(name="job", key=f"k{number}", fence=number),
            events.LeaseHeld(name="job", seconds=number / 1000),
            settled(run_seconds=number / 1000),
        )
    ]

    lines = told(capsys, *batch)

    for dimensions in ({}, {"job": "job"}):
        assert values(lines, "Records", **dimensions) == [10_000]
        assert values(lines, "LeasesAcquired", **dimensions) == [10_000]
        assert values(lines, "RunTime", **dimensions) == [float(n) for n in range(10_000)]
        assert len(values(lines, "LeaseHeldTime", **dimensions)) == 10_000
    assert len(lines) == 100


def test_a_hundred_and_first_value_would_be_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the limit is looked at by the reader, not by the writer alone."""
    monkeypatch.setattr(powertools, "VALUES_PER_LINE", 101)
    lines = told(capsys, *(settled() for _ in range(101)))

    with pytest.raises(emf.EmfRefused):
        values(lines, "RunTime")


def test_every_metric_there_is_fits_into_one_invocation_of_a_hundred_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs = [f"job-{number}" for number in range(100)]
    batch = [*EVERY, *(settled(job) for job in jobs)]

    lines = told(capsys, *batch)

    published = {datum.name.name for line in lines for datum in emf.data(line)}
    assert published == METRICS.keys()
    assert all(values(lines, "JobsCompleted", job=job) == [1] for job in jobs)
    assert sum(values(lines, "JobsCompleted")) == 100 + 3


def test_what_belongs_to_no_job_is_told_of_the_service_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = told(
        capsys,
        events.LeaseAcquired(name="~", key="cached", fence=1),
        events.LeaseAcquired(name="@", key="lock", fence=1),
        settled("", outcome="dead_letter", source="", reason="missing_field"),
        events.SharedFailed(operation="claim", error="TimeoutError"),
    )

    (line,) = lines
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert values(lines, "LeasesAcquired") == [2]
    assert values(lines, "JobsDeadLettered") == [1]
    assert values(lines, "JobsFailed") == []


def test_a_look_for_leaks_that_finds_none_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """An alarm on what was found last stays where it is until it is told of zero."""
    found = events.Recovered(live=2, overdue=0, long=0, endless=0, pending=0)
    unknown = events.Recovered(live=2, overdue=0, long=0, endless=0, pending=None)

    away = events.Recovered(live=None, overdue=None, long=None, endless=None, pending=3)

    lines, without, cacheless = told(capsys, found), told(capsys, unknown), told(capsys, away)

    assert values(lines, "LeasesOverdue") == values(lines, "JobsPending") == [0]
    assert values(without, "JobsPending") == []
    assert values(cacheless, "LeasesOverdue") == values(cacheless, "LeasesLive") == []
    assert values(cacheless, "JobsPending") == [3]


def test_nothing_is_left_over_for_the_next_invocation(capsys: pytest.CaptureFixture[str]) -> None:
    observer = MetricsObserver("service")
    observer(settled())
    observer(events.InvocationEnded())
    capsys.readouterr()

    observer(events.InvocationEnded())

    assert capsys.readouterr().out == ""


def test_no_key_id_or_owner_gets_into_a_metric(capsys: pytest.CaptureFixture[str]) -> None:
    secret = "who-knows"
    batch = [
        settled(id=secret, key=secret, trace=secret, reason=secret),
        events.LeaseContended(name="job", key=secret, owner=secret),
        events.CacheRead(name="~", source="loaded", key=secret),
        events.SharedFailed(operation=secret, error=secret),
    ]

    assert secret not in json.dumps(told(capsys, *batch))


def test_powertools_own_switch_turns_metrics_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")

    assert told(capsys, settled()) == []
