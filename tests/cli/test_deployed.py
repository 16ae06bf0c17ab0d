"""A deployed stack is found by its outputs, and its cache asked through the recovery function."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from sekali import Settings, lease, warm
from sekali.cli import checks_functions, checks_metrics, deployed
from sekali.cli.door import call, operate
from sekali.cli.examining import Examined, Finding
from sekali.cli.faults import Exit, Fault
from tests.cli.cloud import CALLER, QUEUE_ARN, Cloud
from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali.cli.place import Place


@pytest.fixture
def cloud(valkey: Redis, valkey_url: str) -> Cloud:
    assert valkey.dbsize() == 0
    return Cloud(
        {
            "SEKALI_CACHE_URL": valkey_url.replace("redis://", "valkey://"),
            "SEKALI_DURABLE_MODE": "redis",
            "SEKALI_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/1/jobs",
            "SEKALI_DEAD_LETTER_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/1/jobs-dead",
            "SEKALI_PARTIAL_BATCH": "true",
            "SEKALI_SERVICE": "flight-reports",
        }
    )


def place_of(cloud: Cloud, *, worker: str | None = None, cache_url: str | None = None) -> Place:
    return deployed.place("Sekali-dev", cloud, worker=worker, cache_url=cache_url)


@pytest.fixture
def held(cloud: Cloud) -> Iterator[None]:
    """Hold the lock `ledger/1` in another container."""
    container = warm.Container(Settings.from_env(cloud.variables), emit=lambda _: None)
    with warm.inside(container), lease("ledger/1"):
        yield
    container.close()


def test_stack_is_described_by_its_outputs_and_functions(cloud: Cloud) -> None:
    place = place_of(cloud)

    assert place.worker.name == "Sekali-dev-ReportsWorker"
    assert place.recover is not None
    assert place.mapping is not None
    assert (place.mapping.queue_arn, place.mapping.partial_batches) == (QUEUE_ARN, True)
    assert place.worker.log_group == "/aws/lambda/Sekali-dev-ReportsWorker"
    assert not place.reaches_cache


@pytest.mark.parametrize(
    ("worker", "function"),
    [
        ("cold_storage", "Sekali-dev-ColdStorageWorker"),
        ("cold-storage", "Sekali-dev-ColdStorageWorker"),
        ("reports", "Sekali-dev-ReportsWorker"),
    ],
)
def test_one_of_several_workers_is_named_by_its_module(
    cloud: Cloud, worker: str, function: str
) -> None:
    assert place_of(cloud, worker=worker).worker.name == function


def test_what_is_not_there_is_said(cloud: Cloud) -> None:
    with pytest.raises(Fault, match="there is no stack other") as no_stack:
        deployed.place("other", cloud, worker=None, cache_url=None)
    with pytest.raises(Fault, match="has no worker nobody") as no_worker:
        place_of(cloud, worker="nobody")
    cloud.outputs = {}
    with pytest.raises(Fault, match="none of this kit") as foreign:
        place_of(cloud)

    statuses = {one.value.status for one in (no_stack, no_worker, foreign)}
    assert statuses == {Exit.NO_STACK}


@pytest.mark.usefixtures("held")
def test_both_doors_answer_the_same(cloud: Cloud) -> None:
    through_function = place_of(cloud)
    from_here = place_of(cloud, cache_url=cloud.variables["SEKALI_CACHE_URL"])

    answers = [operate(one, "leases", key="ledger/1") for one in (through_function, from_here)]
    explained = [operate(one, "explain", key="nothing") for one in (through_function, from_here)]

    [one, other] = [answer["leases"][0] for answer in answers]
    assert {**one, "age_seconds": 0, "remaining_seconds": 0} == {
        **other,
        "age_seconds": 0,
        "remaining_seconds": 0,
    }
    assert explained[0] == explained[1]
    assert len(cloud.invoked) == 2


@pytest.mark.usefixtures("held")
def test_log_of_the_function_names_who_stole(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        told = operate(place_of(cloud), "steal", name="@", key="ledger/1", reason="stuck")

    assert told["stolen"]
    assert any(CALLER in message and "stuck" in message for message in caplog.messages)


def test_schedule_is_not_an_operators_request(cloud: Cloud) -> None:
    found = call(place_of(cloud), {})

    assert (found["live"], found["overdue"]) == (0, [])


def test_error_of_the_function_keeps_its_meaning(cloud: Cloud) -> None:
    place = place_of(cloud)
    with pytest.raises(Fault) as unknown:
        operate(place, "leases", nonsense=1)
    with pytest.raises(Fault) as invalid:
        operate(place, "explain", key="")
    cloud.variables["SEKALI_CACHE_URL"] = f"valkey://127.0.0.1:{free_port()}"
    with pytest.raises(Fault) as away:
        operate(place, "leases")

    assert (unknown.value.status, unknown.value.kind) == (Exit.USAGE, "SettingInvalid")
    assert (invalid.value.status, invalid.value.kind) == (Exit.USAGE, "KeyInvalid")
    assert (away.value.status, away.value.kind) == (Exit.REFUSED, "SharedUnavailable")


def test_stack_without_recovery_function_says_what_to_do(cloud: Cloud) -> None:
    del cloud.outputs["RecoverFunctionName"]

    with pytest.raises(Fault, match="--cache-url") as caught:
        operate(place_of(cloud), "leases")

    assert caught.value.status is Exit.NO_STACK


# What only a real account has, the doctor is shown here.


def found_by(check: Any, cloud: Cloud) -> list[Finding]:
    return list(check(Examined(place_of(cloud))))


def test_doctor_finds_a_reservation_that_throttles(cloud: Cloud) -> None:
    answers = iter([{"ReservedConcurrentExecutions": 2}, {"ReservedConcurrentExecutions": 10}, {}])
    cloud.more["lambda"] = {"get_function_concurrency": lambda **_: next(answers)}

    [finding] = found_by(checks_functions.concurrency, cloud)

    assert (finding.state, finding.check) == ("wrong", "concurrency")
    assert "MaximumConcurrency" in finding.remedy
    assert found_by(checks_functions.concurrency, cloud) == []
    assert found_by(checks_functions.concurrency, cloud) == []


def test_doctor_finds_an_action_that_the_role_may_not_do(cloud: Cloud) -> None:
    def simulate(*, ActionNames: list[str], **_: Any) -> Any:  # noqa: N803 - boto3's own
        [action] = ActionNames
        decision = "implicitDeny" if action == "sqs:DeleteMessage" else "allowed"
        return {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": decision}]}

    cloud.more["iam"] = {"simulate_principal_policy": simulate}
    cloud.more["sqs"] = {
        "get_queue_attributes": lambda **_: {"Attributes": {"QueueArn": QUEUE_ARN}}
    }

    [finding] = found_by(checks_functions.rights, cloud)

    assert (finding.state, finding.check) == ("wrong", "rights")
    assert finding.found.endswith("may not: sqs:DeleteMessage")


def test_doctor_finds_an_alarm_that_can_never_ring(cloud: Cloud) -> None:
    """The symptom: an alarm on a dimension that does not exist is silent for ever (TRAPS)."""
    asked = [{"Name": "CacheClusterId", "Value": "one"}]
    there = [{"Name": "clusterId", "Value": "one"}]
    alarm = {"AlarmName": "evictions", "Namespace": "AWS/ElastiCache", "MetricName": "Evictions"}
    resource = {"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": "evictions"}
    cloud.more["cloudformation"] = {
        "list_stack_resources": lambda **_: {"StackResourceSummaries": [resource]}
    }
    cloud.more["cloudwatch"] = {
        "describe_alarms": lambda **_: {"MetricAlarms": [alarm | {"Dimensions": asked}]},
        "list_metrics": lambda **_: {"Metrics": [{"Dimensions": there}]},
    }

    silent = found_by(checks_metrics.alarms, cloud)
    cloud.more["cloudwatch"]["list_metrics"] = lambda **_: {"Metrics": [{"Dimensions": asked}]}
    heard = found_by(checks_metrics.alarms, cloud)

    assert [one.state for one in silent] == ["warning"]
    assert "evictions (Evictions of {'CacheClusterId': 'one'})" in silent[0].found
    assert heard == []


def test_what_the_caller_may_not_see_is_unknown_and_not_in_order(cloud: Cloud) -> None:
    for check in (
        checks_functions.concurrency,
        checks_functions.rights,
        checks_metrics.dimensions,
        checks_metrics.alarms,
    ):
        [finding] = found_by(check, cloud)

        assert finding.state == "unknown"
        assert "may read it" in finding.remedy
