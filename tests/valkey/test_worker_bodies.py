"""What a job's function may do to its batch, and how much of it fits into one invocation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyInconsistentStateError,
)

from sekali import IdempotencyLayer, PermanentError, SettingInvalid
from tests.worker_world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


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


# Bodies that end badly.


class Unreadable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        OSError("no route"),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseExceptionGroup("several", [SystemExit(1)]),
        BaseException("as it is"),
        StopIteration(1),
        Unreadable(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_body_that_ends_badly_fails_alone_and_is_tried_again(
    world: World, error: BaseException
) -> None:
    body_of(world, bad=lambda: leave(error))
    for job_id in ("before", "bad", "after"):
        world.send(job_id, {}, name="once")

    returned = world.deliver(world.environment())

    assert returned == []
    assert settled(world) == ["after", "before"]
    (copy,) = world.queue.waiting.values()
    assert '"id":"bad"' in copy.body.replace(" ", "")


def test_permanent_error_without_a_readable_text_is_a_dead_letter_that_says_so(
    world: World,
) -> None:
    """Symptom: such a job was tried again and again, and ended as one without an outcome."""

    class Never(PermanentError, Unreadable):
        __str__ = Unreadable.__str__

    body_of(world, bad=lambda: leave(Never()))
    world.send("bad", {}, name="once")

    world.deliver(world.environment())

    (letter,) = world.queue.dead
    assert letter.attributes["sekali.reason"]["stringValue"] == "permanent"
    assert letter.attributes["sekali.error_type"]["stringValue"] == "Never"
    assert "without a readable text" in letter.attributes["sekali.error"]["stringValue"]


def test_interrupt_from_a_terminal_ends_the_batch_and_keeps_what_has_ended(world: World) -> None:
    body_of(world, bad=lambda: leave(KeyboardInterrupt()))
    for job_id in ("before", "bad", "after"):
        world.send(job_id, {}, name="once")

    with pytest.raises(KeyboardInterrupt):
        world.deliver(world.environment())

    assert settled(world) == ["before"]
    assert len(world.queue.waiting) == 3


def test_body_that_hangs_past_the_deadline_loses_nothing(world: World) -> None:
    delays = [31.0]
    body_of(world, hangs=lambda: world.pass_time(delays.pop() if delays else 0.0))
    messages = [world.send(job_id, {}, name="once") for job_id in ("hangs", "after")]

    returned = world.deliver(world.environment())

    assert world.runs == ["hangs"]
    assert returned == messages
    world.drain(world.environment())
    assert settled(world) == ["after", "hangs"]


def test_body_is_not_called_again_for_an_error_that_powertools_would_repeat(world: World) -> None:
    body_of(world, nested=lambda: leave(IdempotencyInconsistentStateError("inside")))
    world.send("nested", {}, name="once")

    world.deliver(world.environment())

    assert world.runs == ["nested"]


def test_persistence_layer_used_inside_a_job_makes_its_own_claims(world: World) -> None:
    """Symptom: it took the job's prepared claim for its own, so every call ran its function."""
    charged: list[str] = []
    config = IdempotencyConfig()

    @idempotent_function(  # type: ignore[untyped-decorator]  # Powertools left it untyped
        data_keyword_argument="order", persistence_store=IdempotencyLayer("orders"), config=config
    )
    def charge(*, order: str) -> str:
        charged.append(order)
        return f"charged {order}"

    config.register_lambda_context(Remaining())  # type: ignore[arg-type]  # the part that is read
    body_of(world, one=lambda: charge(order="x"), two=lambda: charge(order="x"))
    world.send("one", {}, name="once")
    world.send("two", {}, name="once")

    returned = world.deliver(world.environment())

    assert returned == []
    assert charged == ["x"]
    assert [outcome.result for outcome in world.accepted] == [b'"charged x"'] * 2


