"""AWS' own metrics, under the names and dimensions that AWS publishes them with.

What is not published under exactly these dimensions is never there: a graph of it is empty, and an
alarm on it silent for ever. From the lists of metrics in AWS' documentation of each service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.monitored import Monitored, spelled_out

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

QUEUE = frozenset({"QueueName"})
FUNCTION = frozenset({"FunctionName"})
MAPPING = frozenset({"EventSourceMappingUUID"})
TABLE = frozenset({"TableName"})
OPERATION = frozenset({"TableName", "Operation"})
NODE = frozenset({"CacheClusterId"})
SERVERLESS = frozenset({"clusterId"})

PUBLISHED = {
    "AWS/SQS": {
        "ApproximateAgeOfOldestMessage": QUEUE,
        "ApproximateNumberOfMessagesDelayed": QUEUE,
        "ApproximateNumberOfMessagesNotVisible": QUEUE,
        "ApproximateNumberOfMessagesVisible": QUEUE,
        "NumberOfMessagesDeleted": QUEUE,
        "NumberOfMessagesReceived": QUEUE,
        "NumberOfMessagesSent": QUEUE,
    },
    "AWS/Lambda": {
        "ConcurrentExecutions": FUNCTION,
        "Duration": FUNCTION,
        "Errors": FUNCTION,
        "Invocations": FUNCTION,
        "Throttles": FUNCTION,
        "DeletedEventCount": MAPPING,
        "FailedInvokeEventCount": MAPPING,
        "InvokedEventCount": MAPPING,
        "PolledEventCount": MAPPING,
    },
    "AWS/DynamoDB": {
        "ConditionalCheckFailedRequests": TABLE,
        "ConsumedReadCapacityUnits": TABLE,
        "ConsumedWriteCapacityUnits": TABLE,
        "ReadThrottleEvents": TABLE,
        "SuccessfulRequestLatency": OPERATION,
        "WriteThrottleEvents": TABLE,
    },
    "AWS/Events": {"TriggeredRules": frozenset({"RuleName"})},
}
NODES = {
    "CurrConnections": NODE,
    "CurrItems": NODE,
    "DatabaseMemoryUsagePercentage": NODE,
    "EngineCPUUtilization": NODE,
    "Evictions": NODE,
}
SERVERLESS_CACHE = {
    "BytesUsedForCache": SERVERLESS,
    "CurrConnections": SERVERLESS,
    "ElastiCacheProcessingUnits": SERVERLESS,
    "Evictions": SERVERLESS,
    "SuccessfulReadRequestLatency": SERVERLESS,
    "SuccessfulWriteRequestLatency": SERVERLESS,
    "ThrottledCmds": SERVERLESS,
}


def test_each_is_read_under_the_dimensions_that_aws_publishes(every_or_own: Synthesized) -> None:
    serverless = bool(every_or_own.of("AWS::ElastiCache::ServerlessCache"))
    published = PUBLISHED | {"AWS/ElastiCache": SERVERLESS_CACHE if serverless else NODES}

    read = Monitored.of(every_or_own).vended()

    assert read == {
        (namespace, name): {dimensions}
        for namespace, metrics in published.items()
        for name, dimensions in metrics.items()
    }


def test_the_mapping_counts_the_events_that_are_drawn(every: Synthesized) -> None:
    """Without this setting Lambda publishes none of them."""
    (mapping,) = every.of("AWS::Lambda::EventSourceMapping").values()

    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}


def test_each_node_of_the_cache_is_watched_by_the_name_that_it_gets(
    dev: Synthesized, prod: Synthesized, hardened: Synthesized
) -> None:
    """ElastiCache numbers the nodes of a group, and of each shard where there are shards."""
    for stack, suffixes in (
        (dev, {"-001"}),
        (prod, {"-001", "-002"}),
        (hardened, {"-0001-001", "-0001-002", "-0002-001", "-0002-002"}),
    ):
        (group,) = stack.of("AWS::ElastiCache::ReplicationGroup").values()
        name = spelled_out(group["ReplicationGroupId"], stack)

        nodes = {
            dict(query.metric.dimensions)["CacheClusterId"]
            for widget in Monitored.of(stack).widgets
            for query in widget.queries
            if query.metric is not None and query.metric.name == "Evictions"
        }

        assert nodes == {f"{name}{suffix}" for suffix in suffixes}


def test_each_dimension_names_a_resource_of_this_stack(dev: Synthesized) -> None:
    functions = {name.lower() for name in dev.of("AWS::Lambda::Function")}
    tables = {name.lower() for name in dev.of("AWS::DynamoDB::Table")}
    for query in Monitored.of(dev).queries():
        named = dict(query.metric.dimensions) if query.metric is not None else {}

        assert named.get("FunctionName", next(iter(functions))) in functions
        assert named.get("TableName", next(iter(tables))) in tables
