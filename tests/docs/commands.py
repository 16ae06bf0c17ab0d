"""Find the commands that the pages show, in blocks and in sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs.clone import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FENCE = re.compile(r"^```(\w+)?[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SHELLS = frozenset({"sh", "bash"})
_PROGRAMS = ("make", "sekali", ".venv/bin/sekali", "aws", "cdk", "pip", "python")
_INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, order=True)
class Command:
    """One command of one page, as a shell reads it."""

    page: str
    text: str


def pages() -> Iterator[Path]:
    """Every page of the repository that a reader meets."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks() -> Iterator[tuple[str, str, str]]:
    """The fenced blocks: page, language, text."""
    for page in pages():
        for found in FENCE.finditer(page.read_text(encoding="utf-8")):
            yield name_of(page), found[1] or "", found[2]


def commands(program: str) -> list[Command]:
    """The commands that begin with a program; of a sentence only those that say more than it."""
    found = {
        Command(page, line)
        for page, language, text in blocks()
        if language in SHELLS
        for line in _lines(text)
    }
    for page in pages():
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        found |= {Command(name_of(page), text) for text in _INLINE.findall(prose) if " " in text}
    return sorted(one for one in found if one.text.split(" ")[0] == program)


def _lines(text: str) -> Iterator[str]:
    joined = re.sub(r"\\\n\s*", "", text)
    for line in joined.splitlines():
        # A comment behind a command is two spaces away from it.
        yield re.split(r"\s{2,}#", line.strip())[0].strip()
