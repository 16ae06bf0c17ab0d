"""Count what a batch costs: waits, commands and bytes for the cache, calls and memory here.

Counts do not depend on the machine, so they are tests: what grows, fails. Where a number below is
exact, the protocol says it (PROTOCOL §4: one pipeline of claims, one of finishes). Where it is a
bound, it was measured when it was last lowered, plus the margin that its comment names; whoever
makes a batch cheaper lowers it.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.relay import Relay
from infra.local.round_trips import RespObserver, RoundTrips
from sekali import Worker, warm
from sekali.testing import FrozenClock
from tests.worker_kit import Context, event, job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from redis import Redis

    from sekali import Job

# One claim (or a look, where the key's value is known here) and one finish per record; a job with a
# key of its own binds its id as well.
COMMANDS_PER_RECORD = 3
# The tail of the invalidation log, and how long jobs run (once a minute and container).
COMMANDS_PER_BATCH = 2

# Measured on Python 3.11 with batches of 500, and 3 % on top.
MOST_CALLS_PER_COLD_RECORD = 413
MOST_CALLS_PER_KNOWN_RECORD = 216
# Measured: 1,185 out and 132 in, for ids of 7 and keys of 8 characters; 3 % on top.
MOST_BYTES_SENT_PER_COLD_RECORD = 1220
MOST_BYTES_RECEIVED_PER_COLD_RECORD = 136
# Measured at the peak of a batch of 500, everything that Python allocated and nothing collected;
# 10 % on top.
MOST_BYTES_HELD_PER_COLD_RECORD = 4_350


@dataclass
class Bill:
    """What one batch cost."""

    flushes: int
    commands: int
    sent: int
    received: int


class Meter(RoundTrips):
    """Add up what passes between the worker and the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_bytes = 0
        self.received_bytes = 0

    def observe(self) -> RespObserver:
        return _Metered(self)


class _Metered(RespObserver):
    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self._meter = meter

    def sent(self, data: bytes) -> None:
        self._meter.sent_bytes += len(data)
        super().sent(data)

    def received(self, data: bytes) -> None:
        self._meter.received_bytes += len(data)
        super().received(data)


