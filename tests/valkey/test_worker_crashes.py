"""What is left behind by a container that dies, stops or is overtaken, and who picks it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali import PermanentError
from sekali.telemetry import events
from tests.worker_world.faults import Killed, Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.worker_world.faults import Fault
    from tests.worker_world.world import Environment

KILLED_EVERYWHERE = [
    pytest.param({point: [fault]}, id=f"{point} {fault}")
    for point in ("claim", "record", "finish")
    for fault in ("die_before", "die_after")
]


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


def settled(world: World) -> list[str]:
    return sorted(outcome.id for outcome in world.accepted)


@pytest.mark.parametrize("faults", KILLED_EVERYWHERE)
def test_container_killed_at_any_boundary_loses_nothing_and_settles_each_id_once(
    world: World, faults: dict[str, list[Fault]]
) -> None:
    doomed, heir = world.environment(Script(**faults)), world.environment()
    for number in range(4):
        world.send(f"id-{number}", {"n": number % 2})

    with pytest.raises(Killed):
        world.deliver(doomed)
    world.drain(heir)

    assert settled(world) == [f"id-{number}" for number in range(4)]
    assert world.reasons() == []
    assert [row.stored for n in range(4) if (row := world.row(f"id-{n}"))] == [b"0", b"1"] * 2


def test_outcome_recorded_by_a_container_that_died_before_its_finish_is_found_not_redone(
    world: World,
) -> None:
    doomed, heir = world.environment(Script(record=["die_after"])), world.environment()
    world.send("a", {"n": 3})

    with pytest.raises(Killed):
        world.deliver(doomed)
    world.drain(heir)

    assert world.runs == ["a"]
    assert world.queue.waiting == {}
    taken = [one for one in heir.events if isinstance(one, events.LeaseTakenOver)]
    assert len(taken) == 1


def test_record_that_kills_its_container_is_quarantined_alone(world: World) -> None:
    """Symptom: suspects that had run well were lost with the next one's crash, again and again.

    Their results were kept for the common flush, so the neighbour of a killer used up its own
    attempts and went into quarantine with it.
    """

    def body(environment: Environment, job: Job) -> object:
        world.square(environment, job)
        if job.id == "killer":
            raise Killed
        return job.payload["n"] ** 2

    world.body = body
    for job_id, number in (("first", 1), ("killer", 2), ("last", 3)):
        world.send(job_id, {"n": number})

    for _ in range(8):
        try:
            world.drain(world.environment())
        except Killed:
            continue
        break

    assert settled(world) == ["first", "last"]
    assert world.reasons() == ["quarantined"]
    assert world.runs.count("last") == 1
    assert world.runs.count("first") == 2
    assert world.runs.count("killer") == 4


def test_holder_stopped_past_its_lease_answers_with_the_result_of_its_successor(
    world: World,
) -> None:
    late, heir = world.environment(Script(record=["stop"])), world.environment()
    first = world.send("a", {"n": 3})

    def take_over(_: Environment) -> None:
        world.pass_time(100.0)
        late.clock.freeze(100.0)
        world.body = lambda *_: "the successor's"
        world.deliver(heir, first)

    world.on_stop = take_over
    returned = world.deliver(late, first)

    assert returned == []
    assert [outcome.result for outcome in world.accepted] == [b'"the successor\'s"']
    again = world.environment()
    world.send("b", {"n": 3})
    world.deliver(again)
    row = world.row("b")
    assert row is not None
    assert row.stored == b'"the successor\'s"'


@pytest.mark.parametrize("mode", ["recorded", "redis"])
def test_superseded_holder_changes_neither_value_nor_lease_of_the_running_successor(
    world: World, mode: str
) -> None:
    late = world.environment(Script(finish=["stop"]), durable_mode=mode)
    heir = world.environment(durable_mode=mode)
    waiting = world.environment(durable_mode=mode)
    world.send("a", {"n": 3})
    leases: list[int] = []

    def newer(*_: object) -> str:
        leases.append(len(world.server.client.keys("*:lease:*")))
        return "newer"

    def take_over(_: Environment) -> None:
        world.pass_time(100.0)
        world.body = newer
        world.send("b", {"n": 3})
        world.deliver(heir, "m2")

    world.on_stop = take_over
    returned = world.deliver(late, "m1", seconds=300.0)

    if mode == "redis":
        assert [one.reason for one in late.events if isinstance(one, events.Deferred)] == [
            "superseded"
        ]
    assert returned == []
    assert leases == [1]
    world.send("c", {"n": 3})
    world.drain(waiting)
    assert world.server.client.keys("*:lease:*") == []
    (key,) = world.server.client.keys("*:value:*")
    assert str(world.server.client.get(key)).endswith('"newer"\'')


def test_permanent_failure_of_a_superseded_holder_is_not_a_dead_letter(world: World) -> None:
    late = world.environment(Script(finish=["stop"]), durable_mode="redis")
    heir = world.environment(durable_mode="redis")
    world.send("a", {"n": 3})

    def never(*_: object) -> object:
        raise PermanentError("never")

    def take_over(_: Environment) -> None:
        world.pass_time(100.0)
        world.body = world.square
        world.send("b", {"n": 3})
        world.deliver(heir, "m2")

    world.body, world.on_stop = never, take_over
    returned = world.deliver(late, "m1", seconds=300.0)

    assert returned == []
    assert world.reasons() == []
    world.drain(heir)
    assert world.runs == ["b"]


def test_follower_is_not_settled_by_a_leader_whose_lease_ran_out(world: World) -> None:
    here = world.environment()

    def slow(_: Environment, job: Job) -> object:
        world.runs.append(job.id)
        world.pass_time(14.0)
        return job.payload["n"]

    world.body = slow
    world.send("a", {"n": 3})
    world.send("b", {"n": 3})

    world.deliver(here)

    assert settled(world) == ["a"]
    assert len(world.queue.waiting) == 1


def test_heartbeat_that_finds_the_lease_gone_lets_the_winner_s_result_count(world: World) -> None:
    late, heir = world.environment(), world.environment()
    first = world.send("a", {"n": 3})

    def body(environment: Environment, _: Job) -> object:
        if environment is heir:
            return "winner"
        world.pass_time(100.0)
        world.deliver(heir, first)
        late.container.current.heartbeat.beat()
        return "loser"

    world.body = body
    returned = world.deliver(late, first)

    assert returned == []
    assert [outcome.result for outcome in world.accepted] == [b'"winner"']
    assert any(isinstance(one, events.LeaseLost) for one in late.events)


def test_leases_are_renewed_while_the_table_is_asked(world: World) -> None:
    """Symptom: a table that answered late took longer than the lease, and nobody renewed it."""
    cold = world.environment(Script(ask=["stop"]))
    world.send("a", {"n": 3})
    world.queue.receive(world.queue.visible())
    world.pass_time(1000.0)
    started: list[int] = []
    world.on_stop = lambda _: started.append(cold.container.hearts_started)

    world.deliver(cold)

    assert started == [1]
    assert settled(world) == ["a"]


def test_finished_work_before_a_hanging_record_survives_the_kill(world: World) -> None:
    def body(environment: Environment, job: Job) -> object:
        world.square(environment, job)
        world.pass_time(0.3)
        if job.id == "hangs":
            raise Killed
        return job.payload["n"]

    world.body = body
    doomed = world.environment()
    for number, job_id in enumerate(["a", "b", "hangs", "c"]):
        world.send(job_id, {"n": number})

    with pytest.raises(Killed):
        world.deliver(doomed)

    assert settled(world) == ["a", "b"]


def test_work_that_ended_a_moment_before_a_hanging_record_survives_the_kill(world: World) -> None:
    """Symptom: what had ended within a quarter of a second before the hanging record was redone."""

    def body(environment: Environment, job: Job) -> object:
        world.square(environment, job)
        if job.id != "hangs":
            return job.payload["n"]
        world.pass_time(20.0)
        environment.flusher.beat()
        raise Killed

    world.body = body
    doomed, heir = world.environment(), world.environment()
    for number, job_id in enumerate(["a", "b", "hangs", "c"]):
        world.send(job_id, {"n": number})

    with pytest.raises(Killed):
        world.deliver(doomed)

    assert settled(world) == ["a", "b"]
    world.body = world.square
    world.drain(heir)
    assert [world.runs.count(job_id) for job_id in ("a", "b")] == [1, 1]


def test_nothing_is_sent_beside_a_record_before_it_is_due(world: World) -> None:
    def body(environment: Environment, job: Job) -> object:
        if job.id == "last":
            world.pass_time(0.2)
            again.extend(environment.flusher.beat())
        return world.square(environment, job)

    again: list[float] = []
    world.body = body
    here = world.environment()
    for number, job_id in enumerate(["a", "b", "last"]):
        world.send(job_id, {"n": number})

    world.deliver(here)

    assert here.flushes == 2
    assert again == pytest.approx([0.05])
    assert settled(world) == ["a", "b", "last"]


def test_own_finish_is_not_told_as_a_lost_lease(world: World) -> None:
    """Symptom: a beat between the finish and its reply counted the lease as lost."""
    here = world.environment(Script(finish=["stop_after"]))
    world.send("a", {"n": 3})

    def beat(_: Environment) -> None:
        here.plan = Script()
        here.container.current.heartbeat.beat()

    world.on_stop = beat
    world.deliver(here)

    assert [one for one in here.events if isinstance(one, events.LeaseLost)] == []
