"""Synthesize the stack for this machine with the genuine CDK, once per state of the sources.

Each state has a folder of its own under `.cache/local`, named by a fingerprint of all that a synth
reads. A folder is complete or absent, so demos with different sources do not disturb each other.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "local"
# Short, so that a killed batch comes back within the demo: after six times the timeout.
CONTEXT: Final[Mapping[str, str]] = {
    "target": "host",
    "timeout_seconds": "5",
    "max_concurrency": "4",
    # Whatever cdk.json adds: the demo's jobs are reports.
    "workers": "reports",
}
_SOURCES: Final = ("cdk.json", "infra", "handlers", "layers")
_LEFT_OUT: Final = frozenset({"__pycache__", "local"})
_KEPT_SECONDS: Final = 24 * 3600
_LOCK: Final = "lock"
_FINGERPRINT_LENGTH: Final = 16


class SynthesisFailed(RuntimeError):
    """`cdk synth` ended with an error; `output` is what it printed."""

    def __init__(self, output: str) -> None:
        self.output = output
        super().__init__(f"cdk synth failed:\n{output}")


def synthesize(context: Mapping[str, str] = CONTEXT, *, cache: Path = CACHE) -> Path:
    """Answer a cloud assembly of the sources as they are now.

    Raises:
        SynthesisFailed: The app or the CDK command failed.
    """
    folder = cache / fingerprint(context)
    if folder.exists():
        os.utime(folder)
        return folder
    with _alone(cache):
        # Another demo may have made it in the meantime.
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix="synth-") as scratch:
                made = Path(scratch) / "cdk.out"
                _synth(context, made)
                made.rename(folder)
        _forget_old(cache, keep=folder)
    return folder


def fingerprint(context: Mapping[str, str] = CONTEXT) -> str:
    """Name the state of everything that a synth reads."""
    digest = hashlib.sha256(repr((sys.version_info, sorted(context.items()))).encode())
    for path in _files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:_FINGERPRINT_LENGTH]


def _files() -> Iterator[Path]:
    for name in _SOURCES:
        source = ROOT / name
        if source.is_file():
            yield source
            continue
        for path in sorted(source.rglob("*")):
            if path.is_file() and not _LEFT_OUT & set(path.relative_to(ROOT).parts):
                yield path


def _synth(context: Mapping[str, str], output: Path) -> None:
    bin_folder = Path(sys.executable).parent
    command = [str(bin_folder / "cdk"), "synth", "--quiet", "--no-notices", "--output", str(output)]
    for name, value in context.items():
        command += ["--context", f"{name}={value}"]
    variables = {
        **os.environ,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        # Node and the interpreter of cdk.json's `app` are packages of this environment too.
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        raise SynthesisFailed(done.stdout.decode(errors="replace"))


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Let one process synthesize at a time; a dead one's lock is free again."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_old(cache: Path, *, keep: Path) -> None:
    """Remove the assemblies that nobody has run for a day."""
    oldest = time.time() - _KEPT_SECONDS
    for folder in cache.iterdir():
        if folder.name not in {keep.name, _LOCK} and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
