"""Cache, table and queue fail at each step of a batch; nothing is lost or settled twice."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from sekali.errors import PermanentError
from sekali.store_rows import Outcome
from tests.worker_world.faults import Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.worker_world.faults import Fault
    from tests.worker_world.world import Environment

FOR_EVER = 999


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


def outcomes(world: World) -> list[tuple[str, str]]:
    return sorted((one.id, one.outcome) for one in world.accepted)


# The shared cache.


@pytest.mark.parametrize("policy", ["defer", "fail"])
def test_cache_that_is_not_there_at_first_use_is_named_and_nothing_is_lost(
    world: World, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    here = world.environment(Script(claim=["down"] * FOR_EVER), degraded=policy)
    ids = [world.send(f"id-{n}", {"n": n}) for n in range(3)]

    with caplog.at_level(logging.ERROR):
        returned = world.deliver(here)

    assert returned == (ids if policy == "fail" else [])
    assert len(world.queue.waiting) == 3
    assert world.runs == []
    assert "the shared cache is unavailable: claim failed with ConnectionError" in caplog.text
    world.drain(world.environment())
    assert outcomes(world) == [(f"id-{n}", "done") for n in range(3)]


@pytest.mark.parametrize("point", ["claim", "finish"])
@pytest.mark.parametrize("fault", ["lost", "down", "half"])
def test_single_failure_of_a_flush_is_not_noticed(world: World, point: str, fault: Fault) -> None:
    here = world.environment(Script(**{point: [fault]}))
    for n in range(4):
        world.send(f"id-{n}", {"n": n % 2})

    returned = world.deliver(here)

    assert returned == []
    assert world.queue.waiting == {}
    assert world.runs == ["id-0", "id-1"]
    assert outcomes(world) == [(f"id-{n}", "done") for n in range(4)]
    assert world.server.client.keys("*:lease:*") == []


def test_claims_whose_reply_is_lost_for_good_are_taken_over_without_a_spent_attempt(
    world: World,
) -> None:
    attempts: list[int] = []

    def body(_: Environment, job: Job) -> object:
        attempts.append(job.attempt)
        return job.payload["n"]

    world.body = body
    world.send("a", {"n": 3})
    world.deliver(world.environment(Script(claim=["lost"] * FOR_EVER)))

    world.drain(world.environment())

    assert attempts == [1]
    assert outcomes(world) == [("a", "done")]


@pytest.mark.parametrize("fault", ["lost", "down"])
def test_recorded_job_is_deleted_although_its_finish_is_never_confirmed(
    world: World, fault: Fault
) -> None:
    here = world.environment(Script(finish=[fault] * FOR_EVER))
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == ["a"]
    world.pass_time(60.0)
    world.send("a", {"n": 3})
    world.drain(world.environment())
    assert world.runs == ["a"]


@pytest.mark.parametrize("mode", ["recorded", "redis"])
def test_failing_finish_is_repeated_until_the_cache_answers(world: World, mode: str) -> None:
    here = world.environment(Script(finish=["down"] * 2), durable_mode=mode)
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.server.client.keys("*:lease:*") == []
    assert world.runs == ["a"]


@pytest.mark.parametrize("fault", ["lost", "down", "refused"])
def test_unconfirmed_job_of_mode_redis_comes_back(world: World, fault: Fault) -> None:
    here = world.environment(Script(finish=[fault] * FOR_EVER), durable_mode="redis")
    message = world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == [message]
    world.drain(world.environment(durable_mode="redis"))
    assert world.runs.count("a") == (1 if fault == "lost" else 2)


def test_refused_claim_gives_back_its_own_record_alone(world: World) -> None:
    here = world.environment(Script(claim=["refused"]), degraded="fail")
    world.send("a", {}, name="once")
    second = world.send("b", {}, name="once")
    world.body = lambda *_: "fine"

    returned = world.deliver(here)

    assert returned == [second]
    assert outcomes(world) == [("a", "done")]


def test_refused_finish_of_a_recorded_job_lets_its_message_go(world: World) -> None:
    here = world.environment(Script(finish=["refused"]))
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert outcomes(world) == [("a", "done")]


@pytest.mark.parametrize("fault", ["down", "refused"])
def test_suspect_whose_start_cannot_be_marked_does_not_start(world: World, fault: Fault) -> None:
    claim = Script(claim=["lost"] * FOR_EVER)
    message = world.send("a", {"n": 3})
    world.deliver(world.environment(claim, degraded="fail"))
    world.pass_time(60.0)

    here = world.environment(Script(renew=[fault] * FOR_EVER), degraded="fail")
    returned = world.deliver(here)

    assert returned == [message]
    assert world.runs == []
    world.drain(world.environment())
    assert world.runs == ["a"]


def test_body_starts_under_a_revived_lease_only(world: World) -> None:
    def slow(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        if job.id == "first":
            world.pass_time(14.0)
        return job.payload["n"]

    world.body = slow
    world.send("first", {"n": 1})
    world.send("second", {"n": 2})
    here = world.environment()

    world.deliver(here)

    # One flush each: claims, the first one's finish, the second one's renewal, its finish.
    assert here.flushes == 4
    assert outcomes(world) == [("first", "done"), ("second", "done")]


def test_body_does_not_start_where_another_took_its_lease(world: World) -> None:
    other = world.environment()

    def slow(environment: Environment, job: Job) -> object:
        world.runs.append(f"{job.id} in {environment.name}")
        if environment is not other and job.id == "first":
            world.pass_time(14.0)
            world.send("third", {"n": 2})
            world.deliver(other, "m3")
        return job.payload["n"]

    world.body = slow
    world.send("first", {"n": 1})
    world.send("second", {"n": 2})
    here = world.environment()

    world.deliver(here, "m1", "m2")

    assert world.runs == [f"first in {here.name}", f"third in {other.name}"]
    assert len(world.queue.waiting) == 1


# The table.


@pytest.mark.parametrize("fault", ["down", "lost", "half", "refused"])
def test_write_that_fails_at_first_is_repeated_within_the_time_left(
    world: World, fault: Fault
) -> None:
    here = world.environment(Script(record=[fault] * 3))
    for n in range(4):
        world.send(f"id-{n}", {"n": n})

    returned = world.deliver(here)

    assert returned == []
    assert world.queue.waiting == {}
    assert len(world.runs) == 4
    assert outcomes(world) == [(f"id-{n}", "done") for n in range(4)]


@pytest.mark.parametrize("fault", ["down", "lost"])
def test_message_comes_back_where_its_outcome_may_not_be_recorded(
    world: World, fault: Fault
) -> None:
    here = world.environment(Script(record=[fault] * FOR_EVER))
    began = world.now
    message = world.send("a", {"n": 3})

    returned = world.deliver(here, seconds=10.0)

    assert returned == [message]
    assert world.now - began < 10.0
    assert world.server.client.keys("*:lease:*") == []
    world.drain(world.environment())
    assert world.runs.count("a") == (1 if fault == "lost" else 2)
    assert outcomes(world) == [("a", "done")]


def test_claims_are_given_back_where_the_table_cannot_be_asked(world: World) -> None:
    message = world.send("a", {"n": 3})
    world.queue.waiting[message].receives = 1
    here = world.environment(Script(ask=["down"]))

    returned = world.deliver(here)

    assert returned == [message]
    assert world.runs == []
    assert world.server.client.keys("*:lease:*") == []


@pytest.mark.parametrize("theirs", ["done", "failed", "other payload"])
def test_outcome_that_was_recorded_first_is_taken_over(world: World, theirs: str) -> None:
    here = world.environment(Script(record=["stop"]))
    world.send("a", {"n": 3})

    def meanwhile(_: Environment) -> None:
        assert here.store is not None
        here.store.record(
            "compute",
            "a",
            outcome="failed" if theirs == "failed" else "done",
            payload_hash="x" * 32 if theirs == "other payload" else hash_of(here),
            fence=7,
            token="theirs",
            ttl_seconds=1e6,
            result=b'"theirs"',
            error=b'{"reason":"theirs"}',
        )

    world.on_stop = meanwhile
    returned = world.deliver(here)

    assert returned == []
    (record,) = world.server.client.keys("*:job:*")
    status = world.server.client.hget(record, "st")
    expected = {
        "done": (b"done", []),
        "failed": (b"failed", ["theirs"]),
        "other payload": (b"retry", ["payload_mismatch"]),
    }
    assert (status, world.reasons()) == expected[theirs]
    assert world.server.client.keys("*:value:*") == []
    assert world.server.client.keys("*:lease:*") == []


def hash_of(environment: Environment) -> str:
    (record,) = environment.world.server.client.keys("*:job:*")
    value = environment.world.server.client.hget(record, "ph")
    assert isinstance(value, bytes)
    return value.decode()


def test_result_too_large_for_the_table_fails_its_leader_and_defers_its_follower(
    world: World,
) -> None:
    here = world.environment()
    here.store._bucket = False  # noqa: SLF001 a table without a bucket
    world.body = lambda *_: "x" * 500_000
    world.send("a", {"n": 3})
    world.send("b", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.reasons() == ["result_too_large"]
    assert outcomes(world) == [("a", "failed")]
    assert len(world.queue.waiting) == 1


def test_served_value_too_large_for_the_table_fails_for_good(world: World) -> None:
    world.body = lambda *_: "x" * 500_000
    world.send("a", {"n": 3})
    world.deliver(world.environment(durable_mode="redis"))
    here = world.environment()
    here.store._bucket = False  # noqa: SLF001 a table without a bucket
    world.send("b", {"n": 3})

    world.deliver(here)
    world.send("b", {"n": 3})
    world.deliver(world.environment())

    assert world.reasons() == ["result_too_large"] * 2
    assert outcomes(world) == [("b", "failed")]


# The queue.


def refusing(_: Environment, __: Job) -> object:
    raise PermanentError("never")


@pytest.mark.parametrize("fault", ["down", "lost"])
def test_message_stays_where_its_dead_letter_is_not_acknowledged(
    world: World, fault: Fault
) -> None:
    world.body = refusing
    here = world.environment(Script(send=[fault] * FOR_EVER))
    message = world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == [message]
    here.plan = Script()
    world.drain(here)
    assert set(world.reasons()) == {"permanent"}


@pytest.mark.parametrize("fault", ["down", "lost"])
def test_message_stays_where_its_copy_is_not_acknowledged(world: World, fault: Fault) -> None:
    def failing(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        if len(world.runs) == 1:
            raise OSError("no route")
        return job.payload["n"]

    world.body = failing
    here = world.environment(Script(send=[fault] * FOR_EVER))
    message = world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == [message]
    here.plan = Script()
    world.drain(here)
    assert outcomes(world) == [("a", "done")]
    assert world.runs == ["a", "a"]


def test_letter_that_the_queue_refused_returns_its_own_message_alone(world: World) -> None:
    world.body = refusing
    here = world.environment(Script(send=["refused"] * 2))
    for n in range(3):
        world.send(f"id-{n}", {"n": n})

    returned = world.deliver(here)

    assert returned == ["m3"]
    assert len(world.reasons()) == 2


def test_outcome_needs_the_fence_of_a_claim_to_fail(world: World) -> None:
    world.body = refusing
    world.send("a", {"n": 3})

    world.deliver(world.environment())

    (outcome,) = world.accepted
    assert isinstance(outcome, Outcome)
    assert outcome.fence > 1_000_000
