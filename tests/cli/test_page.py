"""docs/cli.md: each command is run on a stack, and says what the page says that it says."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sekali import lease
from sekali.cli.faults import Exit
from tests.cli.test_command_line import commands
from tests.cli.test_keys import container_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.stack import LocalStack
    from tests.cli.conftest import Sekali

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
# Printed by the page's own words, or written into a folder of the user's: `tests/docs` runs it.
NOT_SHOWN = {"completion", "new-worker"}
LOOKING = {"status", "leases", "explain", "recover"}
WITHIN_SECONDS = 60.0


def steps() -> Iterator[tuple[str, str]]:
    """Yield each command of the page, with what it prints."""
    for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL):
        for step in re.findall(r"^\$ (.*?\n)(.*?)(?=^\$ |\Z)", block, re.MULTILINE | re.DOTALL):
            yield step[0].strip(), step[1]


def pattern(shown: str) -> re.Pattern[str]:
    """Read an example: `…` is any text, alone any lines; blanks are as wide as they like."""
    lines = []
    for line in shown.splitlines():
        if line == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        words = (".*".join(re.escape(part) for part in word.split("…")) for word in line.split())
        lines.append(r"\s*" + r"\s+".join(words) + r"\s*\n")
    return re.compile("".join(lines))


@pytest.fixture
def prepared(
    sekali: Sekali, stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let there be what the page tells of: a holder, and a dead letter."""
    monkeypatch.chdir(tmp_path)
    payload = json.dumps({"month": "1999-01", "carrier": "UA"})
    sekali("send", "delay-report", payload, "--id", "order-9", "--wait", "60")
    peek = ("dlq", "peek", "--id", "order-9", "--json")
    deadline = time.monotonic() + WITHIN_SECONDS
    while not sekali(*peek).json["letters"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with container_of(stack), lease("ledger/2026-11"):
        yield


@pytest.mark.usefixtures("prepared")
def test_every_command_prints_what_the_page_says(sekali: Sekali) -> None:
    run = list(steps())
    assert len(run) >= 15

    for command, shown in run:
        name, *arguments = shlex.split(command)
        assert name == "sekali"
        done = sekali(*arguments)

        # The table knows a result a moment before the cache and the log do.
        deadline = time.monotonic() + WITHIN_SECONDS
        while arguments[0] in LOOKING and not pattern(shown).fullmatch(done.out):
            if time.monotonic() > deadline:
                break
            done = sekali(*arguments)
        assert pattern(shown).fullmatch(done.out), f"{command}\n{done.out}{done.err}"
        assert done.status == 0, command


def test_every_command_is_shown_on_the_page() -> None:
    shown = [command.removeprefix("sekali ") for command, _ in steps()]
    missing = {
        name for name in commands() if not any(f"{one} ".startswith(f"{name} ") for one in shown)
    }

    assert missing == NOT_SHOWN


def test_fields_of_json_are_those_of_the_page(sekali: Sekali) -> None:
    """What programs read: each name of the table is there, and no other on the first level."""
    section = PAGE.partition("## In JSON")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z -]+)` \| (.+) \|$", section, flags=re.MULTILINE))
    payload = json.dumps({"month": "2013-01", "carrier": "UA"})
    sekali("send", "delay-report", payload, "--id", "json-1", "--wait", "60")
    asked = {
        "status": ["json-1", "--job", "delay-report"],
        "result": ["json-1", "--job", "delay-report"],
        "leases": [],
        "steal": ["nothing", "--job", "@", "--yes"],
        "explain": ["nothing"],
        "invalidate": ["--key", "nothing", "--yes"],
        "recover": [],
        "dlq stats": ["--id", "json-1"],
        "dlq peek": ["--id", "json-1"],
        "doctor": [],
    }

    for name, arguments in asked.items():
        found = sekali(*name.split(), *arguments, "--json").json

        outside = re.sub(r"\([^)]*\)", "", rows[name])
        assert found.keys() == set(re.findall(r"`([a-z_]+)`", outside)), name


def test_statuses_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| ([0-9]+) \| .+ \|$", PAGE, flags=re.MULTILINE)

    assert [int(row) for row in rows] == [int(one) for one in Exit]
