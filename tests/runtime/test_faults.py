"""What befalls the stack's lines when a fault is switched on, and that it ends with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from infra.local.aws import Aws
from infra.local.aws_calls import AwsCalls
from infra.local.faults import Weather, slow_objects, throttled_table
from infra.local.round_trips import RoundTrips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.relay import Address, Relay

pytestmark = pytest.mark.slow


@pytest.fixture
def weather() -> Weather:
    return Weather()


@pytest.fixture
def calls() -> AwsCalls:
    return AwsCalls()


@pytest.fixture
def far(relay: Relay, aws_address: Address, calls: AwsCalls, weather: Weather) -> Iterator[Aws]:
    """Clients of the AWS interfaces, behind a door with weather."""
    door = relay.open(aws_address, calls.observe, weather=weather)
    clients = Aws(door.address)
    yield clients
    clients.close()
    door.close()


def test_a_cut_line_is_refused_and_comes_back(
    relay: Relay, valkey_url: str, weather: Weather, valkey: Redis
) -> None:
    del valkey
    port = int(valkey_url.rpartition(":")[2])
    door = relay.open(("127.0.0.1", port), RoundTrips().observe, weather=weather)
    host, number = door.address
    with Redis(host=host, port=number, retry=Retry(NoBackoff(), 0)) as client:
        client.ping()

        weather.cut = True
        with pytest.raises(RedisConnectionError):
            client.ping()
        weather.cut = False

        assert client.ping()
    door.close()


def test_a_table_over_its_capacity_refuses_and_other_services_do_not(
    far: Aws, calls: AwsCalls, weather: Weather
) -> None:
    weather.refused = throttled_table

    with pytest.raises(ClientError, match="ProvisionedThroughputExceeded"):
        far.dynamodb.list_tables()
    assert far.sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200

    refused = [call for call in calls.all() if call.service == "dynamodb"]
    assert {call.refusal for call in refused} == {"ProvisionedThroughputExceededException"}


def test_only_requests_for_objects_wait(far: Aws, calls: AwsCalls, weather: Weather) -> None:
    weather.delay = slow_objects(0.3)

    began = time.monotonic()
    far.s3.list_buckets()
    waited = time.monotonic() - began
    far.sqs.list_queues()

    assert waited >= 0.3
    (objects,) = (call for call in calls.all() if call.service == "s3")
    assert objects.seconds >= 0.3
