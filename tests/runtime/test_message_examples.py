"""The examples of docs/message.md, run as they stand there and sent through the whole stack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.differences import REGION
from infra.local.stack import LocalStack
from infra.local.synthesis import synthesize
from sekali import Producer
from tests.flight_data import invented_month

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "message.md").read_text(encoding="utf-8")
# The page's Node example imports a package, which Node looks for beside the script.
NODE_FOLDER = ROOT / "tests" / "node"
JAVA_FOLDER = ROOT / "tests" / "java"
SETTLED_WITHIN_SECONDS = 60
# Version 1 of the aws command prefers an old address of SQS to the variable, not to the option.
AWS_COMMAND = 'aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }\n'

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return [block for block in found if "QUEUE_URL" in block]


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    with LocalStack(synthesize()) as started:
        (bucket,) = started.template.buckets.values()
        month = invented_month("2013-01").encode()
        started.aws.s3.put_object(Bucket=bucket, Key="flights/2013-01.csv", Body=month)
        yield started


def run(stack: LocalStack, command: Sequence[str], *, folder: Path = ROOT) -> str:
    """Run a program of a sender, who knows the queue and has credentials."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "QUEUE_URL": stack.aws.queue_url(stack.source_queue()),
            "AWS_ENDPOINT_URL": stack.aws.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answer(stack: LocalStack, job_id: str) -> dict[str, object]:
    """Wait for the queue to empty and return what the table holds of a job."""
    queue = stack.source_queue()
    stack.wait_until_drained(queue, within_seconds=SETTLED_WITHIN_SECONDS)
    assert stack.waiting(stack.dead_letter_queue(queue)) == 0
    (table,) = stack.template.tables
    key = {"pk": {"S": f"delay-report/{job_id}"}}
    item = stack.aws.dynamodb.get_item(TableName=table.name, Key=key)["Item"]
    assert item["st"]["S"] == "done"
    found: dict[str, object] = json.loads(item["result"]["B"])
    return found


@pytest.mark.parametrize(("script", "number"), list(zip(blocks("sh"), (1, 2), strict=True)))
def test_message_of_the_aws_command_is_accepted(
    stack: LocalStack, script: str, number: int
) -> None:
    run(stack, ["sh", "-ec", AWS_COMMAND + script])

    assert answer(stack, f"cli-{number}")


def test_message_of_boto3_is_accepted(stack: LocalStack) -> None:
    [script] = blocks("python")

    run(stack, [sys.executable, "-c", script])

    assert answer(stack, "boto3-1")


@pytest.mark.parametrize("note", ["short", "x" * 2_000_000], ids=["inline", "offloaded"])
def test_producer_gets_the_answer_of_the_job_that_it_sent(stack: LocalStack, note: str) -> None:
    clients = {"sqs": stack.aws.sqs, "s3": stack.aws.s3, "dynamodb": stack.aws.dynamodb}
    (table,) = stack.template.tables
    (bucket,) = stack.template.buckets.values()
    producer = Producer(
        stack.aws.queue_url(stack.source_queue()),
        table_name=table.name,
        bucket=bucket,
        client_factory=clients.__getitem__,
    )
    asked = {"month": "2013-01", "carrier": "UA", "note": note}

    job_id = producer.send("delay-report", asked)
    report = producer.wait(job_id, name="delay-report", timeout_seconds=SETTLED_WITHIN_SECONDS)

    assert report["carrier"] == "UA"
    assert answer(stack, job_id) == report


@pytest.mark.node
def test_message_of_node_is_accepted(stack: LocalStack) -> None:
    [script] = blocks("js")

    run(stack, ["node", "--input-type=module", "--eval", script], folder=NODE_FOLDER)

    assert answer(stack, "node-1")


@pytest.mark.java
def test_message_of_java_is_accepted(stack: LocalStack, tmp_path: Path) -> None:
    [source] = blocks("java")
    (tmp_path / "Send.java").write_text(source)
    stand_in = next(JAVA_FOLDER.rglob("SqsClient.java"))
    run(stack, ["javac", "-d", str(tmp_path), str(tmp_path / "Send.java"), str(stand_in)])

    url, _, body = run(stack, ["java", "-cp", str(tmp_path), "Send"]).partition("\n")
    stack.aws.sqs.send_message(QueueUrl=url, MessageBody=body)

    assert answer(stack, "java-1")


def test_every_example_is_run() -> None:
    """A block that names the queue is an example; one in a new language needs a test here."""
    languages = re.findall(r"```([a-z]+)\n(?:(?!```).)*QUEUE_URL", PAGE, flags=re.DOTALL)

    assert languages == ["sh", "sh", "python", "js", "java"]
