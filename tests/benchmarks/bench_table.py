"""Measure the durable record over HTTP: what a write takes, alone and side by side, and a read."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Final

from sekali.aws_clients import aws_client
from sekali.clock import SystemClock
from sekali.store import Store
from sekali.store_rows import Accepted, Outcome
from tests.benchmarks.harness import Row, benchmark, interleaved
from tests.benchmarks.table import TABLE, started_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.benchmarks.table import Table

ROUNDS: Final = 30
BATCH: Final = 10
MOST_READ: Final = 100
MILLISECONDS: Final = 1e3
RESULT: Final = b"r" * 500


@benchmark("table")
def table() -> Iterator[Row]:
    """Record outcomes and read them again, as the worker does, with results of 500 bytes."""
    with started_table() as server:
        desk = _Desk(server)
        one, batch, in_turn, few, many, client = (
            sample.times(MILLISECONDS)
            for sample in interleaved(
                [
                    desk.record_one,
                    desk.record_batch,
                    desk.record_in_turn,
                    desk.reading(BATCH),
                    desk.reading(MOST_READ),
                    desk.make_client,
                ],
                rounds=ROUNDS,
            )
        )
        (alone,) = interleaved([desk.processor_of_one], rounds=ROUNDS)
        desk.store.reset()
    yield Row("record one outcome", one, "ms")
    yield Row("of it, time of this process", alone.times(MILLISECONDS), "ms")
    yield Row(
        f"record {BATCH} outcomes, side by side",
        batch,
        "ms",
        peer="one after another",
        peer_value=in_turn,
    )
    yield Row(f"read {BATCH} rows", few, "ms")
    yield Row(f"read {MOST_READ} rows", many, "ms")
    yield Row("make a client of DynamoDB", client, "ms")


class _Desk:
    """One store on the table, and new ids to record."""

    def __init__(self, server: Table) -> None:
        self.store = Store(TABLE, clock=SystemClock(), client_factory=lambda _: server.client)
        self._numbers = itertools.count()
        self._known = [self._next() for _ in range(MOST_READ)]
        self._recorded(self._known)

    def _next(self) -> Outcome:
        return Outcome(
            name="square",
            id=f"id-{next(self._numbers)}",
            outcome="done",
            payload_hash="0" * 64,
            fence=1,
            token="t",
            ttl_seconds=3_600,
            result=RESULT,
        )

    def _recorded(self, outcomes: Sequence[Outcome]) -> None:
        answers = self.store.record_many(outcomes)
        if not all(isinstance(answer, Accepted) for answer in answers):
            raise RuntimeError(f"not recorded: {answers}")

    def record_one(self) -> None:
        self._recorded([self._next()])

    def processor_of_one(self) -> float:
        began = time.process_time()
        self.record_one()
        return time.process_time() - began

    def record_batch(self) -> None:
        self._recorded([self._next() for _ in range(BATCH)])

    def record_in_turn(self) -> None:
        for _ in range(BATCH):
            self.record_one()

    def reading(self, count: int) -> Callable[[], None]:
        ids = [(one.name, one.id) for one in self._known[:count]]

        def read() -> None:
            if len(self.store.get_many(ids)) != count:
                raise RuntimeError("a row is missing")

        return read

    def make_client(self) -> None:
        aws_client("dynamodb")
