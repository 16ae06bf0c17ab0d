"""Each alarm of the synthesized template rings by a scenario and ends; none is left out.

Evaluated with CloudWatch's own rules, at a pace of two seconds a minute. The long form is
`make test-alarms`; `make test` drives one alarm and holds the list against the template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local import assembly
from infra.local.cloudwatch.alarm_rule import alarms_of
from infra.local.cloudwatch.definitions import CompositeAlarm
from infra.local.synthesis import synthesize
from tests.alarms.scenarios import SCENARIOS, Scenario
from tests.alarms.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.template import Template

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template() -> Template:
    return assembly.read(synthesize())


def missing(scenarios: list[Scenario], template: Template) -> set[str]:
    """Answer the alarms that no scenario drives."""
    driven = {symptom for scenario in scenarios for symptom in scenario.symptoms}
    prefix = f"{template.stack_name}-"
    left = set()
    for alarm in template.monitoring.alarms:
        name = alarm.name.removeprefix(prefix)
        if isinstance(alarm, CompositeAlarm):
            # It rings with those that it watches, each of which is looked at itself.
            if not alarms_of(alarm.rule):
                left.add(name)
        elif name not in driven:
            left.add(name)
    return left


def test_no_alarm_is_without_a_scenario(template: Template) -> None:
    assert missing(SCENARIOS, template) == set()


def test_no_scenario_speaks_of_an_alarm_that_is_not_there(template: Template) -> None:
    prefix = f"{template.stack_name}-"
    names = {alarm.name.removeprefix(prefix) for alarm in template.monitoring.alarms}

    assert {symptom for one in SCENARIOS for symptom in one.symptoms} <= names


def test_an_alarm_without_a_scenario_is_found(template: Template) -> None:
    fewer = [one for one in SCENARIOS if "deploying" not in one.symptoms]

    assert missing(fewer, template) == {"deploying"}


@pytest.mark.alarms
@pytest.mark.timeout(420)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name.replace(" ", "-"))
def test_an_alarm_rings_and_ends(scenario: Scenario, template: Template, tmp_path: Path) -> None:
    run(scenario, template, tmp_path)


@pytest.mark.timeout(240)
def test_dead_letters_ring_and_end_when_they_are_read(template: Template, tmp_path: Path) -> None:
    (poison,) = (one for one in SCENARIOS if "poison-messages-dead-letters" in one.symptoms)

    run(poison, template, tmp_path)


def run(scenario: Scenario, template: Template, folder: Path) -> None:
    """Let a scenario's alarms ring and end, and the composites above them with them."""
    above = composites(template, set(scenario.symptoms))
    change = scenario.change
    changed = None if change is None else (lambda function: change(function, folder))
    with Stage(**scenario.stage, change=changed) as stage:
        stage.settle()
        watched = set(scenario.symptoms) | above
        stage.calm(watched - _without_data(stage, watched), lambda: None)

        scenario.begin(stage)
        stage.drive(set(scenario.symptoms), lambda: scenario.push(stage))
        scenario.end(stage)
        stage.calm(set(scenario.symptoms), lambda: scenario.mend(stage))

        assert above <= stage.rung()
        assert list(stage.stack.watch.refusals) == []


def composites(template: Template, symptoms: set[str]) -> set[str]:
    """Answer the composite alarms that ring with these symptoms, at any height."""
    prefix = f"{template.stack_name}-"
    found: set[str] = set()
    while True:
        more = {
            alarm.name.removeprefix(prefix)
            for alarm in template.monitoring.alarms
            if isinstance(alarm, CompositeAlarm)
            and {_short(name, prefix) for name in alarms_of(alarm.rule)} & (symptoms | found)
        }
        if more <= found:
            return found
        found |= more


def _short(name: str, prefix: str) -> str:
    return name.rpartition(":")[2].removeprefix(prefix)


def _without_data(stage: Stage, alarms: set[str]) -> set[str]:
    """Answer those that cannot be OK yet: what they watch is told once in a while."""
    return {alarm for alarm in alarms if stage.state(alarm) == "INSUFFICIENT_DATA"}
