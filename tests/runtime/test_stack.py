"""A whole stack from its template: jobs go through it, and nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.chaos import KillOnce
from infra.local.kept import HistoryCut
from infra.local.stack import LocalStack, StackStuck
from tests.runtime.toy import write_assembly

if TYPE_CHECKING:
    from infra.local.template import Queue

pytestmark = pytest.mark.slow


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every temporary folder be made in one that belongs to the test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def send(stack: LocalStack, queue: Queue, *bodies: str) -> None:
    url = stack.aws.queue_url(queue)
    for start in range(0, len(bodies), 10):
        entries = [
            {"Id": str(index), "MessageBody": body}
            for index, body in enumerate(bodies[start : start + 10])
        ]
        stack.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)  # type: ignore[arg-type]  # Plain dicts.


def children_of_this_process() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(path.parent.name)
    return found


def test_messages_go_through_and_nothing_is_left_behind(tmp_path: Path, temporary: Path) -> None:
    before = children_of_this_process()
    with LocalStack(write_assembly(tmp_path / "cdk.out")) as stack:
        queue = stack.source_queue()
        send(stack, queue, *(json.dumps({"number": number}) for number in range(50)))
        send(stack, queue, json.dumps({"fail": True}))

        stack.wait_until_drained(queue, within_seconds=90)

        dead = stack.dead_letter_queue(queue)
        assert stack.waiting(dead) == 1

    deliveries = stack.deliveries
    assert sum(delivery.deleted for delivery in deliveries) == 50
    assert [d.receives for d in deliveries if not d.deleted] == [1, 2]
    assert all(invocation.outcome.kind == "answered" for invocation in stack.invocations)
    assert 1 <= stack.fleets["Worker"].environments_started <= 2
    assert children_of_this_process() - before == set()
    stack.keep(2)
    for history in ("invocations", "deliveries"):
        with pytest.raises(HistoryCut, match=f"only the newest 2 {history}"):
            getattr(stack, history)
    assert list(temporary.iterdir()) == []


def test_two_stacks_run_side_by_side(tmp_path: Path, temporary: Path) -> None:
    folder = write_assembly(tmp_path / "cdk.out")
    with LocalStack(folder) as one, LocalStack(folder) as other:
        send(one, one.source_queue(), '{"of": "one"}')
        send(other, other.source_queue(), '{"of": "other"}', '{"of": "other"}')

        one.wait_until_drained(one.source_queue(), within_seconds=90)
        other.wait_until_drained(other.source_queue(), within_seconds=90)

    assert [delivery.body for delivery in one.deliveries] == ['{"of": "one"}']
    assert [delivery.body for delivery in other.deliveries] == ['{"of": "other"}'] * 2
    assert list(temporary.iterdir()) == []


def test_a_batch_of_a_killed_environment_comes_back(tmp_path: Path) -> None:
    with LocalStack(write_assembly(tmp_path / "cdk.out")) as stack:
        queue, fleet = stack.source_queue(), stack.fleets["Worker"]
        send(stack, queue, '{"seconds": 1}')
        killed = fleet.kill_one(when=lambda busy: busy.request_id != "", within_seconds=60)

        stack.wait_until_drained(queue, within_seconds=90)

    kinds = [invocation.outcome.kind for invocation in stack.invocations]
    assert killed
    assert kinds == ["died", "answered"]
    assert fleet.environments_started == 2


def test_one_environment_is_killed_in_the_middle_of_a_body(tmp_path: Path) -> None:
    told = {"message": "computing report", "job_id": "id", "key": "key", "at": 1.0}
    body = json.dumps({"tell": told, "seconds": 0.1})
    with LocalStack(write_assembly(tmp_path / "cdk.out"), poll=False) as stack:
        killer = KillOnce(stack)
        queue = stack.source_queue()
        send(stack, queue, *[body] * 20)
        stack.start_polling()

        stack.wait_until_drained(queue, within_seconds=90)

    died = [invocation for invocation in stack.invocations if invocation.outcome.kind == "died"]
    assert killer.killed == len(died) == 1
    assert sum(delivery.deleted for delivery in stack.deliveries) == 20


def test_a_queue_that_does_not_empty_is_reported(tmp_path: Path) -> None:
    with LocalStack(write_assembly(tmp_path / "cdk.out"), poll=False) as stack:
        queue = stack.source_queue()
        send(stack, queue, "{}")

        with pytest.raises(StackStuck) as caught:
            stack.wait_until_drained(queue, within_seconds=0.2)

    assert caught.value.waiting == 1


def test_a_stack_that_cannot_start_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    table = {"Type": "AWS::DynamoDB::Table", "Properties": {"KeySchema": []}}
    stack = LocalStack(write_assembly(tmp_path / "cdk.out", resources={"Broken": table}))
    before = children_of_this_process()

    with pytest.raises(Exception, match="KeySchema"), stack:
        pass

    assert children_of_this_process() - before == set()
    assert list(temporary.iterdir()) == []


PROGRAM = """
import signal, sys, tempfile
from pathlib import Path
from infra.local.chaos import KillOnce
from infra.local.stack import LocalStack
tempfile.tempdir = sys.argv[2]
# Whoever was started in the background of a shell was told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
with LocalStack(Path(sys.argv[1])) as stack:
    print("up", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folder = write_assembly(tmp_path / "cdk.out")
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(temporary)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"up\n"
    mine = processes_that_name(str(temporary))

    program.send_signal(number)
    program.wait(60)
    program.stdout.close()

    deadline = time.monotonic() + 30
    while processes_that_name(str(temporary)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(mine) >= 2
    assert processes_that_name(str(temporary)) == []
    if number is signal.SIGINT:
        assert list(temporary.iterdir()) == []


def processes_that_name(text: str) -> list[int]:
    """List the processes whose command line or working folder names `text`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            folder = str((process / "cwd").readlink())
        except OSError:
            continue
        if text in command or text in folder:
            found.append(int(process.name))
    return found
