"""The queue in memory does with a message what SQS does, as far as its page says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sekali import Producer, Request
from sekali.testing import FrozenClock, MemoryQueue, sqs_event, sqs_record


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def queue(clock: FrozenClock) -> MemoryQueue:
    return MemoryQueue(clock=clock)


@pytest.fixture
def producer(queue: MemoryQueue, clock: FrozenClock) -> Producer:
    client: Any = queue  # Any: a part of boto3's client
    return Producer(queue.url, client, clock=clock, sleep=clock.sleep)


def test_delayed_message_is_seen_when_it_is_due(
    queue: MemoryQueue, producer: Producer, clock: FrozenClock
) -> None:
    producer.send("ship", {"n": 1}, delay_seconds=60)

    before = queue.receive()
    clock.sleep(60)
    after = queue.receive()

    assert before == []
    assert [json.loads(record["body"])["payload"] for record in after] == [{"n": 1}]


def test_received_message_comes_back_unless_it_is_deleted(
    queue: MemoryQueue, producer: Producer, clock: FrozenClock
) -> None:
    producer.send_many([Request(name="ship", payload={"n": n}) for n in range(2)])
    first, second = queue.receive()
    queue.delete([first["messageId"]])

    hidden = queue.receive()
    clock.sleep(180)
    [back] = queue.receive()

    assert hidden == []
    assert back["messageId"] == second["messageId"]
    assert back["attributes"]["ApproximateReceiveCount"] == "2"


def test_hidden_message_stays_away_for_as_long_as_it_was_told(
    queue: MemoryQueue, producer: Producer, clock: FrozenClock
) -> None:
    producer.send("ship", {"n": 1})
    [record] = queue.receive()
    entry = {"Id": "0", "ReceiptHandle": record["receiptHandle"], "VisibilityTimeout": 5}

    queue.change_message_visibility_batch(QueueUrl=queue.url, Entries=[entry])
    clock.sleep(4)
    early = queue.receive()
    clock.sleep(1)

    assert early == []
    assert len(queue.receive()) == 1


def test_attributes_and_trace_arrive_as_lambda_hands_them_over(
    queue: MemoryQueue, producer: Producer
) -> None:
    producer.send("ship", {"n": 1}, trace="Root=1-5e1b4151-5ac6c58f40d0a3d7d7c5f8a1")
    queue.send_message(
        QueueUrl=queue.url,
        MessageBody="{}",
        MessageAttributes={"sekali.job": {"DataType": "String", "StringValue": "ship"}},
    )

    traced, named = queue.receive()

    assert traced["attributes"]["AWSTraceHeader"].startswith("Root=1-5e1b4151")
    expected = {"sekali.job": {"dataType": "String", "stringValue": "ship"}}
    assert named["messageAttributes"] == expected


def test_event_takes_bodies_and_records_alike() -> None:
    record = sqs_record({"n": 1}, attributes={"sekali.job": "ship"}, receives=3)

    event = sqs_event(record, {"n": 2}, "text")

    assert [one["body"] for one in event["Records"]] == ['{"n": 1}', '{"n": 2}', "text"]
    assert event["Records"][0]["attributes"]["ApproximateReceiveCount"] == "3"
