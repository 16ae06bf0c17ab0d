"""A worker with a real Valkey, and tables and queues of moto in process."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import boto3
from moto import mock_aws

from sekali import Unwrap, Worker, warm
from tests.result_table import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

    from sekali.telemetry.events import Event

TABLE = "results"
BUCKET = "large-results"

_numbers = count(1)


@dataclass(frozen=True)
class Context:
    """What the worker reads of Lambda's context, with time that really passes."""

    seconds: float = 30.0
    aws_request_id: str = "request-1"
    born: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return max(int((self.born + self.seconds - time.monotonic()) * 1000), 0)


@dataclass(frozen=True)
class Kit:
    """Tables and queues beside a Valkey, and the events that workers told."""

    dynamodb: DynamoDBClient
    sqs: SQSClient
    s3: S3Client
    queue_url: str
    dead_letter_queue_url: str
    events: list[Event]

    def worker(self, service: str = "tests", *, unwrap: Unwrap | None = None) -> Worker:
        """Return a worker whose container is new, as after a cold start."""
        warm.reset()
        return Worker(service, hooks=[self.events.append], unwrap=unwrap or Unwrap())

    def row(self, name: str, job_id: str) -> dict[str, Any] | None:
        """Return the durable record of an id as DynamoDB holds it."""
        key = {"pk": {"S": f"{name}/{job_id}"}}
        return self.dynamodb.get_item(TableName=TABLE, Key=key).get("Item")

    def copies(self) -> list[dict[str, Any]]:
        """Take what waits in the queue, delayed copies included."""
        return self._drain(self.queue_url)

    def dead_letters(self) -> list[dict[str, Any]]:
        """Take what waits in the dead letter queue."""
        return self._drain(self.dead_letter_queue_url)

    def _drain(self, url: str) -> list[dict[str, Any]]:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.sqs.models import sqs_backends

        name = url.rsplit("/", 1)[-1]
        # Through the back door, because nobody can receive what is delayed.
        queue: Any = sqs_backends[DEFAULT_ACCOUNT_ID]["eu-west-1"].queues[name]
        waiting = queue._messages  # noqa: SLF001
        taken = [
            {
                "body": message.body,
                "attributes": {
                    key: value.get("StringValue", value.get("string_value"))
                    for key, value in message.message_attributes.items()
                },
                "delay_seconds": (message.delayed_until - message.sent_timestamp) / 1000,
            }
            for message in waiting
        ]
        waiting.clear()
        return taken


@contextmanager
def started_kit(monkeypatch: pytest.MonkeyPatch, valkey_url: str, **settings: str) -> Iterator[Kit]:
    """Make table and queues, and set the environment that a deployed worker has."""
    with mock_aws():
        dynamodb = boto3.client("dynamodb")
        dynamodb.create_table(TableName=TABLE, **DEFINITION)
        s3 = boto3.client("s3")
        s3.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        sqs = boto3.client("sqs")
        queue_url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        dead_letter_queue_url = sqs.create_queue(QueueName="jobs-dead")["QueueUrl"]
        environment = {
            "SEKALI_CACHE_URL": valkey_url,
            # A busy machine may stop a server for longer than production should wait.
            "SEKALI_CACHE_TIMEOUT_SECONDS": "10",
            "SEKALI_CACHE_CONNECT_TIMEOUT_SECONDS": "10",
            "SEKALI_TABLE_NAME": TABLE,
            "SEKALI_RESULTS_BUCKET": BUCKET,
            "SEKALI_QUEUE_URL": queue_url,
            "SEKALI_DEAD_LETTER_QUEUE_URL": dead_letter_queue_url,
            "SEKALI_PARTIAL_BATCH": "true",
        }
        for name, value in {**environment, **settings}.items():
            monkeypatch.setenv(name, value)
        yield Kit(dynamodb, sqs, s3, queue_url, dead_letter_queue_url, [])
        warm.reset()


def record(body: object, **attributes: str) -> dict[str, Any]:
    """Return one record as Lambda hands it over; a body that is not text becomes JSON."""
    number = next(_numbers)
    return {
        "messageId": f"message-{number}",
        "receiptHandle": f"receipt-{number}",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": str(int(time.time() * 1000)),
            **attributes,
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    }


def job(job_id: str, payload: object, **fields: object) -> dict[str, Any]:
    """Return the record of an enveloped message."""
    return record({"sekali": 1, "id": job_id, "payload": payload, **fields})


def event(*records: dict[str, Any]) -> dict[str, Any]:
    """Return one event of the queue."""
    return {"Records": list(records)}


def returned(response: dict[str, Any]) -> list[str]:
    """Return the ids of the messages that must come back."""
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def counting(results: dict[str, int], name: str, function: Callable[[], Any]) -> Any:
    """Call `function` and count the call under `name`."""
    results[name] = results.get(name, 0) + 1
    return function()