class Remaining:
    """A Lambda context with time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def test_payload_that_a_body_changes_is_sent_again_as_it_was(world: World) -> None:
    def body(_: Environment, job: Job) -> object:
        job.payload["list"].append("changed")
        raise OSError

    world.body = body
    world.send("a", {"list": [1]}, name="once")

    world.deliver(world.environment())

    (copy,) = world.queue.waiting.values()
    assert "changed" not in copy.body


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), RuntimeError("no"), LookupError()], ids=repr
)
def test_key_function_that_fails_takes_only_its_own_record(world: World, error: Exception) -> None:
    here = world.environment()

    def key(payload: Any) -> str:  # Any: the user's own JSON
        if payload["n"] == 0:
            raise error
        return str(payload["n"])

    here.worker.job("picky", key=key)(lambda job: job.payload["n"])
    world.send("bad", {"n": 0}, name="picky")
    world.send("good", {"n": 1}, name="picky")

    returned = here.invoke(*world.queue.receive(world.queue.visible()))

    assert returned == []
    assert settled(world) == ["good"]
    assert world.reasons() == ["payload_rejected"]


# Time.


def test_job_longer_than_an_invocation_is_started_all_the_same(world: World) -> None:
    """Symptom: once measured as too long, a job was deferred by this container for ever."""
    body_of(world, **{name: lambda: world.pass_time(29.8) for name in ("a", "b")})
    here = world.environment()
    world.send("a", {}, name="once")
    world.deliver(here)
    world.send("b", {}, name="once")

    world.deliver(here)

    assert world.runs == ["a", "b"]


def test_what_has_no_time_left_is_given_back_unstarted_and_spends_no_attempt(world: World) -> None:
    attempts: list[int] = []

    def body(_: Environment, job: Job) -> object:
        attempts.append(job.attempt)
        world.pass_time(10.0)
        return "fine"

    world.body = body
    here = world.environment()
    for number in range(5):
        world.send(f"id-{number}", {}, name="once")

    returned = world.deliver(here)

    assert returned == []
    assert len(attempts) == 2
    assert world.server.client.keys("*:lease:*") == []
    world.drain(here)
    assert attempts == [1] * 5
    assert len(settled(world)) == 5


def test_finished_work_is_flushed_at_the_first_boundary_after_a_quarter_of_a_second(
    world: World,
) -> None:
    flushed: list[int] = []
    here = world.environment()

    def body(*_: object) -> object:
        flushed.append(here.flushes)
        world.pass_time(0.1)
        return "fine"

    world.body = body
    for number in range(7):
        world.send(f"id-{number}", {}, name="once")

    world.deliver(here)

    assert flushed == [1, 1, 1, 2, 2, 2, 3]
    assert here.flushes == 4


# Numbers.


@pytest.mark.slow
def test_batch_of_1200_waits_for_the_cache_twice_per_500(world: World) -> None:
    here = world.environment(local_max_entries=0)
    for number in range(1200):
        world.send(f"id-{number}", {"n": number})

    returned = world.deliver(here, seconds=300.0)

    assert returned == []
    assert here.flushes == 6
    assert len(set(settled(world))) == 1200


def test_batch_of_one_hot_key_waits_for_the_cache_twice(world: World) -> None:
    here = world.environment()
    for number in range(100):
        world.send(f"id-{number}", {"n": 1})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == ["id-0"]
    assert here.flushes == 2
    assert len(settled(world)) == 100


def test_batch_of_known_duplicates_does_not_wait_for_the_cache(world: World) -> None:
    here = world.environment()
    world.send("a", {"n": 1})
    world.deliver(here)
    before = here.flushes
    for _ in range(3):
        world.send("a", {"n": 1})

    returned = world.deliver(here)

    assert returned == []
    assert here.flushes == before


def test_batch_of_known_values_waits_for_the_cache_twice(world: World) -> None:
    here = world.environment()
    world.send("a", {"n": 1})
    world.deliver(here)
    before = here.flushes
    for number in range(3):
        world.send(f"id-{number}", {"n": 1})

    returned = world.deliver(here)

    assert returned == []
    assert world.runs == ["a"]
    assert here.flushes - before == 2


def test_empty_batch_does_nothing(world: World) -> None:
    here = world.environment()

    returned = here.invoke()

    assert returned == []
    assert here.flushes == 0


@pytest.mark.parametrize(
    "event",
    [{}, {"Records": None}, {"Records": {}}, {"Records": [{"body": "{}"}]}, [], None],
    ids=repr,
)
def test_event_of_another_kind_is_refused_whole(world: World, event: object) -> None:
    here = world.environment()

    with pytest.raises(SettingInvalid, match="must be an SQS event"):
        here.worker.handler(event, None)  # type: ignore[arg-type]  # what a wrong trigger sends


def test_record_without_any_attributes_is_taken(world: World) -> None:
    here = world.environment()
    bare = {
        "messageId": "bare",
        "body": '{"sekali": 1, "id": "a", "name": "once", "payload": {}}',
        "attributes": None,
        "messageAttributes": None,
    }
    body_of(world)

    returned = here.invoke(bare)

    assert returned == []
    assert settled(world) == ["a"]


@pytest.mark.parametrize(
    "text", ["\u00fc\u4e16\U0001f600", "{braces}", "a b\n\t", "a/b~c%d", "x" * 511, "\u0000"]
)
def test_any_text_may_be_id_and_part_of_a_key(world: World, text: str) -> None:
    here = world.environment()
    body_of(world)
    world.send(text, {"n": text})

    returned = world.deliver(here)

    assert returned == []
    row = world.row(text)
    assert row is not None
    assert row.status == "done"


def test_large_payload_passes_and_its_copy_keeps_it(world: World) -> None:
    body_of(world, large=lambda: leave(OSError()))
    world.send("large", {"text": "x" * 900_000}, name="once")

    returned = world.deliver(world.environment())

    assert returned == []
    (copy,) = world.queue.waiting.values()
    assert len(copy.body) > 900_000


def test_message_whose_copy_would_be_too_large_returns(world: World) -> None:
    body_of(world, large=lambda: leave(OSError()))
    message = world.send("large", {"text": "x" * 1_048_480}, name="once")

    returned = world.deliver(world.environment())

    assert returned == [message]
