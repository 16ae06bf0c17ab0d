"""Records that repeat, contradict or follow each other, and what a batch makes of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali import PermanentError
from tests.worker_world.faults import Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


def refuse(world: World) -> None:
    def body(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        raise PermanentError("no such thing")

    world.body = body


# Repeats of one id.


def test_repeats_of_an_id_in_one_batch_share_one_body_and_one_outcome(world: World) -> None:
    here = world.environment()
    for _ in range(4):
        world.send("a", {"n": 3})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == ["a"]
    assert [outcome.id for outcome in world.accepted] == ["a"]


def test_repeat_that_was_delivered_before_makes_the_first_of_its_id_ask_the_table(
    world: World,
) -> None:
    """Symptom: a done job ran again, because its redelivered message came second in the batch."""
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    for key in world.server.client.keys("*:job:*"):
        world.server.client.delete(key)
    for key in world.server.client.keys("*:value:*"):
        world.server.client.delete(key)
    world.pass_time(600.0)
    fresh, redelivered = world.send("a", {"n": 3}), world.send("a", {"n": 3})
    world.queue.waiting[redelivered].receives = 1

    returned = world.deliver(world.environment(), fresh, redelivered)

    assert returned == []
    assert world.runs == ["a"]


def test_redriven_repeat_is_not_swallowed_by_the_failed_id_it_follows(world: World) -> None:
    """Symptom: a redrive in one batch with a plain duplicate was dead-lettered again unheard."""
    refuse(world)
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.body = world.square
    plain = world.send("a", {"n": 3})
    (redriven,) = world.redrive()

    returned = world.deliver(world.environment(), plain, redriven)

    assert returned == []
    row = world.row("a")
    assert row is not None
    assert (row.status, row.stored) == ("done", b"9")


def test_same_id_with_two_payloads_and_two_keys_in_one_batch_runs_one_of_them(
    world: World,
) -> None:
    """Symptom: their records live in two slots, so neither saw the other and both ran."""
    here = world.environment()
    world.send("a", {"n": 3})
    world.send("a", {"n": 4})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == ["a"]
    assert world.reasons() == ["payload_mismatch"]
    assert [outcome.result for outcome in world.accepted] == [b"9"]


def test_rightful_payload_that_comes_second_is_answered_not_dead_lettered(world: World) -> None:
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.send("a", {"n": 3, "other": True})
    world.send("a", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.reasons() == ["payload_mismatch"]
    assert world.runs == ["a"]


def test_both_payloads_of_an_id_meet_what_the_table_holds(world: World) -> None:
    """Symptom: of two claims of one id, only the last was compared with the row."""
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.server.reset()
    world.send("a", {"n": 4})
    world.send("a", {"n": 5})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.runs == ["a"]
    assert world.reasons() == ["payload_mismatch"] * 2


# Ids that share a key.


def test_follower_of_a_failed_id_is_failed_for_good(world: World) -> None:
    """Symptom: its failure was written under fence 0, which is final to nobody: it ran again."""
    refuse(world)
    world.send("b", {"n": 3})
    world.deliver(world.environment())
    world.server.reset()
    world.body = world.square
    world.send("a", {"n": 3})
    world.send("b", {"n": 3})
    world.deliver(world.environment())
    world.pass_time(300.0)
    world.send("b", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.runs == ["b", "a"]
    assert world.reasons() == ["permanent"] * 3
    fences = [one.attributes["sekali.fence"]["stringValue"] for one in world.queue.dead]
    assert len(set(fences)) == 1


def test_follower_of_a_leader_that_was_read_back_waits_for_its_own_turn(world: World) -> None:
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.server.reset()
    first, second = world.send("a", {"n": 3}), world.send("b", {"n": 3})

    here = world.environment()
    returned = world.deliver(here, first, second)

    assert returned == []
    assert world.runs == ["a"]
    assert len(world.queue.waiting) == 1
    world.drain(here)
    assert world.runs == ["a", "b"]


def test_follower_of_a_failed_leader_is_deferred_not_failed(world: World) -> None:
    refuse(world)
    world.send("a", {"n": 3})
    world.send("b", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.reasons() == ["permanent"]
    assert len(world.queue.waiting) == 1


def test_served_value_settles_an_id_that_failed_elsewhere_as_failed(world: World) -> None:
    refuse(world)
    world.send("b", {"n": 3})
    world.deliver(world.environment())
    world.server.reset()
    world.body = world.square
    world.send("a", {"n": 3})
    world.deliver(world.environment())
    world.send("b", {"n": 3})
    world.deliver(world.environment())
    world.pass_time(300.0)
    world.send("b", {"n": 3})

    returned = world.deliver(world.environment())

    assert returned == []
    assert world.runs == ["b", "a"]
    assert world.reasons() == ["permanent"] * 3


# Values of the local tier, whose claim is skipped.


def test_local_value_is_not_used_while_the_log_cannot_be_read(world: World) -> None:
    """Symptom: an invalidated value was recorded for good, because the cache did not answer."""
    here = world.environment()
    world.send("a", {"n": 3})
    world.deliver(here)
    here.plan = Script(claim=["down"] * 99)
    world.send("b", {"n": 3})

    world.deliver(here)

    row = world.row("b")
    assert row is None or row.status == "pending"
    assert len(world.queue.waiting) == 1


def test_local_value_is_not_given_to_an_id_that_runs_with_another_payload(world: World) -> None:
    here, other = world.environment(), world.environment(Script(record=["stop"]))
    world.send("a", {"n": 3})
    world.deliver(here)
    for key in world.server.client.keys("*:value:*"):
        world.server.client.delete(key)

    def meanwhile(_: Environment) -> None:
        world.send("b", {"n": 3, "wrong": True})
        world.deliver(here, "m3")

    world.on_stop = meanwhile
    world.send("b", {"n": 3})
    returned = world.deliver(other, "m2")

    assert returned == []
    assert world.reasons() == ["payload_mismatch"]
    (settled,) = [outcome for outcome in world.accepted if outcome.id == "b"]
    assert settled.token != ""


def test_local_value_does_not_write_for_an_id_that_is_done(world: World) -> None:
    here, other = world.environment(), world.environment()
    world.send("a", {"n": 3})
    world.deliver(here)
    world.send("b", {"n": 3})
    world.deliver(other)
    world.send("b", {"n": 3})
    before = here.flushes
    here.plan = Script(record=["down"])

    returned = world.deliver(here)

    assert returned == []
    assert here.flushes - before == 1
