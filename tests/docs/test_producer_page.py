"""The snippets of docs/producer.md run, in the order of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from sekali import Producer, producer
from sekali.clock import SystemClock
from sekali.message import derive_id
from sekali.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text(encoding="utf-8")
NAMES = {"queue_url": "", "table_name": "results", "bucket": "objects"}
ASKED = {"month": "2013-01", "carrier": "UA"}


@pytest.fixture
def stack() -> Iterator[dict[str, Any]]:  # Any: the namespace of the page
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="results",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        boto3.client("s3").create_bucket(
            Bucket="objects", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        queue_url = boto3.client("sqs").create_queue(QueueName="jobs")["QueueUrl"]
        Store("results", clock=SystemClock()).record(
            "delay-report",
            derive_id("delay-report", ASKED),
            outcome="done",
            payload_hash="p",
            fence=1,
            token="t",
            ttl_seconds=900.0,
            result=b'{"flights": 7}',
        )
        yield NAMES | {"queue_url": queue_url}


def test_the_snippets_of_the_page_run_in_their_order(stack: dict[str, Any]) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

    for snippet in snippets:
        exec(compile(snippet, "docs/producer.md", "exec"), stack)  # noqa: S102 - our own page

    sqs = boto3.client("sqs")
    found = [
        json.loads(message["Body"])
        for _ in range(3)
        for message in sqs.receive_message(QueueUrl=stack["queue_url"], MaxNumberOfMessages=10).get(
            "Messages", []
        )
    ]
    assert stack["report"] == {"flights": 7}
    assert stack["sent"].unsent == []
    assert {body["name"] for body in found} == {"delay-report"}
    assert sum("payload_ref" in body for body in found) == 1
    assert "order-7" in {body["id"] for body in found}


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    defaults = Producer.send_many.__kwdefaults__ or {}

    assert f"more than {producer.OFFLOAD_ABOVE_BYTES // 1024} KiB" in PAGE
    assert f"up to {producer.MAX_DELAY_SECONDS}" in PAGE
    assert f"`budget_seconds` ({defaults['budget_seconds']:.0f})" in PAGE
