"""The event that Lambda makes of a batch of messages, and what it reads out of the answer."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from infra.local import differences

Message = Mapping[str, Any]  # As ReceiveMessage answers it.


def of(messages: Sequence[Message], *, queue_arn: str) -> bytes:
    """Write the event for a batch.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
    """
    records = [_record(message, queue_arn) for message in messages]
    return json.dumps({"Records": records}).encode()


def _record(message: Message, queue_arn: str) -> dict[str, object]:
    record: dict[str, object] = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {
            name: _attribute(attribute)
            for name, attribute in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": differences.REGION,
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def _attribute(attribute: Mapping[str, Any]) -> dict[str, object]:  # As SQS answers it.
    """Write a message attribute in Lambda's spelling, in which bytes are base64."""
    written: dict[str, object] = {"stringListValues": [], "binaryListValues": []}
    if "StringValue" in attribute:
        written["stringValue"] = attribute["StringValue"]
    if "BinaryValue" in attribute:
        written["binaryValue"] = base64.b64encode(attribute["BinaryValue"]).decode()
    written["dataType"] = attribute["DataType"]
    return written


def returned(payload: bytes, *, batch: Sequence[str], partial_batches: bool) -> set[str]:
    """Say which messages of a batch go back to the queue after an answer without error.

    An empty list, null and an object without the list delete the whole batch. An answer that is
    not JSON, an identifier that is empty, null or not of this batch return the whole batch. With
    `ReportBatchItemFailures` off the answer is not looked at, and *every* message is deleted.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """
    if not partial_batches:
        return set()
    everything = set(batch)
    try:
        answer = json.loads(payload) if payload else None
    except ValueError:
        return everything
    if answer is None:
        return set()
    if not isinstance(answer, dict):
        return everything
    failures = answer.get("batchItemFailures")
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return everything
    named = set()
    for failure in failures:
        identifier = failure.get("itemIdentifier") if isinstance(failure, dict) else None
        if not isinstance(identifier, str) or identifier not in everything:
            return everything
        named.add(identifier)
    return named
