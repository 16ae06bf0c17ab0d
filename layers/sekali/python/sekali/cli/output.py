"""Write for people: tables, ages, times; colours on a terminal only, and none with NO_COLOR.

Whether colours are written is click's to decide: it strips them where the output is no terminal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400
_GAP: Final = "  "
_COLOURS: Final = {
    "done": "green",
    "ok": "green",
    "live": "green",
    "running": "cyan",
    "waiting": "yellow",
    "pending": "yellow",
    "abandoned": "yellow",
    "long": "yellow",
    "overdue": "yellow",
    "unknown": "yellow",
    "warning": "yellow",
    "skipped": "bright_black",
    "failed": "red",
    "endless": "red",
    "wrong": "red",
}


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table, as wide as it needs; nothing for no rows."""
    if not rows:
        return
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    yield click.style(_line(head, widths), bold=True)
    for row in texts:
        first, padded = row[0], _line(row, widths)
        yield word(first) + padded[len(first) :]


def word(text: str) -> str:
    """Colour a word that stands for a state."""
    colour = _COLOURS.get(text)
    return click.style(text, fg=colour) if colour else text


def title(text: str) -> str:
    """Return a heading."""
    return click.style(text, bold=True)


def duration(seconds: float) -> str:
    """Write a length of time: `0.3 s`, `2 min 05 s`, `1 h 02 min`, `3 d 04 h`."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def moment(unix_seconds: float) -> str:
    """Write a time as it is here: `2026-11-29 22:41:03`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_seconds))


def cut(text: str, most: int) -> str:
    """Shorten a text to one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()
