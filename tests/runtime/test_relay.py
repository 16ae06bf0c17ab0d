"""What is measured from outside: round trips to the cache, and calls to the AWS interfaces."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from infra.local.aws import Aws
from infra.local.aws_calls import AwsCalls
from infra.local.relay import Relay
from infra.local.round_trips import RespReader, RoundTrips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.relay import Address


@pytest.fixture
def trips() -> RoundTrips:
    return RoundTrips()


@pytest.fixture
def through(relay: Relay, valkey_url: str, trips: RoundTrips, valkey: Redis) -> Iterator[Redis]:
    """A client of an empty Valkey, connected through a relay."""
    del valkey
    port = int(valkey_url.rpartition(":")[2])
    door = relay.open(("127.0.0.1", port), trips.observe)
    with Redis(host=door.address[0], port=door.address[1], protocol=3) as client:
        client.ping()
        trips.flushes = 0
        yield client
    door.close()


def test_a_command_is_one_round_trip(through: Redis, trips: RoundTrips) -> None:
    through.set("a", b"1")
    answer = through.get("a")

    assert answer == b"1"
    assert trips.flushes == 2


PIPELINE = """
import sys
from redis import Redis
from redis.backoff import NoBackoff
client = Redis(host="127.0.0.1", port=int(sys.argv[1]), protocol=3)
client.ping()
sys.stdin.readline()
pipeline = client.pipeline(transaction=False)
for number in range(2_000):
    pipeline.set(f"key {number}", b"x" * 500)
    pipeline.get(f"key {number}")
