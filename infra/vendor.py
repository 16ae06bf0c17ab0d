"""The third-party packages of the functions, installed for the platform they run on.

`python -m infra.vendor aws host` installs them ahead of time, so that a synth needs no network.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.platforms import Platform, aws_platform, host_platform

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "layers" / "vendor" / "requirements.txt"
CACHE: Final = ROOT / ".cache" / "vendor"

_INSTALL: Final = (
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    # The lock is complete but for what the Lambda runtime brings (boto3), which must stay out.
    "--no-deps",
    "--require-hashes",
    # Nothing is built here: a build would be for this machine, and would run a package's code.
    "--only-binary=:all:",
    # pip's bytecode holds paths and times of this machine; a synth makes what Lambda can read.
    "--no-compile",
)


def fingerprint(platform: Platform, *, lock: Path = LOCK, left_out: Sequence[str] = ()) -> str:
    """Name what an installation depends on: the lock, the platform and pip's arguments."""
    digest = hashlib.sha256(lock.read_bytes())
    choices = (platform.wheels, platform.python, *_INSTALL, *platform.pip_arguments, *left_out)
    digest.update("\0".join(choices).encode())
    return digest.hexdigest()


def locked_version(package: str, *, lock: Path = LOCK) -> str:
    """Answer the version of a package in the lock.

    Raises:
        LookupError: The lock does not name it.
    """
    pinned = re.search(
        rf"^{re.escape(package)}(?:\[[^]]*\])?==(\S+)", lock.read_text(), re.MULTILINE
    )
    if pinned is None:
        raise LookupError(f"{lock.name} does not name {package}")
    return pinned[1]


def install(platform: Platform, *, lock: Path = LOCK, cache: Path = CACHE) -> Path:
    """Return a folder with the packages under `python/`; install them if they are not there yet.

    An installation is complete or absent: it is made in a folder beside the final one, and
    renamed. Two that race make the same, and the later one is dropped. pip's output goes to
    stderr, because the stdout of a synth belongs to the CDK command.

    Raises:
        subprocess.CalledProcessError: pip failed (no network, or no wheel for the platform).
    """
    folder = cache / fingerprint(platform, lock=lock)
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        target = Path(scratch, "layer", "python")
        command = [sys.executable, "-m", "pip", *_INSTALL, *platform.pip_arguments]
        command += ["--target", str(target), "--requirement", str(lock)]
        subprocess.run(command, check=True, stdout=sys.__stderr__)
        # Commands of the packages, for the interpreter of this machine.
        shutil.rmtree(target / "bin", ignore_errors=True)
        try:
            target.parent.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


def size_bytes(folder: Path) -> int:
    """Answer what a layer's files weigh, unzipped and without bytecode."""
    return sum(
        file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )


def main() -> None:
    """Install for each target named on the command line, and tell what the layers weigh."""
    platforms = {"aws": aws_platform, "host": host_platform}
    library = size_bytes(ROOT / "layers" / "sekali" / "python" / "sekali")
    for target in sys.argv[1:] or platforms:
        packages = size_bytes(install(platforms[target]()))
        sys.stdout.write(
            f"layers for {target}: {library / 1e6:.1f} MB of library, {packages / 1e6:.1f} MB of"
            " packages, unzipped, before bytecode\n"
        )


if __name__ == "__main__":
    main()
