"""The producer with a table, a bucket and a queue: offloaded payloads, results, coroutines."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from sekali import AsyncProducer, JobFailed, Producer, Request, ResultTimeout
from sekali.codec import payload_hash
from sekali.errors import MessageInvalid, SettingInvalid, StoreUnavailable
from sekali.message import decode, derive_id
from sekali.outgoing import MAX_MESSAGE_BYTES
from sekali.payload_bucket import Payloads
from sekali.settling import encode_error
from sekali.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TABLE = "results"
BUCKET = "large"
LARGE: dict[str, object] = {"x": "é" * MAX_MESSAGE_BYTES}


class FakeClock:
    """Time that passes by sleeping only; whoever sleeps may let something happen."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.pauses: list[float] = []
        self.meanwhile: list[Any] = []  # Any: callables of the test

    def wall(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()


@pytest.fixture
def queue_url() -> Iterator[str]:
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        boto3.client("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield boto3.client("sqs").create_queue(QueueName="jobs")["QueueUrl"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def client(service: str) -> Any:  # Any: boto3 makes its classes at run time
    return boto3.client(service)  # type: ignore[call-overload] # any service


def producer(queue_url: str, clock: FakeClock, **options: Any) -> Producer:
    given: dict[str, Any] = {"bucket": BUCKET, "table_name": TABLE, "client_factory": client}
    given |= options
    return Producer(queue_url, clock=clock, sleep=clock.sleep, **given)


def received(queue_url: str) -> list[dict[str, Any]]:
    messages = boto3.client("sqs").receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10)
    return [json.loads(message["Body"]) for message in messages.get("Messages", [])]


def record(clock: FakeClock, job_id: str, **outcome: Any) -> None:
    store = Store(TABLE, clock=clock, bucket=BUCKET, client_factory=client)
    ended: dict[str, Any] = {"outcome": "done", "payload_hash": "p", "fence": 1, "token": "t"}
    store.record("report", job_id, ttl_seconds=900.0, **ended | outcome)


def test_large_payload_goes_to_the_bucket_and_the_job_stays_the_same(
    queue_url: str, clock: FakeClock
) -> None:
    job_id = producer(queue_url, clock).send("report", LARGE)

    [body] = received(queue_url)
    payloads = Payloads(BUCKET, lambda: boto3.client("s3"))
    message = decode({"body": json.dumps(body)}, default_job=None, payloads=payloads)
    assert dict(message.payload) == LARGE
    assert (message.id, job_id) == (job_id, derive_id("report", LARGE))
    assert body["payload_ref"]["hash"] == payload_hash(LARGE)


@pytest.mark.parametrize(("above_bytes", "field"), [(0, "payload_ref"), (300, "payload")])
def test_payload_is_offloaded_above_the_size_of_message_that_was_set(
    queue_url: str, clock: FakeClock, above_bytes: int, field: str
) -> None:
    producer(queue_url, clock, offload_above_bytes=above_bytes).send("report", {"x": 1})

    [body] = received(queue_url)
    assert {"payload", "payload_ref"} & set(body) == {field}


def test_without_a_bucket_a_large_payload_is_refused(queue_url: str, clock: FakeClock) -> None:
    with pytest.raises(MessageInvalid) as caught:
        producer(queue_url, clock, bucket=None).send("report", LARGE)

    assert (caught.value.reason, caught.value.field) == ("payload_rejected", "body")


def test_bucket_that_takes_nothing_keeps_one_job_back_and_not_its_neighbours(
    queue_url: str, clock: FakeClock
) -> None:
    sender = producer(queue_url, clock, bucket="no-such-bucket")
    large = Request(name="report", payload=LARGE, id="large")

    sent = sender.send_many([Request(name="report", payload={"x": 1}, id="a"), large])

    assert sent.ids == ["a"]
    assert [(lost.request, lost.code) for lost in sent.unsent] == [(large, "StoreUnavailable")]
    with pytest.raises(StoreUnavailable):
        sender.send("report", LARGE)


def test_size_that_no_message_may_have_is_refused_at_once(queue_url: str, clock: FakeClock) -> None:
    with pytest.raises(SettingInvalid, match="offload_above_bytes must be between 0 and 1048576"):
        producer(queue_url, clock, offload_above_bytes=MAX_MESSAGE_BYTES + 1)


def test_result_that_is_there_is_returned_at_once(queue_url: str, clock: FakeClock) -> None:
    record(clock, "a", result=b'{"late": 12.5}')

    result = producer(queue_url, clock).wait("a", name="report")

    assert result == {"late": 12.5}
    assert clock.pauses == []


def test_result_is_waited_for_with_pauses_that_grow(queue_url: str, clock: FakeClock) -> None:
    clock.meanwhile = [lambda: None] * 11 + [lambda: record(clock, "a", result=b"7")]

    result = producer(queue_url, clock).wait("a", name="report")

    assert result == 7
    assert len(clock.pauses) == 12
    assert clock.pauses[0] <= 0.1
    assert 1.0 <= max(clock.pauses) <= 2.0


def test_large_result_is_read_from_the_bucket(queue_url: str, clock: FakeClock) -> None:
    text = "x" * 400_000
    record(clock, "a", result=json.dumps(text).encode())

    assert producer(queue_url, clock).wait("a", name="report") == text


def test_failed_job_raises_what_its_record_says(queue_url: str, clock: FakeClock) -> None:
    error = encode_error("permanent", ValueError("no such month"))
    record(clock, "a", outcome="failed", error=error)

    with pytest.raises(JobFailed) as caught:
        producer(queue_url, clock).wait("a", name="report")

    assert str(caught.value) == (
        "job 'report' with id 'a' failed (permanent): ValueError: no such month"
    )
    assert (caught.value.reason, caught.value.error_type) == ("permanent", "ValueError")


def test_wait_ends_when_its_time_is_over_and_not_before(queue_url: str, clock: FakeClock) -> None:
    with pytest.raises(ResultTimeout) as caught:
        producer(queue_url, clock).wait("a", name="report", timeout_seconds=30.0)

    assert caught.value.waited_seconds == pytest.approx(30.0)
    assert clock.seconds == pytest.approx(1_030.0)


def test_table_that_is_away_for_a_while_only_delays_the_answer(
    queue_url: str, clock: FakeClock
) -> None:
    sender = producer(queue_url, clock, table_name="later")
    store = Store("later", clock=clock, client_factory=client)

    def appear() -> None:
        boto3.client("dynamodb").create_table(
            TableName="later",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        store.record(
            "report",
            "a",
            outcome="done",
            payload_hash="p",
            fence=1,
            token="t",
            ttl_seconds=900.0,
            result=b"7",
        )

    with pytest.raises(StoreUnavailable):
        sender.wait("a", name="report", timeout_seconds=1.0)
    clock.meanwhile = [appear]

    assert sender.wait("a", name="report") == 7


def test_wait_without_a_table_is_refused(queue_url: str, clock: FakeClock) -> None:
    with pytest.raises(SettingInvalid, match="table_name must be given"):
        producer(queue_url, clock, table_name=None).wait("a", name="report")


def test_threads_share_one_client_of_each_service(queue_url: str, clock: FakeClock) -> None:
    made: list[str] = []
    together = threading.Barrier(8)

    def factory(service: str) -> Any:  # Any: as above
        made.append(service)
        return client(service)

    sender = producer(queue_url, clock, client_factory=factory)

    def send(number: int) -> None:
        together.wait()
        sender.send("report", {"x": number})

    threads = [threading.Thread(target=send, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == ["sqs"]


def test_coroutines_send_and_wait(queue_url: str, clock: FakeClock) -> None:
    sender = AsyncProducer(producer(queue_url, clock))

    async def go() -> Any:  # Any: the job's result
        job_id = await sender.send("report", {"x": 1}, id="a", delay_seconds=0)
        record(clock, job_id, result=b"7")
        return await sender.wait(job_id, name="report")

    assert asyncio.run(go()) == 7
    assert [body["id"] for body in received(queue_url)] == ["a"]


def test_loop_goes_on_while_a_result_is_waited_for(queue_url: str) -> None:
    sender = AsyncProducer(Producer(queue_url, table_name=TABLE, client_factory=client))
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.005)

    async def go() -> None:
        ticking = asyncio.create_task(tick())
        with pytest.raises(ResultTimeout):
            await sender.wait("a", name="report", timeout_seconds=0.2)
        ticking.cancel()

    asyncio.run(go())

    assert len(ticks) > 5


@pytest.mark.parametrize("number", [0, 3, 250])
def test_requests_may_come_from_an_async_generator(
    queue_url: str, clock: FakeClock, number: int
) -> None:
    sender = AsyncProducer(producer(queue_url, clock))

    async def requests() -> AsyncIterator[Request]:
        for index in range(number):
            await asyncio.sleep(0)
            yield Request(name="report", payload={"x": index}, id=f"id-{index}")

    async def go() -> Any:  # Any: Sent
        return await sender.send_many(requests())

    sent = asyncio.run(go())

    assert sent.ids == [f"id-{index}" for index in range(number)]
    assert not sent.unsent


def test_requests_may_come_from_a_list_for_coroutines_too(queue_url: str, clock: FakeClock) -> None:
    sender = AsyncProducer(producer(queue_url, clock))
    good = Request(name="report", payload={"x": 1}, id="a")
    bad = Request(name="no such", payload={"x": 1})

    sent = asyncio.run(sender.send_many([good, bad]))

    assert (sent.ids, [lost.request for lost in sent.unsent]) == (["a"], [bad])
