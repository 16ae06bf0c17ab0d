"""Hold the model against real runs of this machine, in the same minutes as its calibration."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.simulation.calibration import calibrate
from tests.simulation.inputs import Load, Policy
from tests.simulation.model import Fleet
from tests.simulation.rehearsal import rehearsing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
    "median latency, seconds": lambda outcome: outcome.latency(0.5),
    "bodies that ran": lambda outcome: outcome.loads,
}


def check(
    *, rounds: int = ROUNDS, progress: Callable[[str], None], costs: Costs | None = None
) -> Iterator[Compared]:
    """Run each load so often, really and in the model, and yield what is compared.

    The environments are warm: a round that is not counted comes first.
    """
    costs = costs or calibrate()
    progress(f"calibrated: {costs}")
    real: dict[str, list[Outcome]] = {name: [] for name in LOADS}
    with rehearsing(POLICY) as stack:
        stack.run(list(Load(jobs=60).messages(0)), name="warm-up")
        for number in range(rounds):
            for position, (name, load) in enumerate(LOADS.items()):
                messages = list(load.messages(number))
                outcome, _ = stack.run(messages, name=f"r{number}-{position}")
                real[name].append(outcome)
                progress(f"round {number + 1} of {rounds}, {name}: {outcome.seconds:.1f} s")
    for name, load in LOADS.items():
        model = [
            Fleet(costs, POLICY, seed=number, warm=POLICY.concurrency).run(load.messages(number))
            for number in range(rounds)
        ]
        for figure, of in FIGURES.items():
            yield Compared(
                load=name,
                figure=figure,
                real=statistics.median(map(of, real[name])),
                predicted=statistics.median(map(of, model)),
            )
