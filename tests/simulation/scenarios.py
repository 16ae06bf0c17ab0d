"""The questions of sizing, each a few runs of the model at the size of a large fleet.

A day of 10^8 jobs has 1,157 a second on average; its busiest minutes are taken as twice that.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.simulation.bill import usd_per_million
from tests.simulation.inputs import Costs, Load, Policy
from tests.simulation.model import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.simulation.outcome import Outcome

JOBS_PER_DAY: Final = 100_000_000
AVERAGE: Final = JOBS_PER_DAY / 86_400
PEAK: Final = 2 * AVERAGE
MILLION_AN_HOUR: Final = 1_000_000 / 3_600
SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 60.0

AWS: Final = Costs(
    poll=0.020,
    poll_record=0.0001,
    look=0.0,
    queue_call=0.010,
    batch=0.002,
    answered_record=0.0002,
    run_record=0.0002,
    flush=0.0005,
    write=0.001,
    write_wait=0.005,
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
    """A table, a plot of it, and what to take from them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[Line]
    x_label: str
    y_label: str
    reading: str
    log_x: bool = False
    log_y: bool = False


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
    """Vary the run time and the batch size, for a million jobs an hour and for the peak."""
    rows, curves = [], []
    for label, rate in (("1 million", MILLION_AN_HOUR), ("8.3 million", PEAK)):
        for batch_size in (1, 10):
            ran, needed = [], []
            for run_seconds in (0.05, 0.2, 1.0, 3.0):
                outcome = _run(
                    _steady(rate * size, SECONDS, run_seconds=run_seconds),
                    replace(LARGE, batch_size=batch_size, first_pollers=LARGE.concurrency),
                    seconds=SECONDS + SETTLE_SECONDS,
                    warm=LARGE.concurrency,
                )
                ran.append(run_seconds)
                needed.append(outcome.most_busy)
                rows.append(
                    (
                        label,
                        f"{run_seconds:g}",
                        f"{batch_size}",
                        f"{outcome.billed_seconds / SECONDS:,.0f}",
                        f"{outcome.most_busy:,}",
                        f"{outcome.wait(0.5):.2f}",
                        f"{outcome.wait(0.99):.2f}",
                        f"{outcome.latency(0.99):.2f}",
                        f"{outcome.busiest_shard:.1%}",
                        f"{usd_per_million(outcome):.2f}",
                    )
                )
            curves.append(Line(label=f"{label}, batches of {batch_size}", x=ran, y=needed))
    return Answer(
        columns=(
            "jobs an hour", "body, s", "batch", "busy on average", "at most", "result p50, s",
            "p99, s", "gone p99, s", "busiest of two shards", "USD per million",
        ),
        rows=rows,
        lines=curves,
        x_label="seconds of a body",
        y_label="containers busy at most",
        log_x=True,
        log_y=True,
        reading="""
Plan for the containers that are busy *at most*: that is the maximum concurrency of the mapping and
what the account's quota must hold; above 1,000 it takes several queues. A batch of ten runs its
bodies one after the other, so it needs as many containers, pays fewer requests, and lets a result
wait for those before it: for bodies of seconds take batches of one. A *result* is recorded at once
or a quarter of a second later; its message is *gone* when the whole batch is. USD: Lambda and SQS,
with the prices of [prices.toml](prices.toml) and 1 GB.
""",
    )  # fmt: skip


