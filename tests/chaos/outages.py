"""Measure what an outage of the shared cache costs: before, while it lasts, and afterwards.

Jobs of two policies come in at a steady rate. The cache is away in one of three ways:

    from the start    nobody ever reaches it, until it comes
    in the middle     every connection is cut and none is let in, for 30 s
    slow              each reply comes after two seconds, four times what a reply may take
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from infra.local.logs import percentile
from tests.chaos.deployment import Deployment
from tests.chaos.history import CacheTap, outcomes
from tests.chaos.rig import Rig
from tests.chaos.stage import message
from tests.chaos.wires import FORWARD, Deed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.chaos.wires import Line

POLICIES: Final = {"durable": "effect", "defer": "patient"}
PHASES: Final = ("before", "during", "after")
TIMEOUT_SECONDS: Final = 8
_PER_SECOND: Final = 4
_JOB_SECONDS: Final = 0.02
_SLOW: Final = Deed(how="delay", seconds=2.0)
_CUT: Final = Deed(how="cut")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One kind of outage, and how long each phase lasts, in seconds."""

    name: str
    deed: Deed
    seconds: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One row of the table: the jobs that were sent in a phase, under a policy."""

    outage: str
    policy: str
    phase: str
    sent: int
    done: int
    done_per_second: float
    median_seconds: float
    p95_seconds: float
    longest_invocation_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of one outage."""

    rows: tuple[Reading, ...]
    lost: int
    past_timeout: int
    noticed_seconds: float


def outages(*, scale: float = 1.0) -> list[Outage]:
    """Answer the three outages; `scale` shortens every phase."""
    named = [
        ("from the start", _CUT, (0.0, 20.0, 12.0)),
        ("30 s in the middle", _CUT, (12.0, 30.0, 12.0)),
        ("2 s per reply", _SLOW, (12.0, 20.0, 12.0)),
    ]
    return [
        Outage(name=name, deed=deed, seconds=(a * scale, b * scale, c * scale))
        for name, deed, (a, b, c) in named
    ]


class Weather:
    """The script of the wires: what befalls every parcel to the cache at the moment."""

    def __init__(self) -> None:
        self.deed = FORWARD

    def meet(self, windows: tuple[str, ...], line: Line) -> Deed:
        """Answer the weather, for lines to the cache."""
        del windows
        return self.deed if isinstance(line.tap, CacheTap) else FORWARD


def measure(outage: Outage) -> Measured:
    """Run one outage on a stack of its own."""
    weather = Weather()
    deployment = Deployment(
        max_concurrency=2,
        timeout_seconds=TIMEOUT_SECONDS,
        visibility_seconds=6 * TIMEOUT_SECONDS,
        lease_seconds=3,
    )
    with Rig(deployment, script=weather) as rig:
        sent: dict[str, tuple[str, str, float]] = {}
        if not outage.seconds[0]:
            weather.deed = outage.deed
        rig.poll()
        # Environments start before anything is measured.
        rig.send([message("effect", f"warm-up-{number}", seconds=0.5) for number in range(4)])
        rig.drained(within_seconds=30)
        edges = [time.time()]
        for phase, seconds in zip(PHASES, outage.seconds, strict=True):
            _change(rig, weather, outage.deed if phase == "during" else FORWARD)
            _send(rig, phase, seconds, sent)
            edges.append(time.time())
        rig.drained(within_seconds=60)
        return _measured(rig, outage, sent, edges)


def _change(rig: Rig, weather: Weather, deed: Deed) -> None:
    weather.deed = deed
    if deed is _CUT:
        rig.wires.move(rig.cache, rig.cache.address)


def _send(rig: Rig, phase: str, seconds: float, sent: dict[str, tuple[str, str, float]]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        bodies = []
        for policy, job in POLICIES.items():
            for _ in range(_PER_SECOND // 2):
                job_id = f"{len(sent)}"
                sent[f"{job}/{job_id}"] = (policy, phase, time.time())
                bodies.append(message(job, job_id, seconds=_JOB_SECONDS))
        rig.send(bodies)
        time.sleep(0.5)


def _measured(
    rig: Rig,
    outage: Outage,
    sent: dict[str, tuple[str, str, float]],
    edges: Sequence[float],
) -> Measured:
    found = {item["pk"]["S"]: at for at, item in outcomes(rig.history, rig.deployment.results)}
    done = {name: at for name, at in found.items() if name in sent}
    rows = []
    for number, phase in enumerate(PHASES):
        if not outage.seconds[number]:
            continue
        begin, end = edges[number], edges[number + 1]
        longest = _longest(rig, begin, end)
        for policy in POLICIES:
            mine = {
                name: at
                for name, (which, when, at) in sent.items()
                if (which, when) == (policy, phase)
            }
            waits = [done[name] - at for name, at in mine.items() if name in done]
            ended = [
                at for name, at in done.items() if sent[name][0] == policy and begin <= at < end
            ]
            rows.append(
                Reading(
                    outage=outage.name,
                    policy=policy,
                    phase=phase,
                    sent=len(mine),
                    done=len(waits),
                    done_per_second=len(ended) / (end - begin),
                    median_seconds=percentile(waits, 0.5),
                    p95_seconds=percentile(waits, 0.95),
                    longest_invocation_seconds=longest,
                )
            )
    steps = [one.at for one in rig.history.steps if one.at > edges[2] and one.word == "finished"]
    return Measured(
        rows=tuple(rows),
        lost=len(sent.keys() - done.keys()),
        past_timeout=sum(one.outcome.kind != "answered" for one in rig.invocations),
        noticed_seconds=min(steps, default=float("inf")) - edges[2],
    )


def _longest(rig: Rig, begin: float, end: float) -> float:
    seconds = [
        one.outcome.seconds for one in rig.invocations if begin <= one.outcome.started_at < end
    ]
    return max(seconds, default=0.0)


def table(measured: Sequence[Measured]) -> str:
    """Write the table of the docs."""
    columns = "sent | done | done per second | median wait, s | 95 % wait, s"
    lines = [
        f"| outage | policy | phase | {columns} | longest invocation, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.outage} | {row.policy} | {row.phase} | {row.sent} | {row.done}"
        f" | {row.done_per_second:.1f} | {row.median_seconds:.2f} | {row.p95_seconds:.2f}"
        f" | {row.longest_invocation_seconds:.1f} |"
        for one in measured
        for row in one.rows
    ]
    lines += [
        "",
        "| outage | lost | invocations cut off | recovery noticed after, s |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {one.rows[0].outage} | {one.lost} | {one.past_timeout} | {one.noticed_seconds:.1f} |"
        for one in measured
    ]
    return "\n".join(lines)


def measure_all(*, scale: float = 1.0, tell: Callable[[str], None] = print) -> list[Measured]:
    """Measure one outage after the other."""
    found = []
    for outage in outages(scale=scale):
        tell(f"measuring: {outage.name}")
        found.append(measure(outage))
    return found
