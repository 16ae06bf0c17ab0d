"""Run jobs whose authority is the table, and jobs that must never start twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sekali import SettingInvalid, warm
from tests.worker_kit import Context, Kit, event, job, record, returned, started_kit
from tests.worker_world.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job, Worker


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def payments(kit: Kit, runs: list[str], *, kill: bool = False, fail: bool = False) -> Worker:
    worker = kit.worker()

    @worker.job("pay", after_crash="in_doubt")
    def pay(job: Job) -> str:
        runs.append(job.id)
        if kill:
            raise Killed
        if fail:
            raise OSError("no route")
        return "paid"

    return worker


def status(kit: Kit, name: str, job_id: str) -> str:
    row = kit.row(name, job_id)
    assert row is not None
    return str(row["st"]["S"])


def end_everything(kit: Kit, valkey: Redis) -> None:
    """Let lease and table claim of the dead holder run out."""
    for key in valkey.scan_iter(match="*lease:*"):
        valkey.delete(key)
    for item in kit.dynamodb.scan(TableName="results")["Items"]:
        if item["st"]["S"] == "running":
            kit.dynamodb.put_item(TableName="results", Item=item | {"deadline": {"N": "1"}})


def test_cut_off_body_is_never_run_again_and_becomes_a_dead_letter(kit: Kit, valkey: Redis) -> None:
    runs: list[str] = []
    with pytest.raises(Killed):
        payments(kit, runs, kill=True).handler(event(job("p", {"n": 1})), Context())
    assert status(kit, "pay", "p") == "running"
    end_everything(kit, valkey)

    response = payments(kit, runs).handler(event(job("p", {"n": 1})), Context())

    assert returned(response) == []
    assert runs == ["p"]
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "in_doubt"
    assert status(kit, "pay", "p") == "failed"


def test_cut_off_body_is_in_doubt_even_after_the_cache_was_flushed(kit: Kit, valkey: Redis) -> None:
    runs: list[str] = []
    with pytest.raises(Killed):
        payments(kit, runs, kill=True).handler(event(job("p", {"n": 1})), Context())
    end_everything(kit, valkey)
    valkey.flushall()

    payments(kit, runs).handler(event(job("p", {"n": 1})), Context())

    assert runs == ["p"]
    assert len(kit.dead_letters()) == 1


def test_redriven_dead_letter_in_doubt_runs_once_more(kit: Kit, valkey: Redis) -> None:
    runs: list[str] = []
    with pytest.raises(Killed):
        payments(kit, runs, kill=True).handler(event(job("p", {"n": 1})), Context())
    end_everything(kit, valkey)
    payments(kit, runs).handler(event(job("p", {"n": 1})), Context())
    (letter,) = kit.dead_letters()
    redriven = record(letter["body"])
    redriven["messageAttributes"] = {
        name: {"stringValue": value, "dataType": "String"}
        for name, value in letter["attributes"].items()
    }

    response = payments(kit, runs).handler(event(redriven), Context())

    assert returned(response) == []
    assert runs == ["p", "p"]
    assert status(kit, "pay", "p") == "done"


def test_failed_attempt_is_not_in_doubt(kit: Kit, valkey: Redis) -> None:
    runs: list[str] = []
    payments(kit, runs, fail=True).handler(event(job("p", {"n": 1})), Context())
    assert status(kit, "pay", "p") == "pending"
    (copy,) = kit.copies()
    end_everything(kit, valkey)

    payments(kit, runs).handler(event(record(copy["body"])), Context())

    assert runs == ["p", "p"]
    assert status(kit, "pay", "p") == "done"
    assert kit.dead_letters() == []


def test_in_doubt_needs_a_table(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "redis")

    with pytest.raises(SettingInvalid, match="after_crash='in_doubt'"):
        payments(kit, []).handler(event(job("p", {"n": 1})), Context())


def durable(kit: Kit, runs: list[str]) -> Worker:
    worker = kit.worker()

    @worker.job("report", key="{payload[n]}", ttl_seconds=60)
    def report(job: Job) -> int:
        runs.append(job.id)
        if job.payload.get("fail") and len(runs) == 1:
            raise OSError("no route")
        return int(job.payload["n"])

    return worker


def test_in_mode_durable_the_table_keeps_a_flushed_cache_from_running_twice(
    kit: Kit, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "durable")
    runs: list[str] = []
    durable(kit, runs).handler(event(job("a", {"n": 1})), Context())
    valkey.flushall()

    response = durable(kit, runs).handler(event(job("a", {"n": 1})), Context())

    assert returned(response) == []
    assert runs == ["a"]


def test_in_mode_durable_a_failed_attempt_may_be_claimed_at_once(
    kit: Kit, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "durable")
    runs: list[str] = []
    worker = durable(kit, runs)
    worker.handler(event(job("a", {"n": 1, "fail": True})), Context())
    assert status(kit, "report", "a") == "pending"
    (copy,) = kit.copies()
    for key in valkey.scan_iter(match="*lease:*"):
        valkey.delete(key)

    worker.handler(event(record(copy["body"])), Context())

    assert runs == ["a", "a"]
    assert status(kit, "report", "a") == "done"


def test_in_mode_redis_nothing_is_written_to_a_table(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "redis")
    runs: list[str] = []

    first = durable(kit, runs).handler(event(job("a", {"n": 1})), Context())
    again = durable(kit, runs).handler(event(job("a", {"n": 1})), Context())

    assert [returned(first), returned(again)] == [[], []]
    assert runs == ["a"]
    assert kit.row("report", "a") is None


def test_large_result_lies_in_the_bucket_and_its_pointer_everywhere_else(
    kit: Kit, valkey: Redis
) -> None:
    worker = kit.worker()
    size = 400_000

    @worker.job("large", key="{payload[n]}", ttl_seconds=60)
    def large(job: Job) -> str:
        return str(job.payload["n"]) * size

    worker.handler(event(job("a", {"n": "x"}), job("b", {"n": "x"})), Context())

    pointers = set()
    for job_id in ("a", "b"):
        row = kit.row("large", job_id)
        assert row is not None
        pointers.add(row["pointer"]["S"])
    (pointer,) = pointers
    assert max(valkey.memory_usage(key) or 0 for key in valkey.scan_iter()) < size
    assert "x" * size == json.loads(
        kit.s3.get_object(Bucket="large-results", Key=pointer)["Body"].read()
    )
