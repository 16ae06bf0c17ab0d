"""Jobs that say what they do: one line as a body starts, before anything else happens.

| job | what it is for |
|---|---|
| effect, patient | one effect per id; `durable` and `defer` while the cache is away |
| computed, lasting | many ids ask for one key |
| ledger | adds to a row of the user's own table, under `lease.condition()` |
| flaky, broken | fail at first, fail for good |
| nested | loads a value inside the load of another one |
| fragile | has the usual number of attempts |
| hang, fatal | outlive the function's timeout, kill its container |
"""

from __future__ import annotations

import json
import os
import signal
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekali import LeaseLost, PermanentError, Worker, lease

if os.environ.get("CHAOS_MUTANT"):
    from .mutants import apply

    apply(os.environ["CHAOS_MUTANT"])

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

    from sekali import Job
    from sekali.leases import HeldLease

LOAD_TTL_SECONDS = 2.0
LOAD_WAIT_SECONDS = 0.6

worker = Worker("chaos")


def say(what: str, job: Job, **more: object) -> None:
    """Write one line, which is on its way before the call returns."""
    told = {
        "chaos": what,
        "job": job.name,
        "id": job.id,
        "key": job.key,
        "attempt": job.attempt,
        "fence": job.lease.fence,
        "token": job.lease.token,
        "at": time.time(),
        **more,
    }
    print(json.dumps(told), flush=True)


def work(job: Job) -> dict[str, Any]:  # Any: JSON
    """Say that the body starts, take the time that the payload asks for, and name this body."""
    say("start", job)
    time.sleep(float(job.payload.get("seconds", 0.0)))
    return {"by": job.lease.token, "fence": job.lease.fence}


@worker.job("effect", degraded="durable", max_attempts=50)
def effect(job: Job) -> object:
    """Stand for an effect that must count once."""
    return work(job)


@worker.job("patient", degraded="defer", max_attempts=50)
def patient(job: Job) -> object:
    """Stand for an effect that would rather wait."""
    return work(job)


@worker.job("computed", key="{payload[key]}", ttl_seconds=3, degraded="durable", max_attempts=50)
def computed(job: Job) -> object:
    """Stand for an answer that many ask for."""
    return work(job)


@worker.job("lasting", key="{payload[key]}", ttl_seconds=600, max_attempts=50)
def lasting(job: Job) -> object:
    """Stand for an answer that is kept for long."""
    return work(job)


@worker.job("flaky", max_attempts=50)
def flaky(job: Job) -> object:
    """Fail until the attempt that the payload names."""
    result = work(job)
    if job.attempt < int(job.payload["succeeds_at"]):
        raise RuntimeError("not yet")
    return result


@worker.job("broken", max_attempts=50)
def broken(job: Job) -> object:
    """Fail for good."""
    work(job)
    raise PermanentError("never")


@worker.job("hang", max_attempts=50)
def hang(job: Job) -> object:
    """Outlive the timeout of the function at the first attempt."""
    say("start", job)
    if job.attempt == 1:
        time.sleep(600)
    return {"by": job.lease.token}


@worker.job("fragile", max_attempts=3)
def fragile(job: Job) -> object:
    """Stand for an effect that is quarantined after three bodies."""
    return work(job)


@worker.job("fatal", max_attempts=3)
def fatal(job: Job) -> object:
    """Take the whole container along, each time."""
    say("start", job)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


@worker.job("ledger", degraded="defer", max_attempts=1000)
def ledger(job: Job) -> object:
    """Add one to an account, once per id, whoever else was or will be at it.

    The stamp comes first: from then on the table refuses every older holder of the lock, so that
    what is read afterwards cannot change before it is written.
    """
    say("start", job)
    account = str(job.payload["account"])
    with lease(f"ledger/{account}", wait_seconds=1.0) as held:
        return {"n": _add(job, held, account)}


def _add(job: Job, held: HeldLease, account: str) -> int:
    table, key = os.environ["CHAOS_LEDGER"], {"account": {"S": account}}
    stamp = "SET #sekali_f = :sekali_f, #sekali_t = :sekali_t"
    _write(held, table, key, stamp, {})
    row = dynamodb().get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    count = int(row.get("n", {"N": "0"})["N"])
    if job.id in row.get("applied", {"SS": []})["SS"]:
        return count
    time.sleep(float(job.payload.get("seconds", 0.0)))
    values = {":n": {"N": str(count + 1)}, ":id": {"SS": [job.id]}}
    _write(held, table, key, f"{stamp}, n = :n ADD applied :id", values)
    return count + 1


def _write(held: HeldLease, table: str, key: Any, update: str, values: dict[str, Any]) -> None:
    """Write under the lease's condition; a refusal means that a newer holder was there.

    Any: DynamoDB's typed JSON.
    """
    condition = held.condition(typed=True)
    condition["ExpressionAttributeValues"] |= values
    try:
        dynamodb().update_item(TableName=table, Key=key, UpdateExpression=update, **condition)
    except dynamodb().exceptions.ConditionalCheckFailedException as error:
        raise LeaseLost(held.key) from error


@worker.job("nested", degraded="durable", max_attempts=50)
def nested(job: Job) -> object:
    """Load `outer`, whose loader loads `inner`; tell which versions were read, and how long."""
    say("start", job)
    outer, inner = str(job.payload["outer"]), str(job.payload["inner"])
    wait_seconds = float(job.payload.get("wait_seconds", LOAD_WAIT_SECONDS))
    ttl_seconds = float(job.payload.get("ttl_seconds", LOAD_TTL_SECONDS))
    pause_seconds = float(job.payload.get("seconds", 0.0))

    def load_inner() -> list[int]:
        return [version(inner)]

    def load_outer() -> list[int]:
        found = version(outer)
        say("outer", job, version=found)
        time.sleep(pause_seconds)
        if job.payload.get("meet"):
            _meet(outer, inner)
        began = time.monotonic()
        job.cache.get_or_load(inner, load_inner, ttl_seconds=ttl_seconds, wait_seconds=wait_seconds)
        say("inner", job, waited=time.monotonic() - began)
        return [found]

    began = time.monotonic()
    read = job.cache.get_or_load(
        outer, load_outer, ttl_seconds=ttl_seconds, wait_seconds=wait_seconds
    )
    say("read", job, outer=outer, version=read[0], waited=time.monotonic() - began)
    return {"by": job.lease.token}


def _meet(mine: str, other: str) -> None:
    """Wait until another container is at the same place with the other key."""
    Path(os.environ["CHAOS_SOURCES"], f"met-{mine}").touch()
    for _ in range(1000):
        if Path(os.environ["CHAOS_SOURCES"], f"met-{other}").exists():
            return
        time.sleep(0.01)


def version(name: str) -> int:
    """Read the source of a cached value: a number in a file, which only grows."""
    return int(Path(os.environ["CHAOS_SOURCES"], name).read_text())


@cache
def dynamodb() -> DynamoDBClient:
    """Connect when it is first needed."""
    import boto3

    return boto3.client("dynamodb")


handler = worker.handler
