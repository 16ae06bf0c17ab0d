"""The event that a batch becomes, and what each answer does to the batch."""

from __future__ import annotations

import json

import pytest

from infra.local import event

BATCH = ["one", "two", "three"]
ALL = set(BATCH)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(b"", set(), id="nothing"),
        pytest.param(b"null", set(), id="null"),
        pytest.param(b"{}", set(), id="empty object"),
        pytest.param(b'{"batchItemFailures": []}', set(), id="empty list"),
        pytest.param(b'{"batchItemFailures": null}', set(), id="null list"),
        pytest.param(b'{"other": 1}', set(), id="other keys"),
        pytest.param(
            b'{"batchItemFailures": [{"itemIdentifier": "two"}]}', {"two"}, id="one failure"
        ),
        pytest.param(b'{"batchItemFailures": [{"itemIdentifier"', ALL, id="broken JSON"),
        pytest.param(b'"done"', ALL, id="text"),
        pytest.param(b'{"batchItemFailures": "two"}', ALL, id="list is text"),
        pytest.param(b'{"batchItemFailures": [{"itemIdentifier": ""}]}', ALL, id="empty id"),
        pytest.param(b'{"batchItemFailures": [{"itemIdentifier": null}]}', ALL, id="null id"),
        pytest.param(b'{"batchItemFailures": [{"itemIdentifier": ["two"]}]}', ALL, id="list id"),
        pytest.param(b'{"batchItemFailures": [{"messageId": "two"}]}', ALL, id="misspelt key"),
        pytest.param(b'{"batchItemFailures": ["two"]}', ALL, id="no object"),
        pytest.param(
            b'{"batchItemFailures": [{"itemIdentifier": "two"}, {"itemIdentifier": "four"}]}',
            ALL,
            id="unknown id beside a known one",
        ),
    ],
)
def test_an_answer_says_what_goes_back(payload: bytes, expected: set[str]) -> None:
    assert event.returned(payload, batch=BATCH, partial_batches=True) == expected


@pytest.mark.parametrize(
    "payload", [b'{"batchItemFailures": [{"itemIdentifier": "two"}]}', b"{", b'"done"']
)
def test_with_the_partial_batch_flag_off_failures_are_deleted_too(payload: bytes) -> None:
    assert event.returned(payload, batch=BATCH, partial_batches=False) == set()


def test_a_message_becomes_a_record_in_the_spelling_of_lambda() -> None:
    message = {
        "MessageId": "one",
        "ReceiptHandle": "handle",
        "Body": "é",
        "MD5OfBody": "digest",
        "MD5OfMessageAttributes": "other digest",
        "Attributes": {"ApproximateReceiveCount": "2", "AWSTraceHeader": "Root=1-a-b"},
        "MessageAttributes": {
            "text": {"DataType": "String", "StringValue": "a"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\xff"},
        },
    }

    written = json.loads(event.of([message], queue_arn="arn:queue"))

    lists: dict[str, list[str]] = {"stringListValues": [], "binaryListValues": []}
    assert written == {
        "Records": [
            {
                "messageId": "one",
                "receiptHandle": "handle",
                "body": "é",
                "attributes": {"ApproximateReceiveCount": "2", "AWSTraceHeader": "Root=1-a-b"},
                "messageAttributes": {
                    "text": {**lists, "dataType": "String", "stringValue": "a"},
                    "bytes": {**lists, "dataType": "Binary", "binaryValue": "/w=="},
                },
                "md5OfBody": "digest",
                "md5OfMessageAttributes": "other digest",
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:queue",
                "awsRegion": "us-east-1",
            }
        ]
    }
