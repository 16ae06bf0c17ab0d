"""Each incident is provoked in the local stack, and its page is followed from the top."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

import pytest
import redis

from sekali import JobFailed, Settings, warm
from sekali.answers import Ask, new_token
from tests.operations.conftest import MONTH
from tests.operations.pages import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from infra.local.stack import LocalStack
    from sekali import Producer
    from tests.cli.conftest import Sekali
    from tests.operations.insights import Row
    from tests.operations.pages import Followed

pytestmark = pytest.mark.slow

JOB = "delay-report"
WITHIN_SECONDS = 60.0


def payload(carrier: str, month: str = MONTH) -> str:
    return json.dumps({"month": month, "carrier": carrier})


def key(carrier: str, month: str = MONTH) -> str:
    return f"{month}/{carrier}/all"


def ask(producer: Producer, ids: Iterable[str], *carriers: str, month: str = MONTH) -> list[str]:
    """Send jobs, wait for the end of each, and return their ids; the carriers take turns."""
    sent = [
        producer.send(JOB, {"month": month, "carrier": carrier}, id=one)
        for one, carrier in zip(ids, cycle(carriers), strict=False)
    ]
    for one in sent:
        with suppress(JobFailed):
            producer.wait(one, name=JOB, timeout_seconds=WITHIN_SECONDS)
    return sent


def until(
    what: str, look: Callable[[], Followed], *, seen: Callable[[Followed], object]
) -> Followed:
    """Follow a section again until the incident is to be seen in it, as somebody on call does."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while not seen(found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WITHIN_SECONDS:.0f} s: {what}; found {found}")
        time.sleep(0.1)
    return found


@contextmanager
def cache(stack: LocalStack) -> Iterator[redis.Redis]:
    """Talk to the stack's cache as the service that runs it would."""
    host, port = stack.cache_address
    with redis.Redis(host, port) as client:
        yield client


@contextmanager
def away(stack: LocalStack) -> Iterator[None]:
    """Stop the cache for the block: it takes connections, and answers nothing."""
    with cache(stack) as client:
        process = int(client.info("server")["process_id"])
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def hold(stack: LocalStack, job_key: str, *, lease_seconds: float) -> str:
    """Claim a key as a container does that never ends it; return its owner's name."""
    host, port = stack.cache_address
    settings = Settings(
        cache_url=f"valkey://{host}:{port}", durable_mode="redis", record_ttl_seconds=1_296_000
    )
    owner = f"worker/dead/{job_key}"
    container = warm.Container(settings, emit=lambda _: None)
    try:
        invocation = container.invocation(owner=owner, remaining_seconds=600)
        claim = Ask(
            name=JOB,
            id=f"held-{job_key}",
            key=job_key,
            payload_hash="",
            token=new_token(),
            terms=replace(container.default_terms(), lease_seconds=lease_seconds),
        )
        container.shared.flush([invocation.claims.claim(claim)])
    finally:
        container.close()
    return owner


def _many(row: Row, source: str, records: int) -> bool:
    """Tell whether a row counts that many; a line of the time before may come late."""
    return row["source"] == source and int(row["records"]) >= records