answers = pipeline.execute()
print(len(answers), len(answers[-1]))
"""


@pytest.mark.slow
def test_a_pipeline_is_one_round_trip_however_many_writes_it_takes(
    relay: Relay, valkey_url: str, trips: RoundTrips
) -> None:
    """A server that had caught up with a client that was still sending made two flushes of one."""
    door = relay.open(("127.0.0.1", int(valkey_url.rpartition(":")[2])), trips.observe)
    client = subprocess.Popen(
        [sys.executable, "-c", PIPELINE, str(door.address[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    trips.client_pid = client.pid

    answers, _ = client.communicate(b"go\n", timeout=60)

    assert answers == b"4000 500\n"
    assert trips.commands >= 4_000
    assert trips.flushes == 1 + 1
    door.close()


def test_setting_a_connection_up_is_counted_apart(
    relay: Relay, valkey_url: str, trips: RoundTrips
) -> None:
    port = int(valkey_url.rpartition(":")[2])
    door = relay.open(("127.0.0.1", port), trips.observe)

    with Redis(host="127.0.0.1", port=door.address[1], protocol=3) as client:
        client.ping()

    assert trips.flushes == 1
    assert trips.setup_flushes >= 1
    door.close()


def test_connections_of_one_client_add_up(through: Redis, trips: RoundTrips) -> None:
    pool = through.connection_pool
    other = pool.get_connection()
    other.send_command("PING")  # type: ignore[no-untyped-call]  # redis-py's.
    other.read_response()
    through.ping()
    pool.release(other)

    assert trips.flushes == 2


def test_a_server_that_is_not_there_is_seen_as_a_closed_connection(
    relay: Relay, trips: RoundTrips
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()
    door = relay.open(nobody, trips.observe)

    once = Retry(NoBackoff(), retries=0)
    with (
        Redis(host="127.0.0.1", port=door.address[1], retry=once) as client,
        pytest.raises(RedisConnectionError),
    ):
        client.ping()
    door.close()


def test_the_protocol_is_read_in_whatever_pieces_it_comes() -> None:
    stream = (
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
        b"*3\r\n$3\r\nset\r\n$4\r\n\r\n\r\n\r\n$0\r\n\r\n"
        b"*1\r\n$4\r\nPING\r\n"
    )

    for size in (1, 2, 3, 7, len(stream)):
        reader = RespReader(first_word=True)
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [label for piece in pieces for label in reader.feed(piece)] == [
            b"GET",
            b"SET",
            b"PING",
        ]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        (b"+OK\r\n", b"+"),
        (b"-ERR no\r\n", b"-"),
        (b":1\r\n", b":"),
        (b"$-1\r\n", b"$"),
        (b"$2\r\nhi\r\n", b"$"),
        (b"_\r\n", b"_"),
        (b"*-1\r\n", b"*"),
        (b"*0\r\n", b"*"),
        (b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n", b"*"),
        (b"%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n", b"%"),
        (b">2\r\n+invalidate\r\n*0\r\n", b">"),
    ],
)
def test_each_kind_of_reply_is_one_item(reply: bytes, label: bytes) -> None:
    assert RespReader(first_word=False).feed(reply + reply) == [label, label]


def test_bytes_that_are_no_protocol_are_forgotten() -> None:
    reader = RespReader(first_word=False)

    assert reader.feed(b"$what\r\n") == []
    assert reader.feed(b"+OK\r\n") == [b"+"]


@pytest.fixture
def calls() -> AwsCalls:
    return AwsCalls()


@pytest.fixture
def aws_through(relay: Relay, aws_address: Address, calls: AwsCalls) -> Iterator[Aws]:
    door = relay.open(aws_address, calls.observe)
    yield Aws(door.address)
    door.close()


@pytest.mark.slow
def test_a_write_counts_when_the_server_accepted_it(aws_through: Aws, calls: AwsCalls) -> None:
    table: dict[str, Any] = {  # boto3's keywords.
        "TableName": "results",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    aws_through.dynamodb.create_table(**table)
    write: dict[str, Any] = {  # boto3's keywords.
        "TableName": "results",
        "Item": {"pk": {"S": "one"}, "text": {"S": "é" * 40_000}},
        "ConditionExpression": "attribute_not_exists(pk)",
    }

    aws_through.dynamodb.put_item(**write)
    with pytest.raises(aws_through.dynamodb.exceptions.ConditionalCheckFailedException):
        aws_through.dynamodb.put_item(**write)

    assert [item["pk"] for _, item in calls.accepted_writes("results")] == [{"S": "one"}]
    puts = [call for call in calls.all() if call.operation == "PutItem"]
    assert [(call.service, call.status) for call in puts] == [("dynamodb", 200), ("dynamodb", 400)]


@pytest.mark.slow
def test_bytes_of_objects_pass_unchanged(aws_through: Aws, calls: AwsCalls) -> None:
    body = bytes(range(256)) * 20_000
    aws_through.s3.create_bucket(Bucket="objects")

    aws_through.s3.put_object(Bucket="objects", Key="a", Body=body)
    read = aws_through.s3.get_object(Bucket="objects", Key="a")["Body"].read()

    assert read == body
    assert [(call.service, call.operation, call.status) for call in calls.all()] == [
        ("s3", "PUT", 200),
        ("s3", "PUT", 200),
        ("s3", "GET", 200),
    ]
    assert calls.unreadable == 0


@pytest.mark.slow
def test_calls_of_several_threads_are_told_apart(aws_through: Aws, calls: AwsCalls) -> None:
    url = aws_through.sqs.create_queue(QueueName="relayed")["QueueUrl"]

    def send() -> None:
        for _ in range(10):
            aws_through.sqs.send_message(QueueUrl=url, MessageBody="a")

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    sent = [call for call in calls.all() if call.operation == "SendMessage"]
    assert len(sent) == 40
    assert {call.service for call in sent} == {"sqs"}


def test_relay_that_ends_closes_both_ends_of_what_is_open(trips: RoundTrips) -> None:
    relay = Relay()
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        door = relay.open((host, port), trips.observe)
        with socket.create_connection(door.address) as near:
            far, _ = server.accept()
            near.sendall(b"there")
            assert far.recv(5) == b"there"

            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", ResourceWarning)
                relay.close()
                del relay, door
                gc.collect()
                left = [str(one.message) for one in told if "transport" in str(one.message)]

            far.settimeout(10)
            near.settimeout(10)
            with far, suppress(ConnectionResetError):
                assert far.recv(1) == b""
            with suppress(ConnectionResetError):
                assert near.recv(1) == b""
    assert left == []
