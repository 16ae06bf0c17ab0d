"""Hold the server-side scripts, and the commands that run them.

Each step of the protocol is one script over declared keys of one slot, so it happens whole or not
at all. The text of a script is read once per process; what travels is its SHA-1, and its text only
when a node answers that it does not know it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "CLAIM",
    "EPOCH",
    "FINISH",
    "INVALIDATE",
    "LOAD",
    "LOG_APPEND",
    "LOG_END",
    "NOTE_RUNS",
    "RENEW",
    "REVOKE",
    "Command",
    "Script",
    "load",
]


@dataclass(frozen=True, slots=True)
class Script:
    """Hold one script: its name, its whole text and the name the server gives that text."""

    name: str
    source: str
    sha: str


@dataclass(frozen=True, slots=True)
class Command:
    """Hold one command for a pipeline.

    `args` is complete as it stands: `GET key`, or `EVALSHA sha numkeys keys… argv…` where `script`
    is set. A command may be sent again after a lost reply: each one of this library is made for
    that.
    """

    args: tuple[bytes | str | int, ...]
    script: Script | None = None

    @classmethod
    def run(
        cls, script: Script, keys: tuple[bytes, ...], argv: tuple[bytes | str | int, ...]
    ) -> Command:
        """Return the command that runs `script` by its SHA-1."""
        return cls(("EVALSHA", script.sha, len(keys), *keys, *argv), script)

    def with_text(self) -> tuple[bytes | str | int, ...]:
        """Return the arguments with the script's text in place of its SHA-1."""
        if self.script is None:
            return self.args
        return ("EVAL", self.script.source, *self.args[2:])


def load(name: str, *, after: tuple[str, ...] = ()) -> Script:
    """Read `<name>.lua`, put behind the files named by `after`."""
    folder = Path(__file__).parent  # a layer is unpacked; importlib.resources costs its import
    parts = [(folder / f"{part}.lua").read_text(encoding="utf-8") for part in (*after, name)]
    source = "".join(parts)
    # The server names a script by SHA-1; nothing is protected by it.
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = load("claim", after=("words",))
LOAD: Final = load("claim", after=("served", "words"))
"""The claim of a load: the same, in fewer steps where there is a value."""
RENEW: Final = load("renew", after=("words",))
FINISH: Final = load("finish", after=("words",))
INVALIDATE: Final = load("invalidate")
REVOKE: Final = load("revoke")
NOTE_RUNS: Final = load("note_runs")
LOG_APPEND: Final = load("log_append")
LOG_END: Final = load("log_end")
EPOCH: Final = load("epoch")
