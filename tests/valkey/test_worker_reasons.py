"""When the table is asked before a body runs: each reason alone, and no reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker_world.faults import Killed, Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment

LONG_AGO_SECONDS = 100.0
"""Longer than the slack around the birth of a bucket, shorter than the life of a value."""


@pytest.fixture
def world(valkey: Redis) -> World:
    return prepared_world(valkey)


def prepared_world(valkey: Redis) -> World:
    """Return a world whose bucket of the key 3 was born long ago."""
    world = World(valkey)
    world.send("older", {"n": 3})
    world.deliver(world.environment())
    world.pass_time(LONG_AGO_SECONDS)
    forget(world, "value")
    world.runs.clear()
    world.accepted.clear()
    return world


def forget(world: World, *kinds: str) -> None:
    """Let the cache evict every key of these kinds."""
    for kind in kinds:
        for key in world.server.client.keys(f"*:{kind}:*"):
            world.server.client.delete(key)


def done_in_the_table(world: World, job_id: str = "a") -> None:
    """Let a container die between the write of an outcome and the finish."""
    world.send(job_id, {"n": 3})
    with pytest.raises(Killed):
        world.deliver(world.environment(Script(record=["die_after"])))
    world.queue.waiting.clear()
    world.pass_time(LONG_AGO_SECONDS)
    world.runs.clear()


def test_claim_without_any_reason_does_not_ask(world: World) -> None:
    here = world.environment()
    world.send("a", {"n": 3})

    world.deliver(here)

    assert here.crossed["ask"] == 0
    assert world.runs == ["a"]


def test_takeover_is_a_reason(world: World) -> None:
    done_in_the_table(world)
    here = world.environment()
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert world.runs == []


def test_redelivery_is_a_reason(world: World) -> None:
    done_in_the_table(world)
    forget(world, "job", "lease", "key")
    here = world.environment()
    message = world.send("a", {"n": 3})
    world.queue.waiting[message].receives = 1

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert world.runs == []


def test_delayed_copy_is_a_reason(world: World) -> None:
    done_in_the_table(world)
    forget(world, "job", "lease", "key")
    here = world.environment()
    world.send("a", {"n": 3}, deferrals=1, first_sent=world.now - 1.0)

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert world.runs == []


def test_memory_younger_than_the_message_is_a_reason(world: World) -> None:
    done_in_the_table(world)
    message = world.send("a", {"n": 3})
    world.server.reset()
    here = world.environment()

    returned = world.deliver(here, message)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert world.runs == []


def test_first_send_and_not_the_copy_s_is_compared_with_the_bucket_s_birth(world: World) -> None:
    """A copy that was sent after a loss speaks of a job that was sent before it."""
    done_in_the_table(world)
    world.server.reset()
    world.send("b", {"n": 3})
    world.deliver(world.environment())
    forget(world, "value")
    world.pass_time(LONG_AGO_SECONDS)
    here = world.environment()
    world.send("a", {"n": 3}, first_sent=world.now - 3 * LONG_AGO_SECONDS)
    world.runs.clear()

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert world.runs == []


def test_mode_durable_is_a_reason(world: World) -> None:
    done_in_the_table(world)
    forget(world, "job", "lease", "key")
    here = world.environment(durable_mode="durable")
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == []


def test_id_bound_to_another_payload_is_a_reason(world: World) -> None:
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    forget(world, "job", "value")
    world.server.client.set("sekali:id:compute/a", "x" * 32, px=100_000)
    world.runs.clear()
    here = world.environment()
    world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    assert (world.runs, world.reasons()) == ([], [])


def test_row_that_runs_elsewhere_defers(world: World) -> None:
    world.send("a", {"n": 3})
    (payload_hash,) = bound_by_a_first_look(world)
    world.table.claim(
        "compute",
        "a",
        payload_hash=payload_hash,
        token="elsewhere",
        remaining_seconds=50.0,
        ttl_seconds=1e6,
    )
    (copy,) = world.queue.waiting.values()
    copy.visible_at = world.now
    here = world.environment()

    returned = world.deliver(here)

    assert returned == []
    assert here.crossed["ask"] == 1
    (copy,) = world.queue.waiting.values()
    assert copy.visible_at >= world.now + 50.0
    assert world.server.client.keys("*:lease:*") == []


def bound_by_a_first_look(world: World) -> list[str]:
    """Let the first try of job `a` fail, and return its payload hash."""

    def failing(_: Environment, __: Job) -> object:
        raise OSError

    world.body, before = failing, world.body
    world.deliver(world.environment())
    world.body = before
    world.pass_time(1.0)
    value = world.server.client.get("sekali:id:compute/a")
    assert isinstance(value, bytes)
    return [value.decode()]


@pytest.mark.parametrize("state", ["pending", "over"])
def test_row_of_nobody_lets_the_body_run(world: World, state: str) -> None:
    world.send("a", {"n": 3})
    (payload_hash,) = bound_by_a_first_look(world)
    world.table.claim(
        "compute",
        "a",
        payload_hash=payload_hash,
        token="elsewhere",
        remaining_seconds=1.0,
        ttl_seconds=1e6,
    )
    if state == "pending":
        world.table.give_back("compute", "a", token="elsewhere")
    else:
        world.pass_time(10.0)
    here = world.environment()

    world.drain(here)

    assert world.runs == ["a"]
    row = world.row("a")
    assert row is not None
    assert row.status == "done"
