"""Run jobs on threads and on an event loop, and keep FIFO order beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from sekali import SettingInvalid, Worker, warm
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job

CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


class Overlaps:
    """Count how many bodies are inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1


def test_bodies_run_side_by_side_up_to_the_bound(kit: Kit) -> None:
    overlaps = Overlaps()
    everyone = threading.Barrier(3)
    worker = Worker("threads", concurrency=3, hooks=[kit.events.append])
    seen: list[str] = []

    @worker.job("wait")
    def wait(job: Job) -> str:
        overlaps.enter()
        everyone.wait(60)
        overlaps.leave()
        seen.append(CALLER.get())
        return job.id

    CALLER.set("the handler")
    response = worker.handler(event(*(job(f"j-{n}", {"n": n}) for n in range(6))), Context())

    assert returned(response) == []
    assert overlaps.most == 3
    assert seen == ["the handler"] * 6
    for n in range(6):
        row = kit.row("wait", f"j-{n}")
        assert row is not None
        assert f'"j-{n}"'.encode() == row["result"]["B"]


def test_failures_among_threads_stay_with_their_records(kit: Kit) -> None:
    worker = Worker("threads", concurrency=4, hooks=[kit.events.append])

    @worker.job("odd")
    def odd(job: Job) -> int:
        if job.payload["n"] % 2:
            raise OSError("odd")
        return int(job.payload["n"])

    response = worker.handler(event(*(job(f"j-{n}", {"n": n}) for n in range(8))), Context())

    assert returned(response) == []
    assert len(kit.copies()) == 4
    done = [n for n in range(8) if kit.row("odd", f"j-{n}")]
    assert done == [0, 2, 4, 6]


def test_coroutines_share_one_loop_across_invocations(kit: Kit) -> None:
    worker = Worker("loop", concurrency=4, hooks=[kit.events.append])
    loops: set[int] = set()
    everyone = asyncio.Barrier(4)

    @worker.job("meet")
    async def meet(job: Job) -> str:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.wait_for(everyone.wait(), 60)
        return job.id

    for batch in range(2):
        records = [job(f"{batch}-{n}", {"n": n}) for n in range(4)]
        assert returned(worker.handler(event(*records), Context())) == []

    assert len(loops) == 1
    assert kit.row("meet", "1-3") is not None


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_finished_work_is_recorded_while_the_next_body_runs_on(
    kit: Kit, concurrency: int, kind: str
) -> None:
    """Whoever is cut off in the second record finds the first one done."""
    worker = Worker("beside", concurrency=concurrency, hooks=[kit.events.append])
    seen: list[str] = []

    def until_recorded(job: Job) -> None:
        until = time.monotonic() + 60.0
        while job.id == "second" and not seen and time.monotonic() < until:
            row = kit.row(kind, "first")
            seen.extend([row["st"]["S"]] if row is not None else [])

    worker.job("function")(until_recorded)

    @worker.job("coroutine")
    async def coroutine(job: Job) -> None:
        await asyncio.to_thread(until_recorded, job)

    records = [job(job_id, {}, name=kind) for job_id in ("first", "second")]
    response = worker.handler(event(*records), Context(seconds=120))

    assert returned(response) == []
    assert seen == ["done"]


def test_coroutine_that_raises_is_tried_again(kit: Kit) -> None:
    worker = Worker("loop", hooks=[kit.events.append])

    @worker.job("broken")
    async def broken(job: Job) -> None:
        await asyncio.sleep(0)
        raise OSError(job.id)

    response = worker.handler(event(job("b", {"n": 1})), Context())

    assert returned(response) == []
    assert len(kit.copies()) == 1


@pytest.mark.parametrize("concurrency", [0, -1, 1001])
def test_concurrency_is_bounded(concurrency: int) -> None:
    with pytest.raises(SettingInvalid, match="concurrency must be between 1 and 1000"):
        Worker("threads", concurrency=concurrency)


@pytest.fixture
def fifo(monkeypatch: pytest.MonkeyPatch, kit: Kit) -> Kit:
    for variable, name in (
        ("SEKALI_QUEUE_URL", "jobs.fifo"),
        ("SEKALI_DEAD_LETTER_QUEUE_URL", "dead.fifo"),
    ):
        url = kit.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
        monkeypatch.setenv(variable, url)
    monkeypatch.setenv("SEKALI_FIFO", "true")
    return kit


def grouped(job_id: str, group: str, **payload: object) -> dict[str, object]:
    record = job(job_id, payload)
    record["attributes"]["MessageGroupId"] = group
    return record


def test_failure_stops_its_own_group_and_no_other(fifo: Kit) -> None:
    worker = fifo.worker()
    runs: list[str] = []

    @worker.job("step")
    def step(job: Job) -> None:
        runs.append(job.id)
        if job.payload.get("fail"):
            raise OSError(job.id)

    records = [
        grouped("a1", "a", n=1),
        grouped("b1", "b", n=1),
        grouped("a2", "a", n=2, fail=True),
        grouped("a3", "a", n=3),
        grouped("b2", "b", n=2),
    ]
    response = worker.handler(event(*records), Context())

    assert [records[2]["messageId"], records[3]["messageId"]] == returned(response)
    assert runs == ["a1", "b1", "a2", "b2"]
    assert fifo.copies() == []


def test_dead_letter_lets_the_rest_of_its_group_go_on(fifo: Kit) -> None:
    worker = fifo.worker()
    runs: list[str] = []

    @worker.job("step", permanent=[ValueError])
    def step(job: Job) -> None:
        runs.append(job.id)
        if job.payload.get("fail"):
            raise ValueError(job.id)

    records = [grouped("a1", "a", n=1, fail=True), grouped("a2", "a", n=2)]
    response = worker.handler(event(*records), Context())

    assert returned(response) == []
    assert runs == ["a1", "a2"]


def test_every_depth_of_a_group_costs_two_round_trips(fifo: Kit) -> None:
    worker = fifo.worker()

    @worker.job("step")
    def step(job: Job) -> str:
        return job.id

    worker.handler(event(grouped("warm", "w", n=0)), Context())
    before = warm.container().shared.flushes

    records = [grouped(f"{group}{n}", group, n=n) for n in range(3) for group in "abc"]
    worker.handler(event(*records), Context())

    assert warm.container().shared.flushes - before == 6
