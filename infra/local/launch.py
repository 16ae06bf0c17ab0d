"""Become another program that the kernel kills when its parent dies.

Run as `python -I -S launch.py PARENT_PID COMMAND...`, never imported by the stack.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    """Arm the signal, make sure that the parent has not died before that, and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        os.execvp(command[0], command)  # noqa: S606 - the point of this program


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
