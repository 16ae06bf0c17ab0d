"""What the deployed function must be, and what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali.settings import Settings
from tests.infra.synthesized import FUNCTION, GROUP, SERVERLESS, queues, resolved

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow


def test_the_worker_is_a_current_python_on_arm64(dev: Synthesized) -> None:
    function = dev.only(FUNCTION)

    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]
    assert function["Handler"] == "handlers.reports.handler"
    assert len(function["Layers"]) == 2


def test_the_worker_traces_and_logs_json_into_a_group_that_forgets(
    dev: Synthesized, prod: Synthesized
) -> None:
    for stack, days in ((dev, 7), (prod, 90)):
        function = stack.only(FUNCTION)
        (group,) = stack.of("AWS::Logs::LogGroup")

        assert function["TracingConfig"] == {"Mode": "Active"}
        assert function["LoggingConfig"] == {"LogFormat": "JSON", "LogGroup": {"Ref": group}}
        assert stack.only("AWS::Logs::LogGroup")["RetentionInDays"] == days


def test_a_delayed_copy_to_the_own_queue_is_not_taken_for_a_runaway_loop(
    every: Synthesized,
) -> None:
    assert every.only(FUNCTION)["RecursiveLoop"] == "Allow"


def test_the_only_function_of_the_stack_is_ours(every: Synthesized) -> None:
    """A custom resource of the CDK would bring a function with permissions of its own."""
    kinds = [resource["Type"] for resource in every.resources.values()]

    assert kinds.count(FUNCTION) == 1
    assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))]


def test_the_environment_of_each_function_is_valid_for_the_library(every: Synthesized) -> None:
    for function in every.of(FUNCTION).values():
        environment = {
            name: resolved(value, every.resources)
            for name, value in function["Environment"]["Variables"].items()
        }

        settings = Settings.from_env(environment)

        source, _ = queues(every)
        assert settings.for_worker()
        assert settings.visibility_seconds == source["VisibilityTimeout"]
        assert settings.retention_seconds == source["MessageRetentionPeriod"]
        assert settings.cache_url.startswith("valkeys://")
        assert environment["POWERTOOLS_METRICS_NAMESPACE"] == "Sekali"
        assert environment["REPORTS_DATA_BUCKET"] == settings.results_bucket


def test_the_environment_signs_for_the_cache_that_is_deployed(
    dev: Synthesized, serverless: Synthesized, host: Synthesized
) -> None:
    node_based = dev.only(FUNCTION)["Environment"]["Variables"]
    without_nodes = serverless.only(FUNCTION)["Environment"]["Variables"]

    assert node_based["SEKALI_CACHE_NAME"] == dev.only(GROUP)["ReplicationGroupId"]
    assert node_based["SEKALI_CACHE_SERVERLESS"] == node_based["SEKALI_CACHE_CLUSTER"] == "false"
    assert without_nodes["SEKALI_CACHE_NAME"] == serverless.only(SERVERLESS)["ServerlessCacheName"]
    assert without_nodes["SEKALI_CACHE_SERVERLESS"] == "true"
    assert without_nodes["SEKALI_CACHE_CLUSTER"] == "true"
    assert "SEKALI_CACHE_IAM_USER" not in host.only(FUNCTION)["Environment"]["Variables"]
