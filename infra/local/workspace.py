"""The one folder in which a running stack keeps files, and which is gone when it stops.

A stack that was killed with `kill -9` cannot tidy up; the next one does it for it. Each folder
holds a lock that the kernel gives back when its owner dies, so a folder whose lock is free is
nobody's.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "sekali-local-"
_LOCK: Final = "lock"


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """Make a folder of our own, after removing those that dead stacks left behind."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # Locked before it is called `lock`: nobody can find it free in between.
    unnamed = folder / "lock.new"
    handle = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    unnamed.rename(folder / _LOCK)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
