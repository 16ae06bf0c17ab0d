"""Measure the worker's time per record against the hand-made stack's.

The body does next to nothing. Neither side writes a table, except where it says so; then both make
the same conditional write, the hand-made stack one by one, as a body does.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from redis import Redis

from tests.benchmarks.bench_server import Desk
from tests.benchmarks.floors import PowertoolsAlone, ScriptsAlone
from tests.benchmarks.harness import Row, benchmark, interleaved
from tests.benchmarks.loads import KINDS, Load
from tests.benchmarks.stacks import added_latency, started_stacks
from tests.benchmarks.table import started_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import Sample
    from tests.benchmarks.loads import Kind
    from tests.benchmarks.stacks import Stacks

PEER: Final = "made by hand"
MICROSECONDS: Final = 1e6
RECORDS_PER_CONTESTANT: Final = 2_000
"""How many records each contestant takes in one comparison, within the bounds below."""
FEWEST_ROUNDS: Final = 5
MOST_ROUNDS: Final = 200
LARGEST: Final = 10_000


@benchmark("worker, cold batches on loopback")
def cold_batches() -> Iterator[Row]:
    with started_stacks() as stacks:
        yield _row(stacks, "cold", 1, ratio_at_most=None)
        yield from _taken_apart(stacks)
        for size in (100, 1_000, LARGEST):
            yield _row(stacks, "cold", size, ratio_at_most=1 / 3)


@benchmark("worker, other loads on loopback")
def other_loads() -> Iterator[Row]:
    with started_stacks() as stacks:
        for kind in KINDS[1:]:
            for size in (10, 100, 1_000):
                yield _row(stacks, kind, size, ratio_at_most=1)


@benchmark("worker, with telemetry")
def with_telemetry() -> Iterator[Row]:
    with started_stacks(telemetry=True) as stacks:
        yield _row(stacks, "cold", 10, ratio_at_most=1 / 4, suffix=", told")
        for kind in KINDS[1:]:
            yield _row(stacks, kind, 10, ratio_at_most=1, suffix=", told")


@benchmark("worker, with latency")
def with_latency() -> Iterator[Row]:
    with started_stacks() as stacks:
        for milliseconds, limit in ((0.5, 1 / 15), (2.0, 1 / 15)):
            suffix = f", {milliseconds} ms"
            with added_latency(milliseconds / 1000):
                for kind in KINDS:
                    most = limit if kind == "cold" else 1
                    yield _row(stacks, kind, 10, ratio_at_most=most, suffix=suffix, records=300)


@benchmark("worker, with a durable write")
def with_durable_write() -> Iterator[Row]:
    with ExitStack() as exits:
        table = exits.enter_context(started_table())
        stacks = exits.enter_context(
            started_stacks(table_endpoint=table.endpoint, record=table.record)
        )
        for kind in KINDS:
            for size in (10, 100):
                yield _row(stacks, kind, size, ratio_at_most=1, suffix=", recorded", records=600)


@benchmark("worker, known duplicates")
def known_duplicates() -> Iterator[Row]:
    with started_stacks() as stacks:
        for size in (10, 100):
            ours, theirs = _compare(stacks, "known", size, RECORDS_PER_CONTESTANT)
            yield Row(
                f"finished duplicate known here, batch of {size}",
                ours.times(MICROSECONDS),
                "µs per record",
                peer=PEER,
                peer_value=theirs.times(MICROSECONDS),
                at_most=25 if size == 100 else None,
            )


def _taken_apart(stacks: Stacks) -> Iterator[Row]:
    """Compare a cold batch of ten, and in the same turns the floors of what it is made of."""
    size = 10
    pair = stacks.pair("cold", size)
    scripts = ScriptsAlone(Desk(Redis.from_url(stacks.cache_url)))
    powertools = PowertoolsAlone(Load("cold", name="powertools"))
    ours, theirs, sent, ran = (
        sample.times(MICROSECONDS)
        for sample in interleaved(
            [
                *pair.contestants(),
                lambda: scripts.measure(size),
                lambda: powertools.measure(size),
            ],
            rounds=RECORDS_PER_CONTESTANT // size,
        )
    )
    scripts.close()
    for name, value, limit in (
        ("cold, batch of 10", ours, 1 / 5),
        ("of it, its 30 scripts, written before, on a bare socket", sent, None),
        ("of it, Powertools around bodies that do nothing", ran, None),
    ):
        yield Row(
            name,
            value,
            "µs per record",
            peer=PEER,
            peer_value=theirs,
            ratio_at_most=limit,
        )


def _row(
    stacks: Stacks,
    kind: Kind,
    size: int,
    *,
    ratio_at_most: float | None,
    suffix: str = "",
    records: int = RECORDS_PER_CONTESTANT,
) -> Row:
    ours, theirs = _compare(stacks, kind, size, records)
    return Row(
        f"{kind}, batch of {size:,}{suffix}",
        ours.times(MICROSECONDS),
        "µs per record",
        peer=PEER,
        peer_value=theirs.times(MICROSECONDS),
        ratio_at_most=ratio_at_most,
    )


def _compare(stacks: Stacks, kind: Kind, size: int, records: int) -> list[Sample]:
    pair = stacks.pair(kind, size)
    # A batch of 10,000 takes the hand-made stack long enough to speak for itself.
    warm_up, fewest = (1, FEWEST_ROUNDS) if size < LARGEST else (0, 2)
    rounds = max(fewest, min(MOST_ROUNDS, records // size))
    return interleaved(pair.contestants(), rounds=rounds, warm_up=warm_up)
