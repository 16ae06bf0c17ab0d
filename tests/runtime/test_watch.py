"""A whole stack under watch: what it does becomes metrics, alarms ring, and events call."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.alarm_state import ALARM, OK
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.pace import Pace
from infra.local.stack import LocalStack
from tests.runtime.test_stack import send
from tests.runtime.toy import write_assembly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 30.0
EMF = {
    "_aws": {
        "Timestamp": 0,
        "CloudWatchMetrics": [
            {
                "Namespace": "Toy",
                "Dimensions": [["service"]],
                "Metrics": [{"Name": "Works", "Unit": "Count"}],
            }
        ],
    },
    "service": "toy",
    "Works": 1,
}


def alarm(name: str, namespace: str, statistic: str, dimensions: dict[str, Any]) -> dict[str, Any]:
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": name.lower(),
            "ComparisonOperator": "GreaterThanThreshold",
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            "EvaluationPeriods": 1,
            "MetricName": name,
            "Namespace": namespace,
            "Period": 60,
            "Statistic": statistic,
            "Threshold": 0,
            "TreatMissingData": "notBreaching",
        },
    }


RESOURCES = {
    "Failing": alarm("Errors", "AWS/Lambda", "Sum", {"FunctionName": {"Ref": "Worker"}}),
    "Refused": alarm("Throttles", "AWS/Lambda", "Sum", {"FunctionName": {"Ref": "Worker"}}),
    "Cache": {"Type": "AWS::ElastiCache::ReplicationGroup", "Properties": {}},
    "Unhealthy": {
        "Type": "AWS::CloudWatch::CompositeAlarm",
        "Properties": {
            "AlarmName": "unhealthy",
            "AlarmRule": {"Fn::Join": ["", ['ALARM("', {"Fn::GetAtt": ["Failing", "Arn"]}, '")']]},
        },
    },
    "Rang": {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "EventPattern": {
                "source": ["aws.cloudwatch"],
                "resources": [{"Fn::GetAtt": ["Unhealthy", "Arn"]}],
                "detail": {"state": {"value": ["ALARM"]}},
            },
            "Targets": [{"Arn": {"Fn::GetAtt": ["Worker", "Arn"]}, "Id": "Target"}],
        },
    },
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = write_assembly(tmp_path_factory.mktemp("watch") / "cdk.out", resources=RESOURCES)
    with LocalStack(folder, pace=Pace(minute_seconds=0.5)) as running:
        yield running


def wait_for(stack: LocalStack, holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not holds():
        assert stack.watch.crashed is None
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def total(stack: LocalStack, namespace: str, name: str, **dimensions: str) -> float:
    found = stack.watch.store.samples(
        metric(namespace, name, dimensions), period=10**10, start=0, end=10**12
    )
    return sum(samples.total for samples in found.values())


def test_what_functions_and_queues_do_is_counted_under_the_names_of_aws(
    stack: LocalStack,
) -> None:
    queue = stack.source_queue()
    line = json.loads(json.dumps(EMF))
    line["_aws"]["Timestamp"] = time.time() * 1000

    send(stack, queue, *(json.dumps({"tell": line}) for _ in range(20)))
    stack.wait_until_drained(queue, within_seconds=WITHIN_SECONDS)

    batches = len(stack.invocations)
    function = stack.template.functions["Worker"].name
    mapping = stack.template.mappings[0].logical_id
    named = {"QueueName": queue.name}
    assert total(stack, "Toy", "Works", service="toy") == 20
    assert total(stack, "AWS/Lambda", "Invocations", FunctionName=function) == batches
    assert total(stack, "AWS/Lambda", "Duration", FunctionName=function) > 0
    assert total(stack, "AWS/Lambda", "PolledEventCount", EventSourceMappingUUID=mapping) == 20
    assert total(stack, "AWS/Lambda", "DeletedEventCount", EventSourceMappingUUID=mapping) == 20
    for name in ("Sent", "Received", "Deleted"):
        assert total(stack, "AWS/SQS", f"NumberOfMessages{name}", **named) == 20
    gauge = metric("AWS/SQS", "ApproximateAgeOfOldestMessage", named)
    node = metric("AWS/ElastiCache", "CurrConnections", {"CacheClusterId": "Cache-001"})
    wait_for(
        stack, lambda: {gauge, node} <= stack.watch.store.names().keys(), "gauges were not read"
    )


def test_an_alarm_rings_is_passed_on_and_ends(stack: LocalStack) -> None:
    states = stack.watch.alarms.states
    wait_for(stack, lambda: set(states().values()) == {OK}, f"not OK: {states()}")
    before = total(stack, "AWS/Lambda", "Invocations")

    send(stack, stack.source_queue(), json.dumps(["no object"]))

    def rang(name: str) -> bool:
        return any(
            (change.alarm.name, change.after) == (name, ALARM)
            for change in stack.watch.alarms.changes()
        )

    wait_for(stack, lambda: rang("errors") and rang("unhealthy"), "no alarm rang")
    stack.wait_until_drained(stack.source_queue(), within_seconds=WITHIN_SECONDS)
    # The first delivery and the second one failed; the third is what the composite's rule called.
    wait_for(
        stack,
        lambda: total(stack, "AWS/Lambda", "Invocations") >= before + 3,
        "the rule called nobody",
    )
    assert total(stack, "AWS/Events", "TriggeredRules", RuleName="Rang") >= 1
    wait_for(stack, lambda: set(states().values()) == {OK}, f"not OK again: {states()}")


def test_reserved_concurrency_refuses_and_the_messages_come_back(stack: LocalStack) -> None:
    queue, fleet = stack.source_queue(), stack.fleets["Worker"]
    fleet.reserve(0)

    send(stack, queue, json.dumps({}))
    wait_for(stack, lambda: stack.watch.alarms.states()["throttles"] == ALARM, "nobody refused")
    fleet.reserve(None)

    stack.wait_until_drained(queue, within_seconds=WITHIN_SECONDS)
    assert any(delivery.outcome == "throttled" for delivery in stack.deliveries)


def test_a_deployment_begins_with_new_environments(stack: LocalStack) -> None:
    queue, fleet = stack.source_queue(), stack.fleets["Worker"]
    send(stack, queue, json.dumps({}))
    stack.wait_until_drained(queue, within_seconds=WITHIN_SECONDS)
    before = fleet.environments_started

    stack.redeploy()
    send(stack, queue, json.dumps({}))
    stack.wait_until_drained(queue, within_seconds=WITHIN_SECONDS)

    assert fleet.environments_started > before
