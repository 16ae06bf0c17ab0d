"""Send, status, result and cancel act on a running stack; what they did is read back from it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.local.stack import LocalStack
    from tests.cli.conftest import Done, Sekali

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 60.0
QUESTION = {"month": "2013-01", "carrier": "UA"}


def row(stack: LocalStack, job_id: str) -> dict[str, Any]:
    (table,) = stack.template.tables
    key = {"pk": {"S": f"delay-report/{job_id}"}}
    found: dict[str, Any] = stack.aws.dynamodb.get_item(TableName=table.name, Key=key)["Item"]
    return found


def dead_letter(stack: LocalStack, job_id: str) -> dict[str, Any]:
    """Wait for the dead letter of an id, and leave it where it is."""
    url = stack.aws.queue_url(stack.dead_letter_queue(stack.source_queue()))
    deadline = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < deadline:
        answer = stack.aws.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=0,
            MessageAttributeNames=["All"],
            WaitTimeSeconds=1,
        )
        for letter in answer.get("Messages", []):
            if f'"{job_id}"' in letter["Body"]:
                return dict(letter)
    raise AssertionError(f"no dead letter of {job_id}")


def bodies_of(stack: LocalStack, job_id: str) -> int:
    """Count the bodies that started for an id, by what they said."""
    return sum(one.fields.get("job_id") == job_id for one in stack.logs.records())


def until(done: Callable[[], Done], right: Callable[[Done], bool]) -> Done:
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        found = done()
        if right(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_send_that_waits_prints_the_result_of_the_job(sekali: Sekali, stack: LocalStack) -> None:
    done = sekali(
        "send", "delay-report", json.dumps(QUESTION), "--id", "sent-1", "--wait", "60", "--json"
    )

    assert done.status == 0, done.err
    assert done.json["id"] == "sent-1"
    assert done.json["result"] == json.loads(row(stack, "sent-1")["result"]["B"])


def test_lines_of_a_file_are_sent_and_a_wrong_one_is_named(
    sekali: Sekali, stack: LocalStack, tmp_path: Path
) -> None:
    lines = [{"payload": QUESTION, "id": f"line-{number}"} for number in range(12)]
    lines.append({"payload": QUESTION, "id": "x" * 513})
    (tmp_path / "lines").write_text("\n".join(map(json.dumps, lines)))

    done = sekali("send", "delay-report", f"@{tmp_path / 'lines'}", "--lines", "--json")

    assert done.status == 1
    assert done.json["ids"] == [f"line-{number}" for number in range(12)]
    [unsent] = done.json["unsent"]
    assert unsent["code"] == "wrong_type"
    stack.wait_until_drained(stack.source_queue(), within_seconds=WITHIN_SECONDS)
    assert row(stack, "line-11")["st"]["S"] == "done"


def test_status_tells_record_durable_result_and_history(sekali: Sekali, stack: LocalStack) -> None:
    sekali("send", "delay-report", json.dumps(QUESTION), "--id", "seen-1", "--wait", "60")

    done = until(
        lambda: sekali("status", "seen-1", "--job", "delay-report", "--json"),
        lambda found: bool(found.json["history"]) and found.json["record"]["status"] == "done",
    )

    assert done.json["status"] == "done"
    assert done.json["durable"]["fence"] == int(row(stack, "seen-1")["f"]["N"])
    [settled] = done.json["history"]
    assert (settled["outcome"], settled["key"]) == ("delete", "2013-01/UA/all")


def test_status_for_people_names_each_part(sekali: Sekali) -> None:
    sekali("send", "delay-report", json.dumps(QUESTION), "--id", "seen-2", "--wait", "60")

    done = sekali("status", "seen-2", "--job", "delay-report")

    assert done.out.startswith("delay-report/seen-2  done\n")
    assert [line.split()[0] for line in done.out.splitlines()[1:4]] == [
        "durable",
        "record",
        "lease",
    ]
    assert "\x1b" not in done.out


def test_only_job_that_ran_need_not_be_named(sekali: Sekali) -> None:
    sekali("send", "delay-report", json.dumps(QUESTION), "--id", "named-1", "--wait", "60")

    done = until(lambda: sekali("result", "named-1", "--json"), lambda found: found.status == 0)

    assert done.json["job"] == "delay-report"


def test_unknown_id_ends_with_a_status_of_its_own(sekali: Sekali) -> None:
    status = sekali("status", "never-sent", "--job", "delay-report", "--json")
    result = sekali("result", "never-sent", "--job", "delay-report", "--json")

    assert (status.status, status.json["status"]) == (4, "unknown")
    assert (result.status, result.error["kind"]) == (6, "ResultTimeout")


def test_result_of_a_failed_job_is_its_failure(sekali: Sekali) -> None:
    payload = json.dumps({"month": "1999-01", "carrier": "UA"})

    done = sekali("send", "delay-report", payload, "--id", "bad-1", "--wait", "60", "--json")

    assert (done.status, done.error["kind"]) == (1, "JobFailed")
    assert "flights/1999-01.csv does not exist" in done.error["text"]


def test_cancelled_job_does_not_run_its_letter_says_why_and_a_redrive_runs_it(
    sekali: Sekali, stack: LocalStack
) -> None:
    payload = json.dumps(QUESTION | {"carrier": "B6"})

    # Before it is sent: of a message on its way nobody knows whether it has begun.
    done = sekali(
        *("cancel", "dropped-1", "--job", "delay-report", "--key", "2013-01/B6/all"),
        *("--payload", payload, "--reason", "no longer wanted", "--yes", "--json"),
    )

    assert done.json == {
        "job": "delay-report",
        "id": "dropped-1",
        "before": "unknown",
        "status": "failed",
    }
    sekali("send", "delay-report", payload, "--id", "dropped-1")
    attributes = dead_letter(stack, "dropped-1")["MessageAttributes"]
    assert attributes["sekali.reason"]["StringValue"] == "cancelled"
    assert attributes["sekali.error"]["StringValue"] == "no longer wanted"
    assert row(stack, "dropped-1")["st"]["S"] == "failed"
    assert bodies_of(stack, "dropped-1") == 0

    sekali("dlq", "redrive", "--id", "dropped-1", "--yes")
    ran = until(
        lambda: sekali("result", "dropped-1", "--job", "delay-report", "--json"),
        lambda found: found.status == 0,
    )

    assert ran.json["result"]["carrier"] == "B6"
    assert bodies_of(stack, "dropped-1") == 1


def test_job_that_is_done_is_not_cancelled(sekali: Sekali, stack: LocalStack) -> None:
    sekali("send", "delay-report", json.dumps(QUESTION), "--id", "kept-1", "--wait", "60")

    done = sekali("cancel", "kept-1", "--job", "delay-report", "--yes", "--json")

    assert (done.status, done.error["kind"]) == (1, "ended")
    assert row(stack, "kept-1")["st"]["S"] == "done"


def test_job_of_which_nothing_is_known_is_cancelled_by_its_payload_only(sekali: Sekali) -> None:
    done = sekali("cancel", "nobody", "--job", "delay-report", "--yes", "--json")

    assert done.status == 4
    assert "--payload" in done.error["text"]
