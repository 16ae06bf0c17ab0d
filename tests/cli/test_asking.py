"""What people see: a question before a change, and colours on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from sekali.cli.faults import Exit, Fault
from sekali.cli.here import Choices, Here
from sekali.cli.output import cut, duration, table
from tests.cli.test_command_line import told

if TYPE_CHECKING:
    from pathlib import Path


class Terminal:
    """A standard input that people sit at."""

    @staticmethod
    def isatty() -> bool:
        return True


def test_people_are_asked_and_a_no_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = iter([True, False])

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(click, "confirm", confirm)

    Here(Choices()).confirm("Delete all", yes=False)
    with pytest.raises(Fault) as caught:
        Here(Choices()).confirm("Delete all", yes=False)

    assert caught.value.status is Exit.UNCONFIRMED
    assert asked == ["Delete all?", "Delete all?"]


def on_a_terminal(folder: Path, **variables: str) -> bytes:
    """Run a command whose answer has a coloured word, on a terminal of its own."""
    stack = json.loads(told(log_file=os.devnull))
    # Without queues and a table nobody is asked who does not answer.
    stack["functions"][0]["variables"] = {"SEKALI_CACHE_URL": "valkey://127.0.0.1:9"}
    (folder / "running.json").write_text(json.dumps(stack))
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        command = [sys.executable, "-m", "sekali.cli", "doctor", "--local-at", str(folder)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm", **variables},
        )
        os.close(theirs)
        written = b""
        try:
            while part := screen.read(4_096):
                written += part
        except OSError:
            pass  # The terminal's other end is closed: the command has ended.
        process.wait(60)
    return written


@pytest.mark.slow
def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    coloured = on_a_terminal(tmp_path)
    plain = on_a_terminal(tmp_path, NO_COLOR="1")

    assert b"\x1b[" in coloured
    assert b"wrong" in plain
    assert b"\x1b[" not in plain


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.2 s"), (61, "1 min 01 s"), (3_660, "1 h 01 min"), (90_000, "1 d 01 h")],
)
def test_lengths_of_time_are_written_in_their_own_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_table_is_as_wide_as_its_widest_cell_and_nothing_without_rows() -> None:
    lines = [click.unstyle(line) for line in table(("a", "key"), [("live", 1), ("x", "long one")])]

    assert lines == ["a     key", "live  1", "x     long one"]
    assert list(table(("a",), [])) == []


def test_long_text_is_cut_to_one_line() -> None:
    assert cut("one\ntwo  three", 50) == "one two three"
    assert cut("x" * 20, 10) == "x" * 9 + "…"
