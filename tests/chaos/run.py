"""Drive a run: jobs go in without end while one fault after the other strikes; then check."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from sekali.claims import Claims
from sekali.invalidation import Entry, Log, new_mark
from sekali.keys import CACHE_NAME, Keyspace
from tests.chaos import allowed, faults
from tests.chaos.checker import Invalidation, Verdict, check
from tests.chaos.deployment import Deployment
from tests.chaos.faults import Director
from tests.chaos.rig import Rig
from tests.chaos.workload import NAMES, Plan

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from tests.chaos.faults import Fault, Kind, Window

_DRAINED_WITHIN_SECONDS: Final = 90.0
# More than this in the queue is no longer a test of waiting, but of this machine.
_MOST_WAITING: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run did and what came of it."""

    seed: int
    seconds: float
    counts: Counter[tuple[Window, Kind]]
    verdict: Verdict
    commands: dict[str, int]
    replies: dict[str, int]
    refused: list[str]

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Answer the report as it is written to a file."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "sound": self.verdict.sound,
            "faults": {f"{window}/{kind}": n for (window, kind), n in sorted(self.counts.items())},
            "problems": dict(self.verdict.problems),
            "figures": self.verdict.figures,
            "refused": self.refused,
            "commands": self.commands,
            "replies": self.replies,
        }


class Sources:
    """What loaders read: versions that grow, each with its invalidation."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._versions = dict.fromkeys(NAMES, 0)
        keyspace = Keyspace("sekali", 64)
        self._claims, self._log = Claims(keyspace, "chaos"), Log(keyspace)
        self.invalidations: list[Invalidation] = []
        for name in NAMES:
            self._write(name)

    def change(self, name: str) -> None:
        """Write a new version, then invalidate the key and append to the log, until both stand."""
        self._write(name)
        version = self._versions[name]
        commands = [
            self._claims.invalidate(CACHE_NAME, name),
            self._log.append([Entry("k", f"{CACHE_NAME}/{name}", new_mark())]),
        ]
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            with contextlib.suppress(RedisError):
                client: Any = self._rig.nodes.primary.client  # Any: its method is untyped
                for command in commands:
                    client.execute_command(*command.with_text())
                self.invalidations.append(Invalidation(name=name, version=version, at=time.time()))
                return
            time.sleep(0.05)

    def _write(self, name: str) -> None:
        self._versions[name] += 1
        scratch = self._rig.sources / f".{name}"
        scratch.write_text(str(self._versions[name]))
        scratch.rename(self._rig.sources / name)


def run(
    *,
    seed: int,
    seconds: float,
    schedule: Iterator[Fault],
    deployment: Deployment | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run for about `seconds` and then until the queue is empty; `schedule` may end before."""
    director, rng, started = Director(), random.Random(seed), time.monotonic()
    with Rig(deployment or Deployment(), script=director) as rig:
        director.watch(rig)
        sources, plan = Sources(rig), Plan(seed)
        stop = threading.Event()
        feeder = threading.Thread(target=_feed, args=(rig, plan, sources, rng, stop), daemon=True)
        rig.poll()
        feeder.start()
        _strike(director, schedule, until=time.monotonic() + seconds, rng=rng, tell=tell)
        stop.set()
        feeder.join()
        drained = rig.drained(within_seconds=_DRAINED_WITHIN_SECONDS)
        verdict = check(
            rig,
            plan.sent,
            invalidations=sources.invalidations,
            strikes=director.strikes,
            drained=drained,
        )
        return Report(
            seed=seed,
            seconds=time.monotonic() - started,
            counts=director.counts(),
            verdict=verdict,
            commands=dict(sorted(rig.history.commands.items())),
            replies=dict(sorted(rig.history.replies.items())),
            refused=allowed.refused(rig.history),
        )


def cycles(seed: int) -> Iterator[Fault]:
    """Yield all pairs of window and fault again and again, each time in another order."""
    while True:
        yield from faults.order(seed)
        seed += 1


def _feed(
    rig: Rig, plan: Plan, sources: Sources, rng: random.Random, stop: threading.Event
) -> None:
    while not stop.is_set():
        if rig.waiting() < _MOST_WAITING:
            rig.send([message.body for message in plan.burst()])
        sources.change(rng.choice(NAMES))
        stop.wait(0.4)


def _strike(
    director: Director,
    schedule: Iterator[Fault],
    *,
    until: float,
    rng: random.Random,
    tell: Callable[[str], None],
) -> None:
    missed: list[Fault] = []
    while time.monotonic() < until:
        fault = missed.pop() if missed else next(schedule, None)
        if fault is None:
            return
        if director.strike(fault):
            tell(f"{fault.window}/{fault.kind}")
        else:
            missed.insert(0, fault)
        time.sleep(rng.uniform(0.1, 0.5))
