"""Write measured rows into a page of the docs, each benchmark under its own heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.benchmarks.harness import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.benchmarks.harness import Row


def write_into(page: Path, sections: Mapping[str, Sequence[Row]], *, machine: str) -> None:
    """Replace the table of each section that was run; the others stay as they were measured.

    A section that the page does not have yet is added at its end.
    """
    text = page.read_text(encoding="utf-8")
    for name, rows in sections.items():
        block = _block(name, rows, machine)
        old = re.search(rf"^### {re.escape(name)}\n.*?(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
        text = text.replace(old[0], block) if old else f"{text.rstrip()}\n\n{block}"
    page.write_text(text.rstrip() + "\n", encoding="utf-8")


def _block(name: str, rows: Sequence[Row], machine: str) -> str:
    lines = [
        f"### {name}",
        "",
        _line(COLUMNS),
        _line(["---"] * len(COLUMNS)),
        *(_line(row.cells()) for row in rows),
        "",
        *(f"- {row.name}: {row.note}" for row in rows if row.note),
        *([""] if any(row.note for row in rows) else []),
        f"Measured on {machine}.",
        "",
        "",
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
