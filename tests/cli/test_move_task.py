"""The queue's own move task: started with a destination, followed to its end, cancelled on Ctrl-C.

No server here has it (ministack and moto refuse the call), so boto3 answers from a script whose
requests and answers it checks against the service's own model.
"""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from sekali.cli import move_task

DEAD, QUEUE = "https://sqs/1/dead", "https://sqs/1/jobs"
ARNS = {DEAD: "arn:aws:sqs:eu-west-1:1:dead", QUEUE: "arn:aws:sqs:eu-west-1:1:jobs"}


class Script:
    """A client that answers what it is told to, in order."""

    def __init__(self) -> None:
        self.sqs = boto3.client("sqs")
        self.stub = Stubber(self.sqs)

    def arn(self, url: str) -> None:
        self.stub.add_response(
            "get_queue_attributes",
            {"Attributes": {"QueueArn": ARNS[url]}},
            {"QueueUrl": url, "AttributeNames": ["QueueArn"]},
        )

    def task(self, status: str, moved: int, reason: str = "") -> None:
        told: dict[str, Any] = {
            "Status": status,
            "ApproximateNumberOfMessagesMoved": moved,
            "ApproximateNumberOfMessagesToMove": 9,
        }
        if reason:
            told["FailureReason"] = reason
        self.stub.add_response(
            "list_message_move_tasks",
            {"Results": [told]},
            {"SourceArn": ARNS[DEAD], "MaxResults": 1},
        )


@pytest.fixture
def script() -> Script:
    return Script()


def test_task_names_its_destination_and_its_rate(script: Script) -> None:
    script.arn(DEAD)
    script.arn(QUEUE)
    script.stub.add_response(
        "start_message_move_task",
        {"TaskHandle": "handle"},
        {
            "SourceArn": ARNS[DEAD],
            "DestinationArn": ARNS[QUEUE],
            "MaxNumberOfMessagesPerSecond": 25,
        },
    )

    with script.stub:
        handle = move_task.start(script.sqs, source=DEAD, target=QUEUE, rate=25.0)

    assert handle == "handle"
    script.stub.assert_no_pending_responses()


@pytest.mark.parametrize("code", ["InvalidAction", "AWS.SimpleQueueService.UnsupportedOperation"])
def test_server_without_tasks_is_no_error(script: Script, code: str) -> None:
    script.arn(DEAD)
    script.arn(QUEUE)
    script.stub.add_client_error("start_message_move_task", code)

    with script.stub:
        handle = move_task.start(script.sqs, source=DEAD, target=QUEUE, rate=None)

    assert handle is None


def test_refused_task_is_an_error(script: Script) -> None:
    script.arn(DEAD)
    script.arn(QUEUE)
    script.stub.add_client_error("start_message_move_task", "AccessDenied")

    with script.stub, pytest.raises(script.sqs.exceptions.ClientError, match="AccessDenied"):
        move_task.start(script.sqs, source=DEAD, target=QUEUE, rate=None)


def test_task_is_followed_to_its_end(script: Script) -> None:
    script.arn(DEAD)
    script.task("RUNNING", 4)
    script.task("COMPLETED", 9)
    told: list[tuple[int, int]] = []

    with script.stub:
        ended = move_task.follow(
            script.sqs,
            source=DEAD,
            handle="handle",
            tell=lambda moved, whole: told.append((moved, whole)),
            sleep=lambda _: None,
        )

    assert (ended.status, ended.moved, ended.to_move) == ("COMPLETED", 9, 9)
    assert told == [(4, 9)]


def test_interrupt_cancels_the_task(script: Script) -> None:
    script.arn(DEAD)
    script.task("RUNNING", 4)
    script.stub.add_response(
        "cancel_message_move_task",
        {"ApproximateNumberOfMessagesMoved": 4},
        {"TaskHandle": "handle"},
    )

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with script.stub, pytest.raises(KeyboardInterrupt):
        move_task.follow(
            script.sqs,
            source=DEAD,
            handle="handle",
            tell=lambda *_: None,
            sleep=interrupted,
        )

    script.stub.assert_no_pending_responses()
