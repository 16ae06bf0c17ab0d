"""Children that die with us, and folders that do too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from infra.local.processes import Nursery, NurseryClosed
from infra.local.workspace import workspace


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every temporary folder be made in one that belongs to the test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_what_a_killed_stack_left_is_removed_by_the_next(temporary: Path) -> None:
    orphan = temporary / "sekali-local-orphan"
    orphan.mkdir()
    (orphan / "lock").touch()
    (orphan / "file").touch()

    with workspace() as first, workspace() as second:
        alive = {path for path in temporary.iterdir() if path.is_dir()}

    assert alive == {first, second}
    assert list(temporary.iterdir()) == []


def test_a_closed_nursery_starts_nothing_more() -> None:
    nursery = Nursery()
    child = nursery.start(["sleep", "60"], variables={}, folder=Path("/"), output=2)

    nursery.close()

    assert child.exit_code == -signal.SIGKILL
    with pytest.raises(NurseryClosed):
        nursery.start(["sleep", "60"], variables={}, folder=Path("/"), output=2)


PARENT = """
import time
from pathlib import Path
from infra.local.processes import Nursery
child = Nursery().start(["sleep", "60"], variables={}, folder=Path("/"), output=2)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_dies_with_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())

    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    deadline = time.monotonic() + 30
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    """Whether a process lives; one that has ended and waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