@SCENARIOS.question("How long until a fleet keeps up that starts from nothing?")
def from_nothing(size: float) -> Answer:
    """Let a million jobs an hour begin at once, with pollers that grow as Lambda's do."""
    rows, curves = [], []
    for run_seconds in (0.2, 1.0, 3.0):
        seconds = 420.0
        outcome = _run(
            _steady(MILLION_AN_HOUR * size, seconds, run_seconds=run_seconds),
            replace(LARGE, batch_size=1, first_pollers=5, concurrency=1_000),
            seconds=seconds + 4 * SETTLE_SECONDS,
        )
        late = dict(sorted(outcome.longest_sent_in.items()))
        # A body is three times its mean at most; a second more is a cold start.
        behind = [second for second, wait in late.items() if wait > 3 * run_seconds + 1.5]
        calm = max(behind, default=-1) + 1
        curves.append(
            Line(label=f"bodies of {run_seconds:g} s", x=list(late), y=list(late.values()))
        )
        rows.append(
            (
                f"{run_seconds:g}",
                f"{outcome.most_containers:,}",
                f"{calm}" if calm < seconds else f"not in {seconds:.0f}",
                f"{max(late.values()):.0f}",
                f"{outcome.latency(0.5):.1f}",
            )
        )
    return Answer(
        columns=("body, s", "containers", "s until it keeps up", "longest latency, s", "p50, s"),
        rows=rows,
        lines=curves,
        x_label="second in which a job was sent",
        y_label="its latency, s",
        reading="""
A mapping of SQS begins with five pollers and adds five a second while messages wait (300 a minute).
A load that begins at once waits for them, not for the kit: the backlog grows until there are
as many as Little's law asks for, and is worked off by those that come after; the 1,000 that a
mapping may have leave little for that where the load itself needs 800. Send a large backlog at a
rate (the producer's `delay_seconds` spreads it), split it over two queues, or pay for provisioned
pollers.
""",
    )


@SCENARIOS.question("How many shards?")
def shards(size: float) -> Answer:
    """Raise the rate of short cold jobs until the claims wait for the shard."""
    rows, curves = [], []
    for count in (1, 2, 4):
        rates, busy = [], []
        for per_second in (2_000, 6_000, 10_000, 14_000, 18_000):
            seconds = 5.0 * size
            outcome = _run(
                _steady(per_second, seconds, run_seconds=0.005),
                replace(LARGE, shards=count, first_pollers=2_000),
                seconds=seconds + 5,
                warm=2_000,
            )
            rates.append(per_second)
            # What was left when the last job came was worked off after it.
            busy.append(100 * outcome.busiest_shard * outcome.seconds / seconds)
            rows.append(
                (
                    f"{count}",
                    f"{per_second:,}",
                    f"{busy[-1]:.0f}%",
                    f"{1_000 * outcome.latency(0.5):.0f}",
                    f"{1_000 * outcome.latency(0.99):.0f}",
                )
            )
        curves.append(Line(label=f"{count} shards" if count > 1 else "1 shard", x=rates, y=busy))
    return Answer(
        columns=("shards", "cold jobs a second", "busiest shard", "p50, ms", "p99, ms"),
        rows=rows,
        lines=curves,
        x_label="cold jobs per second",
        y_label="of the busiest shard's time, %",
        reading="""
A shard is one thread. It takes a claim and a finish per job that runs; latencies do not show how
busy it is until it is full, and then grow for as long as the load lasts: plan for half. Bodies,
batches and the number of containers do not matter for it, only jobs per second do; a million an
hour are 278, so one shard (and its replica) will do. All jobs that share a key lie on one shard,
whatever their number.
""",
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
        reading="""
Each of the 200 keys is computed once more, whatever the rate: what the storage behind them sees is
the number of hot keys, not of the jobs that ask. The price is that those who find a key held
come again when its lease would have ended. A failover that loses the last writes is the same.
""",
    )  # fmt: skip


_CALM: Final = 5
"""Loads per second that count as calm."""


_OTHERS_RUN_SECONDS: Final = 0.2


