"""Bytecode beside the modules of a layer, because Lambda cannot write any.

A layer is read-only, so what it brings no bytecode for is compiled at every cold start. Python
reads `__pycache__/X.cpython-313.pyc` where it is 3.13 itself and passes over it otherwise: bytecode
of another Python changes nothing, and so does a module that has none.

The Python of a synth need not be that of the functions. Then a `python3.13` on the PATH compiles;
where there is none, the layers hold sources alone and the synth says so.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# Where Lambda unpacks layers. Import corrects the path elsewhere, so tracebacks are right anyway;
# but what is compiled does not depend on the folder of a build.
_LAYERS: Final = "/opt"
COMPILE: Final = (
    # Neither variables nor packages of this machine.
    *("-I", "-S", "-m", "compileall", "-q"),
    # By default bytecode counts while its source has the time of then, which no asset keeps. A
    # layer cannot be changed without a new version, so nothing has to be compared at all.
    *("--invalidation-mode", "unchecked-hash"),
    *("-p", _LAYERS),
)
_TELL: Final = "import sys; print(sys.implementation.cache_tag, sys.version_info.releaselevel)"


def interpreter(python: str) -> str | None:
    """Find an interpreter that compiles for a version, or nothing: this one, or one on the PATH.

    Pre-releases are not taken, because the format of bytecode may change until the release.
    """
    # CPython's own name for its bytecode, in the names of the files.
    wanted = f"cpython-{python.replace('.', '')} final"
    if wanted == f"{sys.implementation.cache_tag} {sys.version_info.releaselevel}":
        return sys.executable
    found = shutil.which(f"python{python}")
    if found is None:
        return None
    try:
        told = subprocess.run(
            [found, "-I", "-S", "-c", _TELL], capture_output=True, check=False, text=True
        )
    except OSError:  # A file of that name, but no program for this machine.
        return None
    return found if told.stdout.strip() == wanted else None


def add(layer: Path, *, interpreter: str) -> None:
    """Compile every module below a layer's folder.

    A module that does not compile is told on stderr and stays without bytecode, because a package
    may bring files that nobody imports. stdout of a synth belongs to the CDK command.
    """
    command = [interpreter, *COMPILE, "-s", str(layer), str(layer)]
    subprocess.run(command, check=False, stdout=sys.__stderr__)


def fingerprint(python: str) -> str:
    """Name what bytecode of unchanged sources depends on: the version, and how it is compiled.

    Not the bytecode itself, which two compilations need not make alike to the last byte
    (https://github.com/python/cpython/issues/129724).
    """
    return " ".join((f"python{python}", *COMPILE))


def absence(python: str) -> str:
    """Say what a stack without bytecode costs, and what to do about it."""
    return (
        f"The layers hold no bytecode, so each cold start compiles what it imports: the functions"
        f" run on Python {python}, this synth on {sys.version_info[0]}.{sys.version_info[1]}, and"
        f" no python{python} is on the PATH. With one of them the layers have it."
    )
