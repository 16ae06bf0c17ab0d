"""The library's metrics, the page, the dashboards and the alarms name the same things."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from handlers.reports import worker
from infra.local.cloudwatch.names import metric
from sekali.telemetry import events
from sekali.telemetry.measures import MEASURES, METRICS
from tests.infra.metrics_table import PAGE, table, written
from tests.infra.monitored import Monitored, Names, Widget
from tests.telemetry_events import EVERY

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

SERVICE: Names = frozenset({"service"})
JOB: Names = frozenset({"service", "job"})


def published() -> set[tuple[str, Names]]:
    """Each metric of the library, with the names of the dimensions that it is published under."""
    of_service = {(name, SERVICE) for name in METRICS}
    return of_service | {(name, JOB) for name, one in METRICS.items() if one.of == "job"}


def differences(monitored: Monitored) -> dict[str, set[tuple[str, Names]]]:
    """What is read and never published, and what is published and on no dashboard."""
    drawn = replace(monitored, alarms=()).own_metrics()
    return {
        "never published": monitored.own_metrics() - published(),
        "on no dashboard": published() - drawn,
    }


def registered() -> set[str]:
    """The names of the jobs of the worker in handlers/reports.py."""
    return set(worker._specs)  # noqa: SLF001  a worker shows its jobs to nobody


def test_what_is_drawn_and_what_rings_is_what_is_published(every_or_own: Synthesized) -> None:
    monitored = Monitored.of(every_or_own)

    assert differences(monitored) == {"never published": set(), "on no dashboard": set()}


def test_a_dimension_that_nothing_publishes_is_found(dev: Synthesized) -> None:
    """Mutants: an alarm that could never ring, and a metric that nobody would see."""
    monitored = Monitored.of(dev)
    first, *rest = monitored.alarms_of("JobsDegraded")
    wrong = metric("Sekali", "JobsDegraded", {"Service": "flight-reports"})
    alarm = replace(first, queries=tuple(replace(one, metric=wrong) for one in first.queries))
    blind = [one for one in monitored.widgets if "ThawGap" not in str(one.queries)]

    ringing = differences(replace(monitored, alarms=[alarm, *rest]))
    drawing = differences(replace(monitored, widgets=blind))

    assert ringing["never published"] == {("JobsDegraded", frozenset({"Service"}))}
    assert drawing["on no dashboard"] == {("ThawGap", SERVICE)}


def test_metrics_are_read_under_the_names_that_the_functions_have(dev: Synthesized) -> None:
    from infra.parts import JOBS

    monitored = Monitored.of(dev)
    variables = [
        one["Environment"]["Variables"] for one in dev.of("AWS::Lambda::Function").values()
    ]

    assert monitored.own_values("service") == {one["SEKALI_SERVICE"] for one in variables}
    assert monitored.own_values("job") == registered()
    assert {one["POWERTOOLS_METRICS_NAMESPACE"] for one in variables} == {"Sekali"}
    assert set(JOBS["reports"]) == registered()


def test_the_table_of_the_page_is_that_of_code_and_template(dev: Synthesized) -> None:
    expected = table(Monitored.of(dev), "Sekali-dev")

    assert written(PAGE.read_text(encoding="utf-8")) == expected, (
        "write it anew: python -m tests.infra.metrics_table"
    )


def test_events_are_measured_as_the_table_says_and_each_metric_by_some_event() -> None:
    measured = [measure for one in EVERY for measure in MEASURES[type(one)](one)]

    assert {name for name, _, _ in measured} == METRICS.keys()
    assert {(name, unit) for name, unit, _ in measured} == {
        (name, one.unit) for name, one in METRICS.items()
    }
    assert {type(one) for one in EVERY} == MEASURES.keys()


def test_every_event_that_is_not_measured_is_one_that_another_one_counts() -> None:
    every = {
        one
        for one in vars(events).values()
        if isinstance(one, type) and issubclass(one, events.Event) and one is not events.Event
    }

    assert every - MEASURES.keys() == {
        events.DeadLettered,  # Counted with its record.
        events.Deferred,  # The same.
        events.InvocationEnded,  # The moment of writing.
        events.LeaseLeaked,  # Counted by the look that found it.
    }


def test_what_is_of_a_job_is_told_by_events_that_name_one() -> None:
    for one in EVERY:
        of = {METRICS[name].of for name, _, _ in MEASURES[type(one)](one)}

        if "job" in of:
            assert hasattr(one, "name"), one
        assert isinstance(one, events.Event)


def test_no_widget_draws_one_series_twice(dev: Synthesized) -> None:
    def repeated(widget: Widget) -> bool:
        drawn = [(one.metric, one.statistic) for one in widget.queries if one.metric and one.shown]
        return len(drawn) != len(set(drawn))

    assert [one.title for one in Monitored.of(dev).widgets if repeated(one)] == []
