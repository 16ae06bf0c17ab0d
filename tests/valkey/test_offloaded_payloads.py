"""Take messages whose payload is in a bucket through the worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from sekali.message import Message, encode
from sekali.payload_bucket import Payloads
from tests.worker_kit import BUCKET, Context, Kit, event, job, record, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job, Worker

LATER_BUCKET = "not-made-yet"


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def make_bucket(name: str) -> None:
    boto3.client("s3").create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )


def offloaded(job_id: str, payload: dict[str, Any], *, bucket: str = BUCKET) -> str:
    """Write a payload and return the body of the message that refers to it."""
    written = Payloads(bucket, lambda: boto3.client("s3")).put("square", payload)
    return encode(
        Message(id=job_id, name="square", payload=written, first_sent=1.0, enqueued_at=1.0)
    )


def squares(kit: Kit, runs: list[str], *, key: str | None = None) -> Worker:
    worker = kit.worker()

    @worker.job("square", key=key, ttl_seconds=60)
    def square(job: Job) -> Any:
        runs.append(job.id)
        return job.payload["n"] ** 2

    return worker


@pytest.mark.parametrize("key", [None, "{payload[n]}"])
def test_job_is_given_the_payload_from_the_bucket(kit: Kit, key: str | None) -> None:
    runs: list[str] = []
    worker = squares(kit, runs, key=key)

    response = worker.handler(event(record(offloaded("a", {"n": 3}))), Context())

    assert (returned(response), runs) == ([], ["a"])
    row = kit.row("square", "a")
    assert row is not None
    assert row["result"]["B"] == b"9"


def test_same_job_inline_and_in_the_bucket_is_one_job(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    worker.handler(event(record(offloaded("a", {"n": 3}))), Context())

    response = worker.handler(event(job("a", {"n": 3}, name="square")), Context())

    assert (returned(response), runs, kit.dead_letters()) == ([], ["a"], [])


def test_known_job_is_answered_without_its_payload(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    body = offloaded("a", {"n": 3})
    worker.handler(event(record(body)), Context())
    key = json.loads(body)["payload_ref"]["key"]
    boto3.client("s3").delete_object(Bucket=BUCKET, Key=key)

    response = worker.handler(event(record(body)), Context())

    assert (returned(response), runs, kit.dead_letters()) == ([], ["a"], [])


def test_payload_that_is_gone_is_a_dead_letter_and_can_be_put_back_and_redriven(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    body = offloaded("a", {"n": 3})
    key = json.loads(body)["payload_ref"]["key"]
    boto3.client("s3").delete_object(Bucket=BUCKET, Key=key)

    worker.handler(event(record(body)), Context())
    (letter,) = kit.dead_letters()
    offloaded("a", {"n": 3})
    redriven = record(letter["body"])
    redriven["messageAttributes"] = {
        name: {"stringValue": value, "dataType": "String"}
        for name, value in letter["attributes"].items()
    }
    response = worker.handler(event(redriven), Context())

    assert letter["attributes"]["sekali.reason"] == "payload_missing"
    assert (returned(response), runs) == ([], ["a"])
    row = kit.row("square", "a")
    assert row is not None
    assert row["st"]["S"] == "done"


@pytest.mark.parametrize("key", [None, "{payload[n]}"])
def test_bucket_that_is_away_delays_a_job_and_spends_no_attempt(
    monkeypatch: pytest.MonkeyPatch, kit: Kit, key: str | None
) -> None:
    monkeypatch.setenv("SEKALI_RESULTS_BUCKET", LATER_BUCKET)
    monkeypatch.setenv("SEKALI_MAX_ATTEMPTS", "1")
    runs: list[str] = []
    worker = squares(kit, runs, key=key)
    body = offloaded("a", {"n": 3})

    for _ in range(3):
        response = worker.handler(event(record(body)), Context())
        (copy,) = kit.copies()
        body = copy["body"]
        assert returned(response) == []
        assert copy["delay_seconds"] >= 5
    make_bucket(LATER_BUCKET)
    offloaded("a", {"n": 3}, bucket=LATER_BUCKET)
    response = worker.handler(event(record(body)), Context())

    assert (returned(response), runs, kit.dead_letters()) == ([], ["a"], [])