@dataclass
class Desk:
    """A worker whose cache is behind a meter; its container and its connection are warm."""

    worker: Worker
    meter: Meter

    def run(self, *records: dict[str, Any]) -> Bill:
        """Take one batch and return what it cost."""
        meter, shared = self.meter, warm.container().shared
        before = Bill(shared.flushes, meter.commands, meter.sent_bytes, meter.received_bytes)

        response = self.worker.handler(event(*records), Context())

        assert response == {"batchItemFailures": []}
        return Bill(
            shared.flushes - before.flushes,
            meter.commands - before.commands,
            meter.sent_bytes - before.sent,
            meter.received_bytes - before.received,
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FrozenClock:
    frozen = FrozenClock()
    monkeypatch.setattr("sekali.warm.SystemClock", lambda: frozen)
    return frozen


@pytest.fixture
def desk(
    monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str, clock: FrozenClock
) -> Iterator[Desk]:
    relay, meter = Relay(), Meter()
    address = ("127.0.0.1", int(valkey_url.rpartition(":")[2]))
    door = relay.open(address, meter.observe)
    host, port = door.address
    for name, value in {
        "SEKALI_CACHE_URL": f"valkey://{host}:{port}",
        "SEKALI_CACHE_TIMEOUT_SECONDS": "10",
        "SEKALI_DURABLE_MODE": "redis",
        "SEKALI_QUEUE_URL": "http://127.0.0.1:1/jobs",
        "SEKALI_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:1/dead",
        "SEKALI_PARTIAL_BATCH": "true",
    }.items():
        monkeypatch.setenv(name, value)
    warm.reset()
    worker = Worker("costs", hooks=[])

    @worker.job("square", key="{payload[n]}", ttl_seconds=60)
    def square(job: Job) -> int:
        clock.sleep(job.payload.get("seconds", 0.0))
        return len(job.payload["n"])

    assert valkey.dbsize() == 0
    desk = Desk(worker, meter)
    desk.run(job("warm-up", {"n": "warm"}))
    yield desk
    warm.reset()
    door.close()
    relay.close()


def cold(count: int, *, first: int = 0, **payload: object) -> list[dict[str, Any]]:
    """Return records that nobody asked for before."""
    return [job(f"id-{n:04}", {"n": f"key-{n:04}", **payload}) for n in range(first, first + count)]


@pytest.mark.parametrize(("records", "waves"), [(10, 1), (500, 1), (1_200, 3)])
def test_cold_batch_waits_twice_per_500_records(desk: Desk, records: int, waves: int) -> None:
    bill = desk.run(*cold(records))

    assert bill.flushes == 2 * waves
    assert bill.commands <= records * COMMANDS_PER_RECORD + waves * COMMANDS_PER_BATCH


def test_cold_record_costs_so_many_bytes_on_the_wire(desk: Desk) -> None:
    bill = desk.run(*cold(500))

    assert bill.sent / 500 <= MOST_BYTES_SENT_PER_COLD_RECORD
    assert bill.received / 500 <= MOST_BYTES_RECEIVED_PER_COLD_RECORD


def test_duplicates_known_to_the_container_send_nothing(desk: Desk) -> None:
    desk.run(*cold(10))

    bill = desk.run(*cold(10))

    assert bill == Bill(flushes=0, commands=0, sent=0, received=0)


def test_duplicates_known_to_others_are_claimed_in_one_wait(desk: Desk) -> None:
    desk.run(*cold(10))
    warm.reset()
    desk.run(job("warm-up-2", {"n": "warm-2"}))

    bill = desk.run(*cold(10))

    assert bill.flushes == 1
    assert bill.commands <= 10 * 2 + 1


def test_repeats_within_a_batch_are_sent_once(desk: Desk) -> None:
    bill = desk.run(*cold(1) * 10)

    assert bill.flushes == 2
    assert bill.commands <= COMMANDS_PER_RECORD + COMMANDS_PER_BATCH


def test_ids_of_a_key_known_here_are_looked_up_and_settled(desk: Desk) -> None:
    desk.run(*cold(1))

    bill = desk.run(*(job(f"other-{n}", {"n": "key-0000"}) for n in range(10)))

    assert bill.flushes == 2
    assert bill.commands <= 10 * COMMANDS_PER_RECORD + COMMANDS_PER_BATCH


def test_ids_of_a_key_known_to_others_are_claimed_and_settled(desk: Desk) -> None:
    desk.run(*cold(1))
    warm.reset()
    desk.run(job("warm-up-2", {"n": "warm-2"}))

    bill = desk.run(*(job(f"other-{n}", {"n": "key-0000"}) for n in range(10)))

    assert bill.flushes == 2
    assert bill.commands <= 10 * COMMANDS_PER_RECORD + COMMANDS_PER_BATCH


def test_slow_batch_flushes_once_more_per_quarter_of_a_second(desk: Desk) -> None:
    bill = desk.run(*cold(10, seconds=0.1))

    # Ten bodies of 0.1 s: after the third, sixth and ninth, and at the end.
    assert bill.flushes == 1 + 4


def test_record_costs_so_many_calls_of_functions(desk: Desk) -> None:
    desk.run(*cold(500))

    fresh = _calls(lambda: desk.run(*cold(500, first=500)))
    known = _calls(lambda: desk.run(*cold(500)))

    assert fresh / 500 <= MOST_CALLS_PER_COLD_RECORD
    assert known / 500 <= MOST_CALLS_PER_KNOWN_RECORD


def test_cold_record_takes_so_much_memory(desk: Desk) -> None:
    desk.run(*cold(500))
    records = cold(500, first=500)

    with _peak_bytes() as peak:
        desk.run(*records)

    assert peak[0] / 500 <= MOST_BYTES_HELD_PER_COLD_RECORD


def _calls(run: Callable[[], object]) -> int:
    """Count the calls of Python's and of C functions on this thread."""
    calls = 0

    def count(frame: FrameType, what: str, argument: object) -> None:
        nonlocal calls
        del frame, argument
        calls += what in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


@contextmanager
def _peak_bytes() -> Iterator[list[int]]:
    """Measure how much memory Python held at most, above what it held before."""
    peak: list[int] = []
    # What waits for the collector counts too. When it runs would depend on the tests before.
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
        gc.enable()
