"""Check the model against this machine, take it to scale, compute the bill.

    make scale                          all of it, and show it
    make scale ARGS="--check"           real runs beside the model's (about three minutes)
    make scale ARGS="--write-docs"      and replace what docs/scale.md and docs/cost.md say

Exit status 1 if a prediction is off by more than a quarter.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.bill import bills
from tests.simulation.check import ROUNDS, WITHIN, check
from tests.simulation.report import draw, replace_section, table
from tests.simulation.scenarios import answers

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parents[2] / "docs"
SCALE, COST = DOCS / "scale.md", DOCS / "cost.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked for; everything, if nothing was."""
    options = _parser().parse_args(arguments)
    everything = not (options.check or options.scale or options.cost)
    within = True
    if options.cost or everything:
        _tell(COST, "Three workloads", _cost(), write=options.write_docs)
    if options.check or everything:
        text, within = _check(options.rounds)
        _tell(SCALE, "Does the model tell the truth?", text, write=options.write_docs)
    if options.scale or everything:
        for heading, answer in answers(options.size, _progress):
            text = table(answer.columns, answer.rows)
            if options.write_docs:
                picture = DOCS / "scale" / f"{_slug(heading)}.svg"
                picture.parent.mkdir(exist_ok=True)
                draw(answer, picture)
                text = f"![{heading}](scale/{picture.name})\n\n{text}"
            _tell(SCALE, heading, text, write=options.write_docs)
    return 0 if within else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="run the real thing beside the model")
    parser.add_argument("--scale", action="store_true", help="answer the questions of sizing")
    parser.add_argument("--cost", action="store_true", help="compute the bills")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="real runs of each load")
    parser.add_argument("--size", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--write-docs", action="store_true", help="replace the pages' tables")
    return parser


def _cost() -> str:
    parts = []
    for ours, by_hand in bills():
        rows = [
            (name, f"{value:,.2f}", f"{by_hand.lines[name]:,.2f}")
            for name, value in ours.lines.items()
        ]
        rows.append(("**together**", f"**{ours.total:,.2f}**", f"**{by_hand.total:,.2f}**"))
        rows.append(("per million jobs", f"{ours.per_million:,.2f}", f"{by_hand.per_million:,.2f}"))
        columns = ("USD a month", "Sekali", "made by hand")
        parts.append(f"**{ours.workload}**\n\n{table(columns, rows)}")
    return "\n\n".join(parts)


def _check(rounds: int) -> tuple[str, bool]:
    compared = list(check(rounds=rounds, progress=_progress))
    rows = [
        (one.load, one.figure, f"{one.real:.2f}", f"{one.predicted:.2f}", f"{one.error:+.0%}")
        for one in compared
    ]
    text = table(("load", "figure", "real", "predicted", "error"), rows)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    text += f"\n\nMedians of {rounds} runs on {machine}; at most {WITHIN:.0%} off is promised."
    return text, all(one.within for one in compared)


def _tell(page: Path, heading: str, text: str, *, write: bool) -> None:
    print(f"\n## {heading}\n\n{text}")
    if write:
        replace_section(page, heading, text)


def _progress(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
