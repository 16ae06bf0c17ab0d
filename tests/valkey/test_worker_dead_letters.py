"""What becomes a dead letter, what it says, and what a redrive makes of it; delayed copies too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sekali import PermanentError
from sekali.answers import Ask, End
from tests.worker_world.faults import Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


def failing(world: World) -> None:
    def body(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        raise OSError("no route")

    world.body = body


def refuse(world: World) -> None:
    def body(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        raise PermanentError("no such thing")

    world.body = body


def test_quarantined_job_whose_outcome_is_in_the_table_is_done(world: World) -> None:
    """Symptom: a job that died between its write and its finish became a dead letter."""
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    (key,) = world.server.client.keys("*:job:*")
    world.server.client.hset(key, mapping={"st": "retry", "at": 9, "f": 1})
    for value in world.server.client.keys("*:value:*"):
        world.server.client.delete(value)
    world.send("a", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.reasons() == []
    assert world.runs == ["a"]


def test_dead_letter_of_a_failed_job_names_the_greater_fence_of_record_and_row(
    world: World,
) -> None:
    """Symptom: the first redrive was dead-lettered again, because the row's fence was greater."""
    refuse(world)
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    (key,) = world.server.client.keys("*:job:*")
    greatest = world.server.client.hget(key, "f")
    assert greatest is not None
    world.server.client.hset(key, "f", int(greatest) - 1000)
    world.queue.dead.clear()
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.body = world.square

    world.redrive()
    world.deliver(world.environment())

    row = world.row("a")
    assert row is not None
    assert row.status == "done"
    assert world.reasons() == []


def test_table_claim_s_fence_does_not_make_every_retry_of_a_redriven_job_its_first(
    world: World,
) -> None:
    """Symptom: its clock was ahead of the cache's, so the redriven job was retried for ever."""
    failing(world)
    world.send("a", {"n": 3})
    world.drain(world.environment())
    (key,) = world.server.client.keys("*:job:*")
    payload_hash = world.server.client.hget(key, "ph")
    assert isinstance(payload_hash, bytes)
    world.pass_time(600.0)
    world.table.claim(
        "compute",
        "a",
        payload_hash=payload_hash.decode(),
        token="table",
        remaining_seconds=0.0,
        ttl_seconds=1e6,
    )
    world.queue.dead.clear()
    world.pass_time(60.0)
    world.send("a", {"n": 3})
    world.deliver(world.environment())

    world.redrive()
    world.drain(world.environment())

    assert len(world.runs) == 6


def test_redriven_job_gets_all_its_attempts_again(world: World) -> None:
    failing(world)
    world.send("a", {"n": 3})
    world.drain(world.environment())
    assert world.reasons() == ["quarantined"]
    assert len(world.runs) == 3

    world.pass_time(400_000.0)
    world.redrive()
    world.drain(world.environment())

    assert world.reasons() == ["quarantined"]
    assert len(world.runs) == 6


def test_failed_job_with_a_key_of_its_own_is_tried_again(world: World) -> None:
    """Symptom: its id was bound to its payload, and the reply to that was read as a refusal."""
    failing(world)
    world.send("a", {"n": 3})
    here = world.environment()
    world.deliver(here)
    world.body = world.square

    world.drain(here)

    assert world.reasons() == []
    assert world.runs == ["a", "a"]


def test_job_that_waited_too_long_becomes_a_dead_letter_that_says_for_what(world: World) -> None:
    world.send("a", {"n": 3})
    holder, here = world.environment(Script(body=["stop"])), world.environment()
    message = world.send("b", {"n": 3})
    world.queue.waiting[message].sent_at -= 400_000.0

    def body(environment: Environment, job: Job) -> object:
        if environment is holder:
            world.deliver(here, message)
        return world.square(environment, job)

    world.body = body
    world.deliver(holder, "m1")

    assert world.reasons() == ["waited_too_long"]
    assert "busy" in world.queue.dead[0].attributes["sekali.error"]["stringValue"]


def test_copy_keeps_id_payload_trace_and_the_time_it_was_first_sent(world: World) -> None:
    failing(world)
    sent_at = world.now
    world.send("a", {"n": 3, "text": "\u00fc\u2028\U0001f600"}, trace="Root=1-2")

    world.deliver(world.environment())

    (copy,) = world.queue.waiting.values()
    body: dict[str, Any] = json.loads(copy.body)
    assert body["id"] == "a"
    assert body["payload"] == {"n": 3, "text": "\u00fc\u2028\U0001f600"}
    assert body["trace"] == "Root=1-2"
    assert body["first_sent"] == pytest.approx(sent_at, abs=0.002)
    assert body["deferrals"] == 1
    assert copy.visible_at >= world.now + 1.0


def test_wrong_payload_that_claimed_first_does_not_hide_what_the_table_holds(
    world: World,
) -> None:
    """Symptom: the cache lost the record, a wrong payload claimed it, the right one was refused."""
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.server.reset()
    world.send("a", {"n": 3, "wrong": True})
    world.deliver(world.environment())
    world.send("a", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.reasons() == ["payload_mismatch"]
    assert world.runs == ["a"]


def test_claim_without_any_record_is_not_settled_by_a_stranger_s_finish(world: World) -> None:
    here = world.environment()
    container = here.container
    invocation = container.invocation(owner="stranger", remaining_seconds=30.0)
    ask = Ask(
        name="compute",
        id="a",
        key="~3",
        payload_hash="other",
        token="stranger",
        terms=container.default_terms(),
    )
    end = End(ask=ask, token="stranger", fence=1, outcome="W", recorded=False)
    container.shared.flush([invocation.claims.finish(end)])
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.reasons() == ["payload_mismatch"]
