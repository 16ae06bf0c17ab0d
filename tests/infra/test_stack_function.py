"""What the deployed functions must be, and what they are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sekali.settings import Settings
from tests.infra.synthesized import FUNCTION, GROUP, MAPPING, SERVERLESS, queues, resolved

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.infra.synthesized import Resource, Synthesized

pytestmark = pytest.mark.slow


def test_every_function_is_a_current_python_on_arm64(dev: Synthesized, events: Synthesized) -> None:
    for function in [*dev.of(FUNCTION).values(), *events.of(FUNCTION).values()]:
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert len(function["Layers"]) == 2
    assert {one["Handler"] for one in events.of(FUNCTION).values()} == {
        "handlers.reports.handler",
        "handlers.invalidate.handler",
        "handlers.recover.handler",
    }


def test_each_function_traces_and_logs_json_into_a_group_that_forgets(
    events: Synthesized, prod: Synthesized
) -> None:
    for stack, days in ((events, 7), (prod, 90)):
        groups = {one["LoggingConfig"]["LogGroup"]["Ref"] for one in stack.of(FUNCTION).values()}

        assert len(groups) == len(stack.of(FUNCTION))
        # That of the network's flows is one more.
        assert len(stack.of("AWS::Logs::LogGroup")) == len(groups) + (stack is prod)
        for function in stack.of(FUNCTION).values():
            assert function["TracingConfig"] == {"Mode": "Active"}
            assert function["LoggingConfig"]["LogFormat"] == "JSON"
        for group in stack.of("AWS::Logs::LogGroup").values():
            assert group["RetentionInDays"] == days


def test_a_delayed_copy_to_the_own_queue_is_not_taken_for_a_runaway_loop(
    every: Synthesized,
) -> None:
    assert every.worker()["RecursiveLoop"] == "Allow"


def test_all_functions_of_the_stack_are_ours(every: Synthesized) -> None:
    """A custom resource of the CDK would bring a function with permissions of its own."""
    kinds = {resource["Type"] for resource in every.resources.values()}

    assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))]
    assert all(one["Handler"].startswith("handlers.") for one in every.of(FUNCTION).values())


def test_a_mapping_calls_the_snapshots_alias_where_there_are_snapshots(
    hardened: Synthesized, dev: Synthesized
) -> None:
    alias = hardened.only(MAPPING)["FunctionName"]["Ref"]
    (function,) = [name for name, one in dev.of(FUNCTION).items() if "reports" in one["Handler"]]

    assert hardened.worker()["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert hardened.resources[alias]["Type"] == "AWS::Lambda::Alias"
    assert dev.only(MAPPING)["FunctionName"] == {"Fn::GetAtt": [function, "Arn"]}
    assert "SnapStart" not in dev.worker()


def test_an_object_a_clock_and_an_alarm_call_their_functions(events: Synthesized) -> None:
    rules = [one for one in events.of("AWS::Events::Rule").values() if "Targets" in one]
    (clock,) = [one for one in rules if "ScheduleExpression" in one]
    changed, leak = (
        next(one for one in rules if one.get("EventPattern", {}).get("source") == [source])
        for source in ("aws.s3", "aws.cloudwatch")
    )
    (alarm,) = leak["EventPattern"]["resources"]
    called = {
        name: target_function(events, rule)
        for name, rule in (("changed", changed), ("clock", clock), ("leak", leak))
    }

    assert called == {
        "changed": "handlers.invalidate.handler",
        "clock": "handlers.recover.handler",
        "leak": "handlers.recover.handler",
    }
    assert changed["EventPattern"]["detail-type"] == ["Object Created", "Object Deleted"]
    assert changed["EventPattern"]["detail"]["object"] == {"key": [{"prefix": "flights/"}]}
    assert clock["ScheduleExpression"] == "rate(5 minutes)"
    assert leak["EventPattern"]["detail"] == {"state": {"value": ["ALARM"]}}
    assert events.resources[alarm["Fn::GetAtt"][0]]["Properties"]["AlarmName"] == (
        "Sekali-dev-lock-leak"
    )
    for config in events.of("AWS::Lambda::EventInvokeConfig").values():
        assert config["DestinationConfig"]["OnFailure"]
        assert config["MaximumEventAgeInSeconds"] == 3600


def target_function(stack: Synthesized, rule: Resource) -> str:
    """The handler that a rule calls; what cannot be delivered is kept."""
    (target,) = rule["Targets"]
    assert target["DeadLetterConfig"]
    handler: str = stack.resources[target["Arn"]["Fn::GetAtt"][0]]["Properties"]["Handler"]
    return handler


def test_what_events_call_is_what_has_a_failure_destination(
    hardened: Synthesized, dev: Synthesized
) -> None:
    """An alias does not take over what is set on `$LATEST`: failed events were lost."""
    for stack, alias in ((dev, False), (hardened, True)):
        configs = list(stack.of("AWS::Lambda::EventInvokeConfig").values())
        called = {
            json.dumps(target["Arn"])
            for rule in stack.of("AWS::Events::Rule").values()
            for target in rule.get("Targets", [])
        }

        assert len(configs) == len(called) == 2
        for config, arn in zip(configs, sorted(called), strict=True):
            assert config["DestinationConfig"]["OnFailure"]
            # The alias' name is the last part of its ARN.
            assert ("Alias" in arn) == alias
            assert ("Alias" in json.dumps(config["Qualifier"])) == alias
            assert alias or config["Qualifier"] == "$LATEST"


def test_who_calls_an_alias_may_call_it(hardened: Synthesized) -> None:
    aliases = hardened.of("AWS::Lambda::Alias").keys()
    permitted = {
        one["FunctionName"]["Ref"] for one in hardened.of("AWS::Lambda::Permission").values()
    }
    polled = hardened.only(MAPPING)["FunctionName"]["Ref"]

    # The mapping needs none: Lambda polls with the function's role.
    assert polled in aliases
    assert permitted == aliases - {polled}


def test_the_environment_of_each_function_is_valid_for_the_library(
    every_or_own: Synthesized, events: Synthesized
) -> None:
    for stack in (every_or_own, events):
        for function in stack.of(FUNCTION).values():
            environment = {
                name: resolved(value, stack.resources)
                for name, value in function["Environment"]["Variables"].items()
            }

            settings = Settings.from_env(environment)

            assert settings.cache_url.startswith("valkeys://")
            assert environment["POWERTOOLS_METRICS_NAMESPACE"] == "Sekali"
            assert environment["REPORTS_DATA_BUCKET"] == settings.results_bucket


def test_the_worker_is_told_the_numbers_of_its_queue(every_or_own: Synthesized) -> None:
    variables = every_or_own.worker()["Environment"]["Variables"]
    environment = {
        name: resolved(value, every_or_own.resources) for name, value in variables.items()
    }
    source, _ = queues(every_or_own)

    settings = Settings.from_env(environment)

    assert settings.for_worker()
    assert settings.visibility_seconds == source["VisibilityTimeout"]
    assert settings.retention_seconds == source["MessageRetentionPeriod"]
    assert settings.fifo == source.get("FifoQueue", False)


def test_the_environment_signs_for_the_cache_that_is_deployed(
    dev: Synthesized, serverless: Synthesized, host: Synthesized
) -> None:
    node_based = dev.worker()["Environment"]["Variables"]
    without_nodes = serverless.worker()["Environment"]["Variables"]

    assert node_based["SEKALI_CACHE_NAME"] == dev.only(GROUP)["ReplicationGroupId"]
    assert node_based["SEKALI_CACHE_SERVERLESS"] == node_based["SEKALI_CACHE_CLUSTER"] == "false"
    assert without_nodes["SEKALI_CACHE_NAME"] == serverless.only(SERVERLESS)["ServerlessCacheName"]
    assert without_nodes["SEKALI_CACHE_SERVERLESS"] == "true"
    assert without_nodes["SEKALI_CACHE_CLUSTER"] == "true"
    assert "SEKALI_CACHE_IAM_USER" not in host.worker()["Environment"]["Variables"]


def test_the_public_layer_of_powertools_takes_the_place_of_our_own_copy(
    variant: Callable[[str], Synthesized],
) -> None:
    pollers = variant("pollers")
    template = pollers.text
    packages = {entry.name for entry in (pollers.assets()["vendor"] / "python").iterdir()}

    assert "/aws/service/powertools/python/arm64/python3.13/3.37.0" in template
    assert len(pollers.worker()["Layers"]) == 3
    assert "redis" in packages
    assert not packages & {"aws_lambda_powertools", "aws_xray_sdk", "jmespath", "wrapt"}
