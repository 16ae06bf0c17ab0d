"""Run every mutant of the scripts against what has to catch it.

docs/design/mutants.md lists each mutant with its catcher: the seed of a history, or a directed
test. The test of the list runs exactly that catcher, so it is quick and the list cannot lie. When a
script changes, `python -m tests.properties.protocol.mutants` writes the list anew.
"""

from __future__ import annotations

import hashlib
import sys
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from redis import Redis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ResponseError

from sekali import scripts
from sekali.scripts import Script
from tests.conftest import started_valkey
from tests.properties.protocol.coverage import HISTORY_STEPS, SEEDS
from tests.properties.protocol.histories import History
from tests.properties.protocol.mutation import Mutant, mutants
from tests.properties.protocol.world import SCRIPTS, World
from tests.valkey import (
    test_claim_rows,
    test_finish_rows,
    test_log,
    test_renew_rows,
    test_usual_runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGE: Final = Path(__file__).parents[3] / "docs" / "design" / "mutants.md"
FILES: Final = (
    "words", "claim", "renew", "finish", "invalidate", "revoke", "log_append", "log_end", "epoch",
    "note_runs",
)  # fmt: skip
HISTORY: Final = "history "

# What leaves something out cannot show what must not be added (PROTOCOL §6: "kept", "untouched").
ADDITIONS: Final = (
    ("claim", "local attempt =", "redis.call('HSET', KEYS[4], 'inv', '0')\n    local attempt ="),
    ("claim", "local attempt =", "redis.call('HSET', KEYS[1], 'pre', 'sure')\n    local attempt ="),
    ("claim", "local attempt =", "redis.call('HINCRBY', KEYS[1], 'at', 1)\n    local attempt ="),
    ("renew", "'inv', '1'", "'inv', '0'"),
    (
        "renew",
        "redis.call('PEXPIRE', KEYS[4], ARGV[6])",
        "redis.call('HSET', KEYS[4], 'inv', '0')\nredis.call('PEXPIRE', KEYS[4], ARGV[6])",
    ),
)

Directed = dict[str, "Callable[[World], None]"]


def directed_tests() -> Directed:
    """Return every test of a single row, by its name."""
    modules = (test_claim_rows, test_renew_rows, test_finish_rows, test_log, test_usual_runs)
    return {
        name: test
        for module in modules
        for name, test in vars(module).items()
        if name.startswith("test_")
    }


def text_of(file: str) -> str:
    """Return the text of one Lua file."""
    return (files(scripts) / f"{file}.lua").read_text(encoding="utf-8")


def mutants_of(file: str) -> list[Mutant]:
    """Return every mutant of one Lua file."""
    source = text_of(file)
    added = [
        Mutant(file, f"{old} → {' '.join(new.split())}", source.replace(old, new, 1))
        for where, old, new in ADDITIONS
        if where == file
    ]
    return [*mutants(file, source), *added]


def broken_scripts(mutant: Mutant) -> Mapping[str, Script]:
    """Return the scripts that contain the mutant, by the SHA-1 of the sound ones."""
    sound = text_of(mutant.script)
    broken = {}
    for script in SCRIPTS:
        if sound in script.source:
            source = script.source.replace(sound, mutant.source)
            sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
            broken[script.sha] = Script(script.name, source, sha)
    return broken


def is_caught(client: Redis, mutant: Mutant, catcher: str) -> bool:
    """Tell whether a history, or the directed test of that name, fails on the mutant."""
    world = World(client, broken_scripts(mutant))
    try:
        if catcher.startswith(HISTORY):
            History(world, Random(int(catcher.removeprefix(HISTORY)))).run(HISTORY_STEPS)
        else:
            directed_tests()[catcher](world)
    except Disconnected:
        raise
    except Exception:  # noqa: BLE001 whatever a broken script leads to, the test has failed
        return True
    return False


def find_catcher(client: Redis, mutant: Mutant) -> str:
    """Return who catches the mutant first, the histories before the directed tests.

    Raises:
        LookupError: Nobody does.
    """
    for catcher in (*(f"{HISTORY}{seed}" for seed in SEEDS), *directed_tests()):
        if is_caught(client, mutant, catcher):
            return catcher
    raise LookupError(f"nobody catches {mutant.script}: {mutant.name}")


def page(catchers: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page that lists every mutant and its catcher."""
    everyone = [catcher for found in catchers.values() for catcher in found.values()]
    count = len(everyone)
    by_history = sum(catcher.startswith(HISTORY) for catcher in everyone)
    lines = [
        "# Mutants of the scripts",
        "",
        "Each comparison, write and field of the Lua scripts is there for a reason: without it",
        "something fails. This page says what. `python -m tests.properties.protocol.mutants`",
        "writes it; `tests/properties/test_mutants.py` breaks the scripts in each of these ways",
        "and runs the catcher named here.",
        "",
        f"{count} mutants, {by_history} of them caught by a random history of",
        "`tests/properties/test_histories.py`, named by its seed, which deviates from the decision",
        "tables. The others are caught by the directed test of that name. How mutants are made",
        "stands in `tests/properties/protocol/mutation.py`.",
    ]
    for file, found in catchers.items():
        lines += ["", f"## {file}.lua", "", "| broken how | caught by |", "|---|---|"]
        lines += [f"| `{name}` | {catcher} |" for name, catcher in found.items()]
    return "\n".join(lines) + "\n"


def read_page(text: str) -> dict[str, dict[str, str]]:
    """Read the page back: file → mutant → catcher."""
    catchers: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            catchers[line[3:].removesuffix(".lua")] = {}
        elif line.startswith("| `"):
            name, catcher = line.removeprefix("| `").removesuffix(" |").rsplit("` | ", 1)
            catchers[list(catchers)[-1]][name] = catcher
    return catchers


def main() -> None:
    """Write the page anew, and say who survives."""
    found: dict[str, dict[str, str]] = {}
    with started_valkey() as server, Redis(port=server.port, protocol=3) as client:
        for file in FILES:
            found[file] = {}
            for mutant in mutants_of(file):
                try:
                    found[file][mutant.name] = find_catcher(client, mutant)
                except (LookupError, ResponseError) as error:
                    sys.stderr.write(f"{mutant.script}: {mutant.name}: {error}\n")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
