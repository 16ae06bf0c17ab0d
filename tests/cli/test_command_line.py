"""The command line itself: statuses, JSON, help, completion, and how it finds its stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.workspace import workspace
from sekali.cli.clients import Session
from sekali.cli.program import program

if TYPE_CHECKING:
    import click

    from tests.cli.conftest import Sekali

CHANGING = {
    "cancel": ["1"],
    "steal": ["key", "--job", "@"],
    "invalidate": ["--key", "a"],
}
# Their queues are asked first: `test_dlq.py` tries these on a stack.
CHANGING_LETTERS = {"dlq redrive", "dlq purge"}
WITHOUT_PLACE = {"completion"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def told(**changes: object) -> str:
    """Return what a stack writes of itself; nothing of it is there."""
    function = {
        "name": "Worker",
        "handler": "handlers.reports.handler",
        "timeout_seconds": 5,
        "memory_mib": 128,
        "variables": {"SEKALI_CACHE_URL": "valkey://127.0.0.1:9", "SEKALI_TABLE_NAME": "results"},
    }
    mapping = {
        "function": "Worker",
        "queue_arn": "arn:aws:sqs:us-east-1:000000000000:jobs",
        "batch_size": 10,
        "window_seconds": 0,
        "partial_batches": True,
        "max_concurrency": 2,
    }
    whole = {
        "version": 1,
        "stack": "Sekali-dev",
        "pid": os.getpid(),
        "started_at": 0.0,
        "region": "us-east-1",
        "account": "000000000000",
        "endpoint_url": "http://127.0.0.1:9",
        "log_file": "/nowhere",
        "functions": [function],
        "mappings": [mapping],
    }
    return json.dumps(whole | changes)


def test_no_stack_is_a_status_of_its_own_with_the_remedy(bare: Sekali, temporary: Path) -> None:
    assert list(temporary.iterdir()) == []

    done = bare("leases", "--json")

    assert (done.status, done.error["kind"]) == (3, "no_stack")
    assert "make demo ARGS=--stay" in done.error["text"]


def test_one_running_stack_is_found_and_of_several_one_must_be_named(
    bare: Sekali, temporary: Path
) -> None:
    assert temporary.exists()
    with workspace() as one, workspace() as other:
        (one / "running.json").write_text(told(pid=11))
        alone = bare("leases", "--json")
        (other / "running.json").write_text(told(pid=12))

        several = bare("leases", "--json")
        named = bare("leases", "--local-at", "12", "--json")
        absent = bare("leases", "--local-at", "13", "--json")

    # The cache of these stacks does not answer; that it was asked shows that they were found.
    assert (alone.status, named.status) == (7, 7)
    assert alone.error["kind"] == "SharedUnavailable"
    assert (several.status, absent.status) == (3, 3)
    assert "11" in several.error["text"]
    assert "12" in several.error["text"]


def test_recover_says_what_it_could_not_read(bare: Sekali, tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text(told())

    done = bare("recover", "--local-at", str(tmp_path), "--json")
    people = bare("recover", "--local-at", str(tmp_path))

    assert (done.status, done.json["leases_unread"]) == (7, True)
    assert "nothing is known of leases" in people.out


def test_dead_stack_is_not_found(bare: Sekali, temporary: Path) -> None:
    folder = temporary / "sekali-local-dead"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "running.json").write_text(told())

    done = bare("leases", "--json")

    assert (done.status, done.error["kind"]) == (3, "no_stack")


def test_file_of_another_version_is_refused(bare: Sekali, tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text(told(version=2))

    done = bare("leases", "--local-at", str(tmp_path), "--json")

    assert (done.status, done.error["kind"]) == (3, "no_stack")


def test_wrong_setting_of_the_worker_is_named(bare: Sekali, tmp_path: Path) -> None:
    whole = json.loads(told())
    whole["functions"][0]["variables"]["SEKALI_LEASE_SECONDS"] = "0"
    (tmp_path / "running.json").write_text(json.dumps(whole))

    done = bare("leases", "--local-at", str(tmp_path), "--json")

    assert (done.status, done.error["kind"]) == (3, "SettingInvalid")
    assert "SEKALI_LEASE_SECONDS must be between 1 and 900" in done.error["text"]


def test_worker_that_is_not_there_is_refused(bare: Sekali, tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text(told())

    other = bare("leases", "--local-at", str(tmp_path), "--worker", "other", "--json")
    same = bare("leases", "--local-at", str(tmp_path), "--worker", "reports", "--json")

    assert (other.status, other.error["kind"]) == (3, "no_worker")
    assert same.error["kind"] == "SharedUnavailable"


@pytest.mark.parametrize("command", CHANGING)
def test_command_that_changes_something_refuses_where_nobody_can_be_asked(
    bare: Sekali, tmp_path: Path, command: str
) -> None:
    (tmp_path / "running.json").write_text(told())
    job = ["--job", "report"] if command == "cancel" else []

    done = bare(command, *CHANGING[command], *job, "--local-at", str(tmp_path), "--json")

    assert (done.status, done.error["kind"]) == (5, "unconfirmed")
    assert "--yes" in done.error["text"]


def commands(group: click.Command = program, before: str = "") -> dict[str, click.Command]:
    """List every command with its whole name."""
    found: dict[str, click.Command] = {}
    for name, command in getattr(group, "commands", {}).items():
        inner = commands(command, f"{before}{name} ")
        found |= inner or {f"{before}{name}": command}
    return found


def test_every_command_with_the_option_yes_is_tried_without_it() -> None:
    with_yes = {
        name
        for name, command in commands().items()
        if any(option.name == "yes" for option in command.params)
    }

    assert with_yes == {*CHANGING, *CHANGING_LETTERS}


def test_every_command_answers_in_json_and_takes_the_place_behind_itself() -> None:
    expected = {"as_json", "stack", "local", "profile", "region", "endpoint_url"}
    missing = {
        name
        for name, command in commands().items()
        if not expected <= {str(option.name) for option in command.params}
    }

    assert missing == WITHOUT_PLACE


def test_wrong_command_line_is_status_two(bare: Sekali) -> None:
    assert bare("invalidate", "--yes").status == 2
    assert bare("send").status == 2
    assert bare("nonsense").status == 2
    assert bare("leases", "--stack", "a", "--local", "--json").error["status"] == 2


@pytest.mark.parametrize("payload", ["not JSON", "[1]", "@/nowhere/at/all"])
def test_payload_that_is_no_object_is_refused_before_anything_is_sent(
    bare: Sekali, tmp_path: Path, payload: str
) -> None:
    (tmp_path / "running.json").write_text(told())

    done = bare("send", "report", payload, "--local-at", str(tmp_path), "--json")

    assert (done.status, done.error["kind"]) == (2, "usage")


def test_profile_region_and_endpoint_are_those_of_the_aws_command(bare: Sekali) -> None:
    session = Session(profile=None, region="eu-west-3", endpoint_url="http://127.0.0.1:9")
    absent = bare("leases", "--stack", "a", "--profile", "nobody", "--json")

    client = session("sqs")
    assert client is session("sqs")
    assert (client.meta.region_name, client.meta.endpoint_url) == (
        "eu-west-3",
        "http://127.0.0.1:9",
    )
    assert (absent.status, absent.error["kind"]) == (3, "ProfileNotFound")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(bare: Sekali, shell: str) -> None:
    done = bare("completion", shell)

    assert done.status == 0
    assert "_SEKALI_COMPLETE" in done.out


def test_installed_command_completes_and_tells_its_version() -> None:
    """The entry point that the set-up installs beside the interpreter."""
    command = Path(sys.executable).with_name("sekali")
    asked = {**os.environ, "COMP_WORDS": "sekali sta", "COMP_CWORD": "1"}

    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    completed = subprocess.run(
        [command],
        env=asked | {"_SEKALI_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert version.stdout.startswith("sekali, version ")
    assert completed.stdout.split() == ["plain,status"]
