"""The questions of sizing, each a few runs of the model at the size of a large fleet.

A day of 10^8 jobs has 1,157 a second on average; its busiest minutes are taken as twice that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.simulation.inputs import Costs, Load, Policy
from tests.simulation.model import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.simulation.outcome import Outcome

JOBS_PER_DAY: Final = 100_000_000
AVERAGE: Final = JOBS_PER_DAY / 86_400
PEAK: Final = 2 * AVERAGE
SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 60.0

AWS: Final = Costs(
    poll=0.030,
    poll_record=0.0001,
    batch=0.002,
    answered_record=0.0002,
    run_record=0.006,
    deferred_record=0.003,
    start=1.2,
    round_trip=0.0007,
    claim=40e-6,
    finish=25e-6,
)
"""Seconds on AWS: the shard's from `make bench`, the worker's from there times two for a share of a
processor, the rest assumed and to be replaced by what your own traces show."""
LARGE: Final = Policy(
    concurrency=10_000,
    first_pollers=2_000,
    pollers_per_second=5.0,
    shards=2,
    visibility_seconds=360.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve of a plot."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A table, and a plot of it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[Line]
    x_label: str
    y_label: str
    logarithmic: bool = False


@dataclass(slots=True)
class Scenarios:
    """All questions by the heading under which `docs/scale.md` answers them."""

    made: dict[str, Callable[[float], Answer]] = field(default_factory=dict)

    def question(
        self, heading: str
    ) -> Callable[[Callable[[float], Answer]], Callable[[float], Answer]]:
        """Register a function that takes the share of the full size and answers."""

        def register(function: Callable[[float], Answer]) -> Callable[[float], Answer]:
            self.made[heading] = function
            return function

        return register


SCENARIOS: Final = Scenarios()


def _run(load: Load, policy: Policy, *, seconds: float, warm: int = 0) -> Outcome:
    return Fleet(AWS, policy, seed=7, warm=warm).run(load.messages(7), until=seconds)


def _steady(
    per_second: float, seconds: float, *, run_seconds: float, keys: int = 0, keyed: float = 1.0
) -> Load:
    return Load(
        jobs=round(per_second * seconds),
        per_second=per_second,
        run_seconds=run_seconds,
        keys=keys,
        keyed=keyed,
        skew=0.8,
    )


@SCENARIOS.question("How many containers for a job of so many seconds?")
def containers(size: float) -> Answer:
    """Vary the run time and the batch size at the peak of 10^8 jobs a day."""
    rows, curves = [], []
    for batch_size in (1, 10):
        ran, needed = [], []
        for run_seconds in (0.05, 0.2, 1.0, 3.0):
            rate = PEAK * size
            policy = replace(LARGE, batch_size=batch_size, pollers_per_second=200.0)
            expected = round(rate * (run_seconds + 0.04) * 1.3) + 5
            policy = replace(policy, first_pollers=max(2, min(expected, policy.concurrency)))
            outcome = _run(
                _steady(rate, SECONDS, run_seconds=run_seconds),
                policy,
                seconds=SECONDS + SETTLE_SECONDS,
            )
            ran.append(run_seconds)
            needed.append(outcome.most_containers)
            rows.append(
                (
                    f"{run_seconds:g}",
                    f"{batch_size}",
                    f"{outcome.most_containers:,}",
                    f"{rate * run_seconds:,.0f}",
                    f"{outcome.latency(0.5):.2f}",
                    f"{outcome.latency(0.99):.2f}",
                    f"{outcome.busiest_shard:.1%}",
                )
            )
        curves.append(Line(label=f"batches of {batch_size}", x=ran, y=needed))
    return Answer(
        columns=(
            "body, s", "batch", "containers", "by Little's law", "latency p50, s", "p99, s",
            "busiest of two shards",
        ),
        rows=rows,
        lines=curves,
        x_label="seconds of a body",
        y_label="containers",
        logarithmic=True,
    )  # fmt: skip


@SCENARIOS.question("How many shards?")
def shards(size: float) -> Answer:
    """Raise the rate of short cold jobs until the claims wait for the shard."""
    rows, curves = [], []
    for count in (1, 2, 4):
        rates, waits = [], []
        for per_second in (2_000, 6_000, 10_000, 14_000, 18_000):
            seconds = 20.0 * size
            outcome = _run(
                _steady(per_second, seconds, run_seconds=0.005),
                replace(LARGE, shards=count, first_pollers=2_000),
                seconds=seconds + 5,
                warm=2_000,
            )
            rates.append(per_second)
            waits.append(1_000 * outcome.latency(0.99))
            rows.append(
                (
                    f"{count}",
                    f"{per_second:,}",
                    f"{outcome.busiest_shard * outcome.seconds / seconds:.0%}",
                    f"{1_000 * outcome.latency(0.5):.0f}",
                    f"{1_000 * outcome.latency(0.99):.0f}",
                )
            )
        curves.append(Line(label=f"{count} shards" if count > 1 else "1 shard", x=rates, y=waits))
    return Answer(
        columns=("shards", "cold jobs a second", "busiest shard", "p50, ms", "p99, ms"),
        rows=rows,
        lines=curves,
        x_label="cold jobs per second",
        y_label="latency p99, ms",
    )


@SCENARIOS.question("What does a flush do to the storage behind 200 hot keys?")
def flush(size: float) -> Answer:
    """Lose the cache in the middle of a run, with and without leases."""
    rows, curves = [], []
    for leases in (True, False):
        seconds = 60.0
        load = _steady(PEAK * size, seconds, run_seconds=1.0, keys=200)
        policy = replace(LARGE, flush_at=30.0, leases=leases)
        outcome = _run(load, policy, seconds=seconds + SETTLE_SECONDS, warm=2_000)
        label = "with leases" if leases else "without"
        around = range(20, 50)
        curves.append(
            Line(label=label, x=list(around), y=[outcome.started_in[second] for second in around])
        )
        after = [outcome.started_in[second] for second in range(30, 60)]
        busy = [number for number, started in enumerate(after) if started > _CALM]
        rows.append(
            (
                label,
                f"{sum(after):,}",
                f"{max(after):,}",
                f"{busy[-1] + 1 if busy else 0}",
                f"{outcome.latency(0.99):.2f}",
                f"{outcome.deferrals:,}",
            )
        )
    return Answer(
        columns=(
            "", "loads after the flush", "most in a second", "seconds to calm", "latency p99, s",
            "deferrals",
        ),
        rows=rows,
        lines=curves,
        x_label="second (the flush is at 30)",
        y_label="loads started",
    )  # fmt: skip


_CALM: Final = 5
"""Loads per second that count as calm."""


@SCENARIOS.question("What does one key cost that half of all jobs ask for?")
def hot_key(size: float) -> Answer:
    """Let half of the jobs ask for one slow key that nobody computed yet."""
    rows, curves = [], []
    for lease_seconds in (5.0, 10.0, 30.0):
        loads, latencies = [], []
        for run_seconds in (1.0, 5.0, 20.0):
            load = _steady(0.2 * PEAK * size, 60.0, run_seconds=run_seconds / 2, keys=1, keyed=0.5)
            outcome = _run(
                load,
                replace(LARGE, lease_seconds=lease_seconds, batch_size=1),
                seconds=60.0 + 4 * SETTLE_SECONDS,
                warm=2_000,
            )
            loads.append(run_seconds)
            latencies.append(outcome.latency(1.0))
            rows.append(
                (
                    f"{lease_seconds:g}",
                    f"{run_seconds / 2:g}",
                    f"{outcome.bodies[0]}",
                    f"{outcome.deferrals:,}",
                    f"{outcome.latency(0.5):.1f}",
                    f"{outcome.latency(1.0):.1f}",
                    f"{max(outcome.receives)}",
                )
            )
        curves.append(Line(label=f"lease of {lease_seconds:g} s", x=loads, y=latencies))
    return Answer(
        columns=(
            "lease, s", "mean body, s", "computed", "deferrals", "p50, s", "longest, s",
            "most receives",
        ),
        rows=rows,
        lines=curves,
        x_label="seconds of a body, twice the mean",
        y_label="longest latency, s",
    )  # fmt: skip


@SCENARIOS.question("What do dying containers cost?")
def deaths(size: float) -> Answer:
    """Kill containers at a rate and look at the tail, for two visibility timeouts."""
    rows, curves = [], []
    for visibility in (60.0, 360.0):
        rates, tails = [], []
        for per_hour in (0.0, 0.1, 1.0, 10.0):
            load = _steady(0.2 * PEAK * size, 120.0, run_seconds=1.0)
            policy = replace(
                LARGE, death_rate=per_hour / 3600, visibility_seconds=visibility, batch_size=1
            )
            outcome = _run(load, policy, seconds=120.0 + 3 * visibility, warm=2_000)
            rates.append(per_hour)
            tails.append(outcome.latency(0.999))
            rows.append(
                (
                    f"{visibility:g}",
                    f"{per_hour:g}",
                    f"{outcome.deaths}",
                    f"{outcome.lost_work}",
                    f"{outcome.latency(0.99):.1f}",
                    f"{outcome.latency(0.999):.1f}",
                    f"{max(outcome.receives)}",
                )
            )
        curves.append(Line(label=f"visibility {visibility:g} s", x=rates, y=tails))
    return Answer(
        columns=(
            "visibility, s", "deaths per container-hour", "deaths", "bodies run in vain",
            "p99, s", "p99.9, s", "most receives",
        ),
        rows=rows,
        lines=curves,
        x_label="deaths per container and hour of work",
        y_label="latency p99.9, s",
    )  # fmt: skip


def answers(size: float, progress: Callable[[str], None]) -> Iterator[tuple[str, Answer]]:
    """Run every question and yield the answers by their headings."""
    made: Mapping[str, Callable[[float], Answer]] = SCENARIOS.made
    for heading, function in made.items():
        progress(heading)
        yield heading, function(size)
