"""The commands about dead letters, on a running stack; real processes are killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Sekali
from tests.flight_data import invented_month

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.local.stack import LocalStack

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 60.0
LETTERS = 40
REASONS = ("permanent", "quarantined")


def wait_for(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WITHIN_SECONDS:.0f} s: {what}")
        time.sleep(0.05)


def fail(sekali: Sekali, job_id: str, month: str) -> None:
    """Send a job whose month does not exist, and wait for its failure."""
    payload = json.dumps({"month": month, "carrier": "UA"})
    assert sekali("send", "delay-report", payload, "--id", job_id, "--wait", "60").status == 1


def letters(sekali: Sekali, *filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sekali("dlq", "peek", *filters, "--json").json["letters"]
    return found


def test_peek_and_stats_tell_the_reason_and_leave_the_letter(sekali: Sekali) -> None:
    fail(sekali, "peeked-1", "1991-01")
    wait_for("the letter", lambda: bool(letters(sekali, "--id", "peeked-1")))

    stats = sekali("dlq", "stats", "--id", "peeked-1", "--json")
    [letter] = letters(sekali, "--id", "peeked-1")

    [group] = stats.json["groups"]
    assert (group["reason"], group["job"], group["count"]) == ("permanent", "delay-report", 1)
    assert group["error_types"] == {"PermanentError": 1}
    assert "flights/1991-01.csv" in letter["error"]
    assert json.loads(letter["body"])["id"] == "peeked-1"
    for_people = sekali("dlq", "peek", "--id", "peeked-1", "--body")
    assert "PermanentError: no flights of 1991-01" in for_people.out


def test_redriven_letter_runs_again_under_its_id(sekali: Sekali, stack: LocalStack) -> None:
    fail(sekali, "redriven-1", "1992-01")
    wait_for("the letter", lambda: bool(letters(sekali, "--id", "redriven-1")))
    (bucket,) = stack.template.buckets.values()
    repaired = invented_month("1992-01").encode()
    stack.aws.s3.put_object(Bucket=bucket, Key="flights/1992-01.csv", Body=repaired)

    planned = sekali("dlq", "redrive", "--error", "1992-01", "--dry-run", "--json")
    still_there = letters(sekali, "--id", "redriven-1")
    done = sekali("dlq", "redrive", "--error", "1992-01", "--yes", "--json")

    assert planned.json["redrive"] == len(still_there) == 1
    assert (done.status, done.json["by"], done.json["redriven"]) == (0, "copy", 1)
    # Until it has run again, the table says what it said before.
    result = ("result", "redriven-1", "--job", "delay-report", "--json")
    wait_for("the second run", lambda: sekali(*result).status == 0)
    assert sekali(*result).json["result"]["carrier"] == "UA"
    assert letters(sekali, "--id", "redriven-1") == []


def test_purged_letter_is_in_the_archive_and_comes_back_from_it(
    sekali: Sekali, tmp_path: Path
) -> None:
    fail(sekali, "purged-1", "1993-01")
    wait_for("the letter", lambda: bool(letters(sekali, "--id", "purged-1")))
    before = letters(sekali, "--id", "purged-1")
    archive = tmp_path / "letters.jsonl"

    done = sekali("dlq", "purge", "--id", "purged-1", "--archive", str(archive), "--yes", "--json")
    gone = letters(sekali, "--id", "purged-1")
    back = sekali("dlq", "restore", str(archive), "--json")

    assert done.json["purged"] == back.json["restored"] == len(before) == 1
    assert gone == []
    [letter] = letters(sekali, "--id", "purged-1")
    assert {name: letter[name] for name in ("body", "attributes", "reason", "fence")} == {
        name: before[0][name] for name in ("body", "attributes", "reason", "fence")
    }


def test_dead_letters_are_not_touched_without_a_yes(sekali: Sekali) -> None:
    for command in ("redrive", "purge"):
        done = sekali("dlq", command, "--id", "nobody", "--json")

        assert (done.status, done.error["kind"]) == (5, "unconfirmed")


@dataclass(frozen=True)
class Shelves:
    """Queues of their own on the stack's server, where no worker takes anything away."""

    sqs: Any  # Any: plain dictionaries as entries
    queue: str
    dead: str
    at: str

    def waiting(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def bury(self, count: int) -> None:
        for number in range(count):
            reason = REASONS[number % 2]
            self.sqs.send_message(
                QueueUrl=self.dead,
                MessageBody=json.dumps({"sekali": 1, "id": f"job-{number}", "payload": {}}),
                MessageAttributes={
                    "sekali.reason": {"DataType": "String", "StringValue": reason},
                    "sekali.fence": {"DataType": "Number", "StringValue": str(number + 1)},
                },
            )

    def queued(self) -> Counter[tuple[str, str, str]]:
        """Take all that lies in the worker's queue: id, reason and fence of each."""
        taken: Counter[tuple[str, str, str]] = Counter()
        while self.waiting(self.queue):
            answer = self.sqs.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            )
            for message in answer.get("Messages", []):
                attributes = message["MessageAttributes"]
                marks = (
                    attributes[f"sekali.{name}"]["StringValue"] for name in ("reason", "fence")
                )
                taken[json.loads(message["Body"])["id"], *marks] += 1
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return taken


@pytest.fixture
def shelves(stack: LocalStack, tmp_path: Path, request: pytest.FixtureRequest) -> Shelves:
    sqs: Any = stack.aws.sqs
    name = request.node.name.replace("_", "-")[-60:]
    queue, dead = (sqs.create_queue(QueueName=f"{name}{end}")["QueueUrl"] for end in ("", "-dead"))
    told = json.loads((stack.folder / "running.json").read_text())
    for function in told["functions"]:
        function["variables"] |= {"SEKALI_QUEUE_URL": queue, "SEKALI_DEAD_LETTER_QUEUE_URL": dead}
    (tmp_path / "running.json").write_text(json.dumps(told))
    return Shelves(sqs, queue, dead, str(tmp_path))


def test_server_without_move_tasks_gets_copies(
    shelves: Shelves, capsys: pytest.CaptureFixture[str]
) -> None:
    shelves.bury(3)

    done = Sekali(capsys, shelves.at)("dlq", "redrive", "--yes", "--json")

    assert (done.status, done.json["by"], done.json["redriven"]) == (0, "copy", 3)
    assert sum(shelves.queued().values()) == 3


def test_killed_processes_lose_no_letter_and_no_reason(
    shelves: Shelves, capsys: pytest.CaptureFixture[str]
) -> None:
    shelves.bury(LETTERS)
    command = [
        *(sys.executable, "-m", "sekali.cli", "--local-at", shelves.at, "dlq", "redrive"),
        # So slow that it has not ended when it is killed, however long that takes to happen here.
        *("--by-copy", "--rate", "2", "--hold", "2", "--yes"),
    ]

    for moved in (1, 6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(f"{moved} copies", lambda: shelves.waiting(shelves.queue) >= moved)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL

    def all_moved() -> bool:
        Sekali(capsys, shelves.at)("dlq", "redrive", "--by-copy", "--yes")
        return shelves.waiting(shelves.dead) == 0

    wait_for("the rest", all_moved)
    queued = shelves.queued()
    assert {mark[:1] + mark[2:] for mark in queued} == {
        (f"job-{number}", str(number + 1)) for number in range(LETTERS)
    }
    assert all(
        reason == ("permanent", "quarantined")[(int(fence) - 1) % 2] for _, reason, fence in queued
    )
    assert sum(queued.values()) <= LETTERS + 2 * 10
