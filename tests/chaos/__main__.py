"""Run long and print the counts of faults: `python -m tests.chaos [--minutes M] [--seed S]`.

With `--outages` measure what outages of the shared cache cost instead; `--write-docs` puts the
table into docs/degraded.md. Exit status 1 if a promise was broken, or if a fault never struck in
one of the windows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.chaos import outages
from tests.chaos.faults import KINDS, WINDOWS
from tests.chaos.run import Report, cycles, run

if TYPE_CHECKING:
    from collections.abc import Sequence


PAGE: Final = Path(__file__).parents[2] / "docs" / "degraded.md"
# The table stands between these two.
BEGIN: Final = "\n| outage | policy |"
END: Final = "## Limits"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and answer the exit status."""
    options = _parser().parse_args(arguments)
    if options.outages:
        return _outages(write=options.write_docs)
    report = run(
        seed=options.seed,
        seconds=options.minutes * 60,
        schedule=cycles(options.seed),
        tell=(lambda text: print(text, flush=True)) if options.verbose else lambda _: None,
    )
    print(table(report))
    if options.report is not None:
        options.report.write_text(json.dumps(report.to_json(), indent=2) + "\n")
    never = [(w, k) for w in WINDOWS for k in KINDS if not report.counts[w, k]]
    if never:
        print("never struck: " + ", ".join(f"{window}/{kind}" for window, kind in never))
    return 0 if report.verdict.sound and not never else 1


def _outages(*, write: bool) -> int:
    measured = outages.measure_all()
    text = outages.table(measured)
    print(text)
    if write:
        before, end, after = PAGE.read_text().partition(END)
        PAGE.write_text(f"{before.partition(BEGIN)[0].rstrip()}\n\n{text}\n\n{end}{after}")
    return int(any(one.lost or one.past_timeout for one in measured))


def table(report: Report) -> str:
    """Write the counts of faults by window, and what was found."""
    lines = [
        f"seed {report.seed}, {report.seconds:.0f} s, {report.counts.total()} faults injected",
        "",
        f"{'fault':<14}" + "".join(f"{window:>8}" for window in WINDOWS),
    ]
    lines += [
        f"{kind:<14}" + "".join(f"{report.counts[window, kind]:>8}" for window in WINDOWS)
        for kind in KINDS
    ]
    figures = report.verdict.figures
    lines += ["", *(f"{name.replace('_', ' ')}: {figures[name]:g}" for name in sorted(figures))]
    lines += ["", "survived: all" if report.verdict.sound else "BROKEN:"]
    for kind, found in report.verdict.problems.items():
        lines += [f"  {kind}: {text}" for text in found[:10]]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--outages", action="store_true", help="measure outages of the cache")
    parser.add_argument("--write-docs", action="store_true", help="write their table to the docs")
    parser.add_argument("--verbose", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
