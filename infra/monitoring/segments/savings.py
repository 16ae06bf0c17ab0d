"""What was not computed a second time, and what that would have cost."""

from typing import Final

from infra.monitoring.formulae import formula, total
from infra.monitoring.graphs import THIRD, Segment, heading, number
from infra.monitoring.watched import Watched

# Lambda on arm64, us-east-1, first tier; the price of the request is left out.
USD_PER_GIB_SECOND: Final = 0.0000133334
MIB_PER_GIB: Final = 1024
_AVOIDED: Final = "(FILL(duplicates, 0) + FILL(served, 0))"


def savings(watched: Watched) -> Segment:
    """Show the jobs that were answered without a body, and at the mean run, time and money.

    A lower bound: what loaders did not read from storage is not counted.
    """
    terms = {
        "duplicates": watched.own("JobsDuplicate"),
        "served": watched.own("JobsServed"),
        "run": watched.own("RunTime", "Average"),
    }
    # A mean of no runs is missing; then nothing is known of what was saved.
    seconds = f"{_AVOIDED} * FILL(run, 0) / 1000"
    usd = watched.memory_mib / MIB_PER_GIB * USD_PER_GIB_SECOND
    counted = {name: terms[name] for name in ("duplicates", "served")}
    return [
        heading("Saved", "Over the time range; a body's mean run for each that did not start."),
        [
            number(
                "Duplicates avoided",
                [
                    watched.own("JobsDuplicate", label="same id"),
                    watched.own("JobsServed", label="same question"),
                    total(counted, "together"),
                ],
                width=THIRD,
            ),
            number("Compute time saved", [formula(seconds, terms, "seconds")], width=THIRD),
            number("Money saved", [formula(f"{seconds} * {usd:.10f}", terms, "USD")], width=THIRD),
        ],
    ]
