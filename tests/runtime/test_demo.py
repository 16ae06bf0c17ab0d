"""The demo as a user runs it: sound figures, the right exit status, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.local.demo import FLIGHTS, main
from infra.local.synthesis import synthesize
from tests.runtime.test_stack import processes_that_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# What issue and README promise of the report file.
FIGURES = {
    "completed",
    "dead_lettered",
    "distinct_ids",
    "distinct_keys",
    "double_effects",
    "duplicates_suppressed",
    "hit_ratio",
    "latency_ms",
    "loads",
    "lost",
    "round_trips_per_batch",
    "seconds",
    "sent",
    "served_from_cache",
    "takeovers",
    "wrong_results",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _synthesized() -> None:
    synthesize()
    assert FLIGHTS.exists(), "run `make data`"


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@contextmanager
def demo(*arguments: str, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = subprocess.Popen(
        [sys.executable, "-m", "infra.local.demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


def test_a_small_run_is_sound_and_writes_its_figures(tmp_path: Path, temporary: Path) -> None:
    report = tmp_path / "report.json"

    with demo("--messages", "30", "--report", str(report), temporary=temporary) as program:
        output, _ = program.communicate(timeout=110)

    figures = json.loads(report.read_text())
    assert program.returncode == 0, output.decode()
    assert figures.keys() >= FIGURES
    assert (figures["sent"], figures["lost"]) == (30, 0)
    assert (figures["double_effects"], figures["wrong_results"]) == (0, 0)
    assert figures["loads"] == figures["distinct_keys"]
    assert {"median", "max"} <= figures["round_trips_per_batch"].keys()
    assert {"local", "shared"} <= figures["hit_ratio"].keys()
    assert {"p50", "p95", "p99"} <= figures["latency_ms"].keys()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing(temporary: Path, number: signal.Signals) -> None:
    with demo("--messages", "500", temporary=temporary) as program:
        assert program.stdout is not None
        while b"sent" not in program.stdout.readline():
            assert program.poll() is None
        running = processes_that_name(str(temporary))

        program.send_signal(number)
        program.communicate(timeout=90)

    deadline = time.monotonic() + 30
    while processes_that_name(str(temporary)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(running) >= 2
    assert processes_that_name(str(temporary)) == []
    assert list(temporary.iterdir()) == []
    assert program.returncode == 130


def test_a_demo_that_stays_is_found_by_the_command_until_it_is_stopped(temporary: Path) -> None:
    command = [str(Path(sys.executable).with_name("sekali")), "--json"]
    variables = {**os.environ, "TMPDIR": str(temporary)}

    def sekali(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], env=variables, capture_output=True, text=True, check=False
        )

    question = json.dumps({"month": "2013-02", "carrier": "UA"})
    with demo("--messages", "20", "--stay", temporary=temporary) as program:
        assert program.stdout is not None
        while b"The stack goes on" not in program.stdout.readline():
            assert program.poll() is None
        sent = sekali("send", "delay-report", question, "--id", "stays", "--wait", "60")
        examined = sekali("doctor")
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=90)

    assert json.loads(sent.stdout)["result"]["carrier"] == "UA"
    assert json.loads(examined.stdout)["wrong"] == 0
    assert program.returncode == 0
    assert list(temporary.iterdir()) == []
    assert json.loads(sekali("leases").stderr)["error"]["kind"] == "no_stack"


@pytest.mark.parametrize("argument", ["0", "-1", "many", "1.5", "9" * 20])
def test_a_number_of_messages_that_is_none_is_refused(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--messages", argument])

    assert left.value.code == 2
    rule = "--messages: must be a whole number between 1 and 100000"
    assert rule in capsys.readouterr().err


@pytest.mark.parametrize("path", ["missing/report.json", "tmp", ""])
def test_report_that_could_not_be_written_is_refused_before_the_run(
    path: str, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Symptom: the figures of a whole run were lost because their folder was not there."""
    file = str(temporary.parent / path) if path else "/"

    with pytest.raises(SystemExit) as left:
        main(["--report", file])

    assert left.value.code == 2
    rule = "--report: must be a file in a folder that is there"
    assert rule in capsys.readouterr().err
