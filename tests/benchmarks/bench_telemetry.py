"""Measure what the default telemetry costs per record, beside one line of Powertools' Logger.

What the worker tells of a batch is looked up in a run of it first; then the same events are made
and told in the same order. That is everything that does not happen without telemetry: the events,
the canonical lines, the sums, and the metrics of the batch. Both sides write to the same sink.
"""

from __future__ import annotations

import os
from dataclasses import fields
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger

from sekali import Worker, warm
from sekali.settings import Settings
from sekali.telemetry.hooks import Hooks
from sekali.telemetry.observing import observers
from tests.benchmarks.harness import Row, benchmark, interleaved
from tests.benchmarks.loads import KINDS, Context, Load
from tests.benchmarks.stacks import started_stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali import Job
    from sekali.telemetry.events import Event
    from tests.benchmarks.loads import Kind

    # Any: whatever the fields of an event hold.
    Told = Sequence[tuple[type[Event], dict[str, Any]]]

PEER: Final = "one Logger.info"
MICROSECONDS: Final = 1e6
SIZES: Final = (10, 100, 1_000)
RECORDS: Final = 6_000
MOST_RATIO: Final = 1.3


@benchmark("telemetry per record")
def telemetry_per_record() -> Iterator[Row]:
    with started_stacks():
        hooks = Hooks(*observers(Settings.from_env(os.environ), "bench"))
        logger = Logger(service="bench")
        for kind in KINDS:
            for size in SIZES if kind == "cold" else SIZES[1:2]:
                told = _told_of(kind, size)
                ours, theirs = interleaved(
                    [_telling(hooks, told, size), _logging(logger, size)],
                    rounds=max(5, RECORDS // size),
                )
                yield Row(
                    f"{kind}, batch of {size:,}, {len(told) / size:.2g} events a record",
                    ours.times(MICROSECONDS),
                    "µs per record",
                    peer=PEER,
                    peer_value=theirs.times(MICROSECONDS),
                    ratio_at_most=MOST_RATIO,
                )


def _told_of(kind: Kind, size: int) -> Told:
    """Return the events that a worker tells of a batch, as what they are made of."""
    warm.reset()
    heard: list[Any] = []  # Any: events, each a dataclass
    worker = Worker("bench", hooks=[heard.append])

    @worker.job("square", key="{payload[n]}", ttl_seconds=60)
    def square(job: Job) -> dict[str, object]:
        return {"n": job.payload["n"], "answer": 42}

    load = Load(kind, name=f"telemetry-{kind[:3]}-{size}")
    worker.handler(load.warm_up(), Context())
    heard.clear()
    worker.handler(load.batch(size), Context())
    return [
        (type(one), {field.name: getattr(one, field.name) for field in fields(one)})
        for one in heard
    ]


def _telling(hooks: Hooks, told: Told, size: int) -> Callable[[], float]:
    def measure() -> float:
        began = perf_counter()
        for kind, holds in told:
            hooks(kind(**holds))
        return (perf_counter() - began) / size

    return measure


def _logging(logger: Logger, size: int) -> Callable[[], float]:
    def measure() -> float:
        began = perf_counter()
        for _ in range(size):
            logger.info("record settled")
        return (perf_counter() - began) / size

    return measure