@SCENARIOS.question("What does one key cost that half of all jobs ask for?")
def hot_key(size: float) -> Answer:
    """Let half of the jobs ask for one key that nobody computed yet, the others for their own."""
    rows, curves = [], []
    load = _steady(0.2 * PEAK * size, 60.0, run_seconds=_OTHERS_RUN_SECONDS, keys=1, keyed=0.5)
    for lease_seconds in (5.0, 10.0, 30.0):
        lasts, latencies = [], []
        for run_seconds in (0.5, 2.5, 10.0, 40.0):
            messages = [
                replace(asked, seconds=run_seconds) if asked.key == 0 else asked
                for asked in load.messages(7)
            ]
            policy = replace(LARGE, lease_seconds=lease_seconds, batch_size=1)
            outcome = Fleet(AWS, policy, seed=7, warm=2_000).run(messages, until=600.0)
            lasts.append(run_seconds)
            latencies.append(outcome.latency(1.0))
            rows.append(
                (
                    f"{lease_seconds:g}",
                    f"{run_seconds:g}",
                    f"{outcome.bodies[0]}",
                    f"{outcome.deferrals:,}",
                    f"{outcome.latency(0.5):.2f}",
                    f"{outcome.latency(1.0):.1f}",
                    f"{max(outcome.deferred)}",
                    f"{max(outcome.receives)}",
                )
            )
        curves.append(Line(label=f"lease of {lease_seconds:g} s", x=lasts, y=latencies))
    return Answer(
        columns=(
            "lease, s", "its body, s", "computed", "deferrals", "p50 of all, s", "longest, s",
            "most deferrals", "most receives",
        ),
        rows=rows,
        lines=curves,
        x_label="seconds of the body",
        y_label="longest latency, s",
        reading="""
The key is computed once; those who ask meanwhile come again when its holder's lease would have
ended, not when its body is done. So the lease is what they wait for, where it is longer than the
body: take the shortest that a pause of the process does not break (10 to 15 s), and for a key
that many wait for in seconds ask with `get_or_load` inside the body, which waits for it instead.
A copy begins a new count of receives, so a queue's `maxReceiveCount` need not allow for it.
""",
    )  # fmt: skip


def _slower_than(outcome: Outcome, label: str) -> Line:
    """Draw how many of a million jobs take longer than so many seconds."""
    ordered, jobs = sorted(outcome.latencies), len(outcome.latencies)
    seconds = [number / 2 for number in range(2 * int(ordered[-1]) + 2)]
    longer = [1e6 * (jobs - bisect(ordered, second)) / jobs for second in seconds]
    shown = [(second, share) for second, share in zip(seconds, longer, strict=True) if share]
    return Line(label=label, x=[second for second, _ in shown], y=[share for _, share in shown])


@SCENARIOS.question("What do dying containers cost?")
def deaths(size: float) -> Answer:
    """Kill containers at a rate and look at the tail, for two visibility timeouts."""
    rows, curves = [], []
    for visibility in (60.0, 360.0):
        for per_hour in (0.0, 0.1, 1.0, 10.0):
            load = _steady(0.2 * PEAK * size, 120.0, run_seconds=1.0)
            policy = replace(
                LARGE, death_rate=per_hour / 3600, visibility_seconds=visibility, batch_size=1
            )
            outcome = _run(load, policy, seconds=120.0 + 3 * visibility, warm=2_000)
            if per_hour >= 1.0:
                label = f"deaths an hour: {per_hour:g}, visibility {visibility:g} s"
                curves.append(_slower_than(outcome, label))
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
    return Answer(
        columns=(
            "visibility, s", "deaths per container-hour", "deaths", "bodies run in vain",
            "p99, s", "p99.9, s", "most receives",
        ),
        rows=rows,
        lines=curves,
        x_label="seconds",
        y_label="jobs per million that take longer",
        log_y=True,
        reading="""
What a dead container had comes back when its *visibility* ends; a lease of 10 s is over long
before, so the visibility decides the tail. Lambda wants six times the function's time-out: keep
that short (a function of 10 s has a visibility of 60 s). What had ended a quarter of a second
before the death is recorded and not run again. A death costs one receive: a `maxReceiveCount` of
five is enough for all but poison.
""",
    )  # fmt: skip


def answers(
    size: float, progress: Callable[[str], None], *, about: str = ""
) -> Iterator[tuple[str, Answer]]:
    """Run every question that contains these words and yield the answers by their headings."""
    made: Mapping[str, Callable[[float], Answer]] = SCENARIOS.made
    for heading, function in made.items():
        if about in heading:
            progress(heading)
            yield heading, function(size)
