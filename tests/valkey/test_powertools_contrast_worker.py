"""What Powertools' idempotency decorator does to a job's data and errors, beside our worker.

Each test shows the fault in Powertools' own piece first: when a release mends it, the test fails
and the row can go from the list of facts.
"""

from __future__ import annotations

import copy
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency import base
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError
from aws_lambda_powertools.warnings import PowertoolsUserWarning
from redis.exceptions import ConnectionError as Disconnected

from sekali import SettingInvalid
from sekali.running import Running
from tests.conftest import free_port
from tests.contracts.idempotency import never
from tests.contracts.idempotency_benches import Answer
from tests.contracts.powertools_benches import CacheStore, PowertoolsBench
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


@pytest.fixture
def theirs(valkey_url: str) -> PowertoolsBench:
    return PowertoolsBench(CacheStore(valkey_url))


def test_data_is_copied_deeply_for_each_call(
    kit: Kit, theirs: PowertoolsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[object] = []

    def noted(data: object) -> object:
        copied.append(data)
        return copy.deepcopy(data)

    monkeypatch.setattr(base, "deepcopy", noted)
    theirs.deliver("a", lambda: None, payload=list(range(3)))
    assert copied == [{"id": "a", "payload": [0, 1, 2]}]
    copied.clear()

    worker = kit.worker()
    worker.job("list")(lambda job: job.payload["n"])

    worker.handler(event(job("a", {"n": list(range(3))})), Context())

    (handle,) = copied
    assert isinstance(handle, Running)
    assert copy.deepcopy(handle) is handle


@dataclass
class Order:
    """What a user may well pass: data, and something that cannot be copied."""

    id: str
    lock: Any = field(default_factory=threading.Lock)  # Any: a lock's class has no public name


def test_dataclass_that_holds_a_lock_cannot_be_an_argument(
    kit: Kit, theirs: PowertoolsBench
) -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock'"):
        theirs.call(request=Order("a"), body=never)

    worker = kit.worker()
    runs: list[str] = []

    @worker.job("locked")
    def locked(job: Job) -> None:
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.deepcopy(job)  # It holds locks: of its lease, of its cache.
        runs.append(job.id)

    worker.handler(event(job("a", {})), Context())

    assert runs == ["a"]


def test_error_of_a_store_loses_its_type(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}"
    theirs = PowertoolsBench(CacheStore(nowhere))
    with pytest.raises(IdempotencyPersistenceLayerError) as caught:
        theirs.call(request={"id": "a"}, body=never)
    assert isinstance(caught.value.__cause__, Disconnected)

    monkeypatch.setenv("SEKALI_CACHE_URL", nowhere)
    worker = kit.worker()
    worker.job("never")(lambda _: never())

    answer = worker.handler(event(job("a", {})), Context())

    # Whatever a claim can answer is settled before Powertools is asked to run anything.
    assert (returned(answer), len(kit.copies())) == ([], 1)
    assert "the shared cache is unavailable: claim failed" in caplog.text
    assert IdempotencyPersistenceLayerError.__name__ not in caplog.text


def test_environment_variable_switches_idempotency_off(
    kit: Kit, theirs: PowertoolsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "true")
    results = [2, 1]
    with pytest.warns(PowertoolsUserWarning):
        answers = [theirs.deliver("a", results.pop) for _ in range(2)]
    assert answers == [Answer("result", 1), Answer("result", 2)]

    worker = kit.worker()
    worker.job("never")(lambda _: never())

    with pytest.raises(SettingInvalid, match="POWERTOOLS_IDEMPOTENCY_DISABLED must not be set"):
        worker.handler(event(job("a", {})), Context())


def test_record_that_exits_takes_the_batch_with_it(
    kit: Kit, theirs: PowertoolsBench, caplog: pytest.LogCaptureFixture
) -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        theirs.call(request={"id": "a"}, body=leave)

    worker = kit.worker()

    @worker.job("step")
    def step(job: Job) -> str:
        if job.id == "leaves":
            leave()
        return "stayed"

    with caplog.at_level(logging.CRITICAL):
        answer = worker.handler(event(job("leaves", {}), job("stays", {})), Context())

    assert returned(answer) == []
    row = kit.row("step", "stays")
    assert row is not None
    assert row["st"]["S"] == "done"
