"""Let the queue itself move all of its dead letters back: the message move task of SQS.

It is the quickest and cannot be killed with this process, but it knows no filter and no dry run.
Without a destination it refuses what a worker sent to the dead letter queue, because such a letter
has no source queue, so one is always named.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_RATE: Final = 500
_POLL_SECONDS: Final = 2.0
# What SQS, and servers that imitate it, answer where there is no such task.
_ABSENT: Final = frozenset(
    {
        "AWS.SimpleQueueService.UnsupportedOperation",
        "InvalidAction",
        "NotImplemented",
        "UnknownOperation",
        "UnknownOperationException",
        "UnsupportedOperation",
    }
)


class Moved(NamedTuple):
    """How a task ended: COMPLETED, CANCELLED, FAILED; and how many letters it moved."""

    status: str
    moved: int
    to_move: int
    reason: str


def start(sqs: Any, *, source: str, target: str, rate: float | None) -> str | None:  # Any: a client
    """Start moving all of queue `source` to `target` (URLs); returns the task's handle.

    None where the server has no such tasks.

    Raises:
        botocore.exceptions.ClientError: the caller may not, or another task is running.
    """
    from botocore.exceptions import ClientError

    options = {} if rate is None else {"MaxNumberOfMessagesPerSecond": max(1, round(rate))}
    try:
        answer = sqs.start_message_move_task(
            SourceArn=_arn(sqs, source), DestinationArn=_arn(sqs, target), **options
        )
    except ClientError as error:
        if error.response["Error"].get("Code") in _ABSENT:
            return None
        raise
    handle: str = answer["TaskHandle"]
    return handle


def follow(
    sqs: Any,  # Any: a client
    *,
    source: str,
    handle: str,
    tell: Callable[[int, int], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Moved:
    """Wait for the end of the task; an interrupt of the caller cancels it.

    Raises:
        KeyboardInterrupt: the task was cancelled; what it moved stays moved.
    """
    arn = _arn(sqs, source)
    try:
        while True:
            # The newest tasks, without their handles once they have ended: ours is the first.
            [task, *_] = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=1)["Results"]
            moved = int(task.get("ApproximateNumberOfMessagesMoved", 0))
            to_move = int(task.get("ApproximateNumberOfMessagesToMove", 0))
            if task["Status"] not in {"RUNNING", "CANCELLING"}:
                return Moved(task["Status"], moved, to_move, task.get("FailureReason", ""))
            tell(moved, to_move)
            sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        sqs.cancel_message_move_task(TaskHandle=handle)
        raise


def _arn(sqs: Any, url: str) -> str:  # Any: a client
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn
