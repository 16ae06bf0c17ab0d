"""Check the model against this machine, take it to scale, compute the bill.

    make scale                          all of it, and show it
    make scale ARGS="--check"           real runs beside the model's (about four minutes)
    make scale ARGS="--write-docs"      and replace what docs/scale.md and docs/cost.md say

The check in parts, each of which needs a quiet machine for a minute or two:

    make scale ARGS="--check --load cold --save runs.json"      the same with hot, with mixed
    make scale ARGS="--check --recorded runs.json"              all of them beside the model

Exit status 1 if a prediction is off by more than a quarter.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.bill import bills
from tests.simulation.check import LOADS, ROUNDS, WITHIN, Runs, compare, rehearse
from tests.simulation.recorded import read, save
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
        text, within = _check(_runs(options))
        _tell(SCALE, "Does the model tell the truth?", text, write=options.write_docs)
    if options.scale or everything:
        for heading, answer in answers(options.size, _progress, about=options.about):
            text = table(answer.columns, answer.rows)
            if options.write_docs:
                picture = DOCS / "scale" / f"{_slug(heading)}.svg"
                picture.parent.mkdir(exist_ok=True)
                draw(answer, picture)
                text = f"![{heading}](scale/{picture.name})\n\n{text}\n{answer.reading}"
            _tell(SCALE, heading, text, write=options.write_docs)
    return 0 if within else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="run the real thing beside the model")
    parser.add_argument("--scale", action="store_true", help="answer the questions of sizing")
    parser.add_argument("--cost", action="store_true", help="compute the bills")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="real runs of each load")
    parser.add_argument("--load", action="append", help="only those whose name begins so")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the runs in a file")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="take the runs from there")
    parser.add_argument("--size", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--about", default="", help="only questions with these words in them")
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


def _runs(options: argparse.Namespace) -> list[Runs]:
    chosen = [
        name for name in LOADS if any(name.startswith(wanted) for wanted in options.load or [""])
    ]
    if options.recorded:
        return [runs for runs in read(options.recorded) if runs.load in chosen]
    runs = list(rehearse(chosen, rounds=options.rounds, progress=_progress))
    if options.save:
        save(runs, options.save)
    return runs


def _check(runs: Sequence[Runs]) -> tuple[str, bool]:
    compared = [one for load in runs for one in compare(load)]
    rows = [
        (one.load, one.figure, f"{one.real:.2f}", f"{one.predicted:.2f}", f"{one.error:+.0%}")
        for one in compared
    ]
    text = table(("load", "figure", "real", "predicted", "error"), rows)
    machines = " and ".join(dict.fromkeys(one.machine for one in runs))
    rounds = min(len(one.figures) for one in runs)
    costs = ", ".join(
        f"{name} {1_000 * seconds:.2g}"
        for name, seconds in asdict(runs[-1].costs).items()
        if seconds and name != "cores"
    )
    text += (
        f"\n\nMedians of {rounds} runs on {machines}; at most {WITHIN:.0%} off is promised. "
        "The same messages in\nboth. What things cost was measured just before, by loads of their "
        f"own (`calibration.py`), in ms:\n{costs}."
    )
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
