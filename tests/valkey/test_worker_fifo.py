"""Message groups: each stops alone, keeps its order, and comes back together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker_world.queue import FIFO
from tests.worker_world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment


def body_of(world: World, **bodies: Callable[[], object]) -> None:
    """Let the body of each id be the function of its name; every other one is quick and fine."""

    def body(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        return bodies.get(job.id, lambda: "fine")()

    world.body = body


def settled(world: World) -> list[str]:
    return sorted(outcome.id for outcome in world.accepted)


def leave(error: BaseException) -> object:
    raise error


@pytest.fixture
def fifo(valkey: Redis) -> World:
    return World(valkey, **FIFO)


def test_groups_stop_alone_and_keep_their_order(fifo: World) -> None:
    body_of(fifo, **{"b-0": lambda: leave(OSError())})
    for number in range(3):
        for group in ("a", "b"):
            fifo.send(f"{group}-{number}", {}, name="once", group=group)

    returned = fifo.deliver(fifo.environment())

    assert returned == ["m2", "m4", "m6"]
    assert settled(fifo) == ["a-0", "a-1", "a-2"]
    assert fifo.runs == ["a-0", "b-0", "a-1", "a-2"]


def test_deferred_group_comes_back_together_and_in_order(fifo: World) -> None:
    """Symptom: only the head came back soon; the rest, in flight, kept the group blocked."""
    failures = [OSError()]
    body_of(fifo, first=lambda: leave(failures.pop()) if failures else "fine")
    for job_id in ("first", "second", "third"):
        fifo.send(job_id, {}, name="once", group="g")
    here = fifo.environment()
    fifo.deliver(here)

    fifo.pass_time(2.0)
    returned = fifo.deliver(here)

    assert returned == []
    assert fifo.runs == ["first", "first", "second", "third"]


def test_dead_lettered_head_lets_its_group_go_on(fifo: World) -> None:
    here = fifo.environment()
    fifo.queue.send("{", group="g")
    fifo.send("second", {"n": 2}, group="g")

    returned = fifo.deliver(here)

    assert returned == []
    assert fifo.reasons() == ["not_json"]
    assert settled(fifo) == ["second"]


def test_repeat_in_another_group_waits_for_the_first_of_its_id(fifo: World) -> None:
    here = fifo.environment()
    body_of(fifo)
    fifo.send("x", {}, name="once", group="a")
    fifo.send("same", {}, name="once", group="a")
    fifo.send("same", {}, name="once", group="b")
    fifo.send("y", {}, name="once", group="b")

    returned = fifo.deliver(here)

    assert returned == []
    assert fifo.runs == ["x", "same", "y"]


def test_fifo_group_waits_for_the_cache_twice_per_depth(fifo: World) -> None:
    here = fifo.environment()
    body_of(fifo)
    for number in range(3):
        for group in ("a", "b"):
            fifo.send(f"{group}-{number}", {}, name="once", group=group)

    fifo.deliver(here)

    assert here.flushes == 6
