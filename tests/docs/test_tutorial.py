"""The tutorial is followed to the letter, in a clone with an empty home."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from sekali.cli.faults import Exit
from sekali.cli.program import main
from tests.docs.clone import ROOT, make_clone, shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)```", flags=re.DOTALL)
# They need an account; `make deploy-local` runs them against a local one.
WITH_ACCOUNT = ("cdk bootstrap", "cdk deploy -c stage=dev")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return make_clone(tmp_path / "a clone")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def steps() -> Iterator[tuple[str, str, str]]:
    """The blocks of the page: language, file, text."""
    for found in BLOCK.finditer(PAGE):
        yield found[1], found[2] or "", found[3]


def follow(clone: Path, language: str, title: str, text: str, *, home: Path) -> str:
    """Do what one block says; return what it printed."""
    if title == "cdk.json":
        name_workers(clone / title, json.loads(f"{{{text}}}"))
    elif title:
        (clone / title).write_text(text, encoding="utf-8")
    elif language == "sh" and not any(command in text for command in WITH_ACCOUNT):
        return shell(clone, text, home=home)
    return ""


def name_workers(path: Path, entry: dict[str, Any]) -> None:  # Any: JSON
    app = json.loads(path.read_text(encoding="utf-8"))
    app["context"] |= entry
    path.write_text(json.dumps(app), encoding="utf-8")


def settled(ran: str) -> list[str]:
    """The lines of a run, whichever environment came first."""
    return [re.sub(r"^\[parcels \d+\]", "[parcels 1]", line) for line in ran.splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # It synthesizes and runs the stack, on a machine that may be busy.
def test_every_step_of_the_tutorial_does_what_the_page_says(clone: Path, home: Path) -> None:
    printed = {
        text: follow(clone, language, title, text, home=home)
        for language, title, text in steps()
        # These have tests of their own.
        if "make demo" not in text and "make synth" not in text
    }

    (written,) = [told for text, told in printed.items() if "new-worker" in text]
    assert '"workers": "reports,parcels"' in written
    (tested,) = [told for text, told in printed.items() if "make test" in text]
    assert "2 passed" in tested
    (ran,) = [told for text, told in printed.items() if "make local" in text]
    (promised,) = [text for language, _, text in steps() if language == "text"]
    assert [line for line in promised.splitlines() if line not in settled(ran)] == []
    # A machine that is busy enough lets the function run into its timeout; then it reads again.
    assert ran.count("reading the tariff") == 1 or "Task timed out" in ran
    quotes = [line for line in ran.splitlines() if line.startswith("quote/")]
    assert len(quotes) == 2
    (template,) = (clone / ".cache" / "local").glob("*/*.template.json")
    outputs = json.loads(template.read_text())["Outputs"]
    assert set(re.findall(r"`(\w+QueueUrl|TableName|BucketName)`", PAGE)) <= set(outputs)


def test_commands_that_need_an_account_are_those_of_the_deploy_page() -> None:
    deploy = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")

    for command in WITH_ACCOUNT:
        assert command in PAGE
        assert command in deploy


def test_the_demo_of_the_tutorial_takes_these_arguments() -> None:
    from infra.local.demo import _parser

    (text,) = [text for _, _, text in steps() if "make demo" in text]
    found = re.search(r'ARGS="([^"]+)"', text)

    assert found is not None
    assert _parser().parse_args(found[1].split()).messages == 300


def test_command_for_one_more_job_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No stack runs here, which is found out after the command line was read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (command,) = re.findall(r"`\.venv/bin/sekali (--worker [^`]+)`", PAGE)

    status = main(shlex.split(command))

    assert status == Exit.NO_STACK
