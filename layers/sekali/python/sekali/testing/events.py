"""Make what Lambda hands to a handler: an event of a queue, and a context with its time left."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaContext:
    """What the library reads of Lambda's context; the time left does not run."""

    remaining_seconds: float = 30.0
    aws_request_id: str = "request-1"
    function_name: str = "function"
    memory_limit_in_mb: int = 1_024
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:000000000000:function:function"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the invocation."""
        return int(self.remaining_seconds * 1_000)


def sqs_record(
    body: object,
    *,
    attributes: Mapping[str, str] | None = None,
    receives: int = 1,
    sent_at: float = 1_700_000_000.0,
) -> dict[str, Any]:  # Any: a record is any JSON
    """Make one record of an event.

    Args:
        body: text is taken as it is, anything else becomes JSON.
        attributes: message attributes, as text.
        receives: how often the queue has handed it over.
        sent_at: when it was sent, in Unix seconds.
    """
    message_id = str(uuid.uuid4())
    return {
        "messageId": message_id,
        "receiptHandle": message_id,
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "ApproximateReceiveCount": str(receives),
            "SentTimestamp": str(int(sent_at * 1_000)),
        },
        "messageAttributes": {
            name: {"dataType": "String", "stringValue": value}
            for name, value in (attributes or {}).items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:jobs",
        "awsRegion": "eu-west-1",
    }


def sqs_event(*bodies: object) -> dict[str, Any]:  # Any: an event is any JSON
    """Make an event of one record for each body; a body that is a record stays what it is."""
    return {
        "Records": [
            body if isinstance(body, dict) and "receiptHandle" in body else sqs_record(body)
            for body in bodies
        ]
    }
