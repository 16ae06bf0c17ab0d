"""Hold the model against real runs of this machine, in the same minutes as its calibration."""

from __future__ import annotations

import platform
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.simulation.calibration import calibrate
from tests.simulation.inputs import Load, Policy
from tests.simulation.model import Fleet
from tests.simulation.rehearsal import rehearsing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.simulation.inputs import Costs
    from tests.simulation.outcome import Outcome

LOADS: Final[Mapping[str, Load]] = {
    "cold: 300 keys": Load(jobs=300),
    "hot: 300 jobs ask for 30 keys": Load(jobs=300, keys=30, skew=0.8, run_seconds=0.1),
    "mixed: a third keyed, a fifth repeated, 30 a second": Load(
        jobs=300, per_second=30.0, keys=20, keyed=0.35, repeated=0.2
    ),
}
POLICY: Final = Policy(concurrency=3, visibility_seconds=60)
ROUNDS: Final = 5
WITHIN: Final = 0.25
CHANCES: Final = 5
"""Runs of the model for each real one: the same messages, other beats and jitters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Real runs of one load, and what things cost on their machine at that time.

    Attributes:
        figures: Of each run, by the names of `FIGURES`; the one at place n sent the messages of
            seed n.
    """

    load: str
    machine: str
    costs: Costs
    figures: Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of one load: medians of the runs and of the model."""

    load: str
    figure: str
    real: float
    predicted: float

    @property
    def error(self) -> float:
        """Return how far the prediction is off, as a share of the real figure."""
        return self.predicted / self.real - 1

    @property
    def within(self) -> bool:
        """Return whether that is within what is promised."""
        return abs(self.error) <= WITHIN


FIGURES: Final[Mapping[str, Callable[[Outcome], float]]] = {
    "seconds until all is settled": lambda outcome: outcome.seconds,
    "latency p50, seconds": lambda outcome: outcome.latency(0.5),
    "latency p95, seconds": lambda outcome: outcome.latency(0.95),
    "bodies that ran": lambda outcome: outcome.loads,
}


def rehearse(
    loads: Sequence[str], *, rounds: int = ROUNDS, progress: Callable[[str], None]
) -> Iterator[Runs]:
    """Measure the costs, run each load so often, and yield what came of it.

    The environments are warm: a round that is not counted comes first.
    """
    costs = calibrate()
    progress(f"calibrated: {costs}")
    machine = f"{costs.cores} cores, Python {platform.python_version()}"
    real: dict[str, list[Mapping[str, float]]] = {name: [] for name in loads}
    with rehearsing(POLICY) as stack:
        stack.run(list(Load(jobs=60).messages(0)), name="warm-up")
        for number in range(rounds):
            for position, name in enumerate(loads):
                messages = list(LOADS[name].messages(number))
                outcome = stack.run(messages, name=f"r{number}-{position}").outcome
                real[name].append({figure: of(outcome) for figure, of in FIGURES.items()})
                progress(f"round {number + 1} of {rounds}, {name}: {outcome.seconds:.1f} s")
    for name, figures in real.items():
        yield Runs(load=name, machine=machine, costs=costs, figures=figures)


def compare(
    runs: Runs, *, fleet: type[Fleet] = Fleet, chances: int = CHANCES
) -> Iterator[Compared]:
    """Run the model with the same messages and yield what is compared."""
    predicted = [
        fleet(runs.costs, POLICY, seed=chance, warm=POLICY.concurrency).run(
            LOADS[runs.load].messages(number)
        )
        for number in range(len(runs.figures))
        for chance in range(chances)
    ]
    for figure, of in FIGURES.items():
        yield Compared(
            load=runs.load,
            figure=figure,
            real=statistics.median(one[figure] for one in runs.figures),
            predicted=statistics.median(map(of, predicted)),
        )
