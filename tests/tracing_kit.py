"""Collectors of spans in memory, for X-Ray and for OpenTelemetry, and a queue between two sides."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aws_xray_sdk
from aws_lambda_powertools import Tracer
from aws_xray_sdk.core import xray_recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from mypy_boto3_sqs.client import SQSClient

INVOCATION = "1-5f84c7a5-0123456789abcdef01234567"
"""The trace of the invocation that works, in X-Ray's form; never that of a sender."""
SENDER = "1-67891233-abcdef012345678912345678"
"""The trace of the program that sends."""


def header(trace_id: str, span_id: str = "53995c3f42cd8ad8") -> str:
    """Return an X-Ray header of a sampled trace."""
    return f"Root={trace_id};Parent={span_id};Sampled=1"


@dataclass
class Daemon:
    """Stand in for the emitter of X-Ray's SDK: keep the documents that the daemon would get."""

    documents: list[dict[str, Any]] = field(default_factory=list)  # Any: X-Ray's own JSON

    def send_entity(self, entity: Any) -> None:  # Any: an entity of the SDK
        """Keep one document, as it would go over the wire."""
        self.documents.append(json.loads(entity.serialize()))

    def all(self) -> list[dict[str, Any]]:
        """Return every subsegment, those within documents too."""
        return [one for document in self.documents for one in _unfolded(document)]

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the subsegments of a name."""
        return [one for one in self.all() if one["name"] == name]


def _unfolded(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield document
    for child in document.get("subsegments", []):
        yield from _unfolded({**child, "parent_id": child.get("parent_id", document["id"])})


@contextmanager
def on_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Let Powertools' Tracer believe that it runs on Lambda, traced, and collect what it sends."""
    monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header(INVOCATION, "aaaaaaaaaaaaaaaa"))
    # A Tracer that was made where it is off switches the SDK off for the whole process.
    monkeypatch.delenv("AWS_XRAY_SDK_ENABLED", raising=False)
    enabled = aws_xray_sdk.global_sdk_config.sdk_enabled()
    aws_xray_sdk.global_sdk_config.set_sdk_enabled(True)
    config, context, emitter = dict(Tracer._config), xray_recorder.context, xray_recorder.emitter  # noqa: SLF001
    Tracer._config.update(Tracer._default_config)  # noqa: SLF001
    daemon = Daemon()
    xray_recorder.emitter = daemon
    try:
        yield daemon
    finally:
        xray_recorder.context, xray_recorder.emitter = context, emitter
        Tracer._config.update(config)  # noqa: SLF001
        aws_xray_sdk.global_sdk_config.set_sdk_enabled(enabled)
        os.environ.pop("AWS_XRAY_SDK_ENABLED", None)


def received(sqs: SQSClient, queue_url: str) -> list[dict[str, Any]]:
    """Take what waits, delayed or not, as the records that Lambda would hand over."""
    _end_delays(queue_url)
    answer: Any = sqs.receive_message(  # Any: the stubs make every field optional
        QueueUrl=queue_url,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
        WaitTimeSeconds=0,
    )
    records = []
    for message in answer.get("Messages", []):
        sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        records.append(
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": {
                    name: {"dataType": one["DataType"], "stringValue": one["StringValue"]}
                    for name, one in message.get("MessageAttributes", {}).items()
                },
                "eventSource": "aws:sqs",
            }
        )
    return records


def _end_delays(queue_url: str) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.sqs.models import sqs_backends

    name = queue_url.rsplit("/", 1)[-1]
    # Through the back door, because nobody can receive what is delayed.
    queue: Any = sqs_backends[DEFAULT_ACCOUNT_ID]["eu-west-1"].queues[name]
    for message in queue._messages:  # noqa: SLF001
        message.delayed_until = 0