def test_stampede(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    carriers = ("A1", "A2", "A3", "A4")
    ask(producer, [f"calm-{one}" for one in carriers], *carriers)
    reader = Reader(
        "stampede", sekali=sekali, stack=stack, job=JOB, key=key("A1"), payload=payload("A1")
    )

    sekali("invalidate", "--tag", f"flights:{MONTH}", "--yes")
    confirmed = reader.follow("Confirm")
    ask(producer, [f"stampede-{one}" for one in carriers], *carriers)
    answers = until(
        "four bodies",
        lambda: reader.follow("Confirm"),
        seen=lambda found: [one for one in found.queries[0] if _many(one, "body", 4)],
    )
    stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    assert confirmed.commands[0].json["shared"]["outdated_tags"] == [f"flights:{MONTH}"]
    assert max(one["longest_load"] for one in answers.queries[0]) > 0
    assert stopped.deployments == 1
    assert verified.statuses == [0, 0]
    assert verified.commands[1].json["shared"]["outdated_tags"] == []


def test_lock_leak(sekali: Sekali, stack: LocalStack) -> None:
    leaked, held = key("L1"), key("L2")
    reader = Reader("lock-leak", sekali=sekali, stack=stack, job=JOB, key=held)
    owner = hold(stack, leaked, lease_seconds=0.05)
    hold(stack, held, lease_seconds=120)

    confirmed = until(
        "the recovery function's report of the leak",
        lambda: reader.follow("Confirm"),
        seen=lambda found: [one for one in found.queries[0] if one["owner"] == owner],
    )
    stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    assert confirmed.statuses == [0, 0]
    assert all(leaked in done.out for done in confirmed.commands)
    assert stopped.statuses == [0]
    assert verified.commands[0].json["leases"] == []
    assert held not in verified.commands[1].out


def test_contention(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    contended = key("C1")
    reader = Reader(
        "contention", sekali=sekali, stack=stack, job=JOB, key=contended, payload=payload("C1")
    )
    owner = hold(stack, contended, lease_seconds=120)
    producer.send(JOB, {"month": MONTH, "carrier": "C1"}, id="contended-1")

    confirmed = until(
        "a job that waits",
        lambda: reader.follow("Confirm"),
        seen=lambda found: [one for one in found.queries[0] if one["key"] == contended],
    )
    stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    [lease] = confirmed.commands[0].json["leases"]
    assert lease["owner"] == owner
    assert stopped.statuses == [0]
    assert verified.statuses == [0, 0]
    # The job that waited may hold its own lease by now.
    assert owner not in {lease["owner"] for lease in verified.commands[1].json["leases"]}


def test_degraded_mode(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    reader = Reader("degraded-mode", sekali=sekali, stack=stack, job=JOB, id="degraded-1")
    with away(stack):
        producer.send(JOB, {"month": MONTH, "carrier": "D1"}, id="degraded-1")
        confirmed = until(
            "a job that is deferred",
            lambda: reader.follow("Confirm"),
            seen=lambda found: [one for one in found.queries[0] if one["outcome"] == "defer"],
        )
        stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    assert confirmed.statuses == [7]
    assert stopped.deployments == 1
    assert verified.statuses == [0, 0, 0]


def test_growing_backlog(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    reader = Reader(
        "growing-backlog",
        sekali=sekali,
        stack=stack,
        job=JOB,
        id="unwanted-1",
        key=key("XX"),
        payload=payload("XX"),
    )
    ask(producer, [f"backlog-{n}" for n in range(30)], *(f"{n:02}" for n in range(30)))
    sekali("send", JOB, payload("XX"), "--id", "unwanted-1", "--delay", "900")

    confirmed = until(
        "thirty jobs that waited",
        lambda: reader.follow("Confirm"),
        seen=lambda found: sum(one["records"] for one in found.queries[0]) >= 30,
    )
    stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    assert max(one["waited"] for one in confirmed.queries[0]) > 0
    assert stopped.deployments == 1
    assert stopped.statuses == [0]
    assert sekali("result", "unwanted-1", "--job", JOB).status == 1
    assert verified.statuses == [0, 0]


def test_poison_messages(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    reader = Reader("poison-messages", sekali=sekali, stack=stack, job=JOB, id="poison-1")
    ask(producer, ["poison-1"], "P1", month="1991-01")

    confirmed = until(
        "its dead letter",
        lambda: reader.follow("Confirm"),
        seen=lambda found: found.statuses == [0, 0] and found.queries[1],
    )
    stopped = reader.follow("Stop the bleeding")
    # The repair: the month that was missing.
    (bucket,) = stack.template.buckets.values()
    month = stack.aws.s3.get_object(Bucket=bucket, Key=f"flights/{MONTH}.csv")["Body"].read()
    stack.aws.s3.put_object(Bucket=bucket, Key="flights/1991-01.csv", Body=month)
    fixed = reader.follow("Fix")
    verified = until(
        "its result", lambda: reader.follow("Verify"), seen=lambda found: found.statuses[0] == 0
    )

    assert "permanent" in confirmed.commands[0].out
    assert "poison-1" in confirmed.commands[1].out
    failing, history = confirmed.queries
    assert (failing[0]["key"], failing[0]["failure"]) == (key("P1", "1991-01"), "PermanentError")
    assert history[0]["outcome"] == "dead_letter"
    assert history[0]["trace_id"].startswith("1-")
    assert stopped.statuses == [1]  # it has failed already: there is nothing left to end
    assert fixed.statuses == [0, 0]
    assert "poison-1" not in verified.commands[1].out


def test_storage_spike(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    carriers = ["K0", "K1", "K2", "K3", "K4"]
    ids = [f"spike-{carrier}" for carrier in carriers]
    ask(producer, ids, *carriers)
    reader = Reader("storage-spike", sekali=sekali, stack=stack, job=JOB, id=ids[0])

    with cache(stack) as client:
        client.flushall()
    stack.redeploy()  # or the containers would remember the ids
    for one, carrier in zip(ids[1:], carriers[1:], strict=True):
        producer.send(JOB, {"month": MONTH, "carrier": carrier}, id=one)
    confirmed = until(
        "four answers of the table",
        lambda: reader.follow("Confirm"),
        seen=lambda found: [one for one in found.queries[0] if _many(one, "table", 4)],
    )
    stopped = reader.follow("Stop the bleeding")
    producer.send(JOB, {"month": MONTH, "carrier": carriers[0]}, id=ids[0])
    verified = until(
        "the record in the cache",
        lambda: reader.follow("Verify"),
        seen=lambda found: found.commands[0].json["record"],
    )

    assert confirmed.commands[0].json["record"] is None
    assert confirmed.commands[0].json["durable"]["status"] == "done"
    assert stopped.deployments == 1
    assert verified.commands[0].json["status"] == "done"


def test_evictions(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    reader = Reader(
        "evictions", sekali=sekali, stack=stack, job=JOB, key=key("E1"), payload=payload("E1")
    )
    stack.redeploy()  # or a container would answer from its own tier
    ask(producer, ["evicted-1"], "E1")
    with cache(stack) as client:
        usual = client.config_get("maxmemory*")
        try:
            _fill(client)
            confirmed = until(
                "a value that is gone",
                lambda: reader.follow("Confirm"),
                seen=lambda found: found.statuses[0] == 4,
            )
            evicted = client.info("stats")["evicted_keys"]
        finally:
            for name, value in usual.items():
                client.config_set(str(name), str(value))
            for one in client.scan_iter(match="filler:*", count=1_000):
                client.delete(one)
    stopped = reader.follow("Stop the bleeding")
    stack.redeploy()
    verified = reader.follow("Verify")

    assert evicted > 0
    assert confirmed.statuses[1] == 0
    assert stopped.deployments == 1
    assert verified.statuses == [0, 0]
    assert verified.commands[1].json["shared"] is not None


def _fill(client: redis.Redis) -> None:
    """Leave the cache no memory for what it held, as a neighbour does that stores too much."""
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory-samples", 10)
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 4_000_000)
    for number in range(400):
        client.set(f"filler:{number}", bytes(50_000))


def test_cold_start_storm(sekali: Sekali, stack: LocalStack, producer: Producer) -> None:
    ask(producer, ["warm-1"], "W1")
    reader = Reader("cold-start-storm", sekali=sekali, stack=stack, job=JOB, payload=payload("W1"))

    before = sum(fleet.environments_started for fleet in stack.fleets.values())
    stack.redeploy()
    ask(producer, ["cold-1", "cold-2", "cold-3"], "W1")
    confirmed = until(
        "answers of the shared tier",
        lambda: reader.follow("Confirm"),
        seen=lambda found: [one for one in found.queries[0] if one["tier"] == "shared"],
    )
    stopped = reader.follow("Stop the bleeding")
    verified = reader.follow("Verify")

    assert sum(fleet.environments_started for fleet in stack.fleets.values()) > before
    assert confirmed.statuses == [0, 0]
    assert stopped.deployments == 1
    assert verified.statuses == [0, 0]
