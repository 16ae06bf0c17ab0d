"""Batches that no queue should deliver, and records that break their reader: each fails alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sekali import SettingInvalid, Worker, bodies, message, warm
from sekali.errors import PartialBatchOff
from sekali.telemetry import events
from tests.worker_kit import Context, started_kit
from tests.worker_world.world import LambdaContext, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali import Job
    from tests.worker_world.world import Environment

NEIGHBOURS = ["after", "before"]


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


@pytest.fixture
def here(world: World) -> Environment:
    return world.environment()


def record(message_id: str, job_id: str, **attributes: str) -> dict[str, Any]:
    body = {"sekali": 1, "id": job_id, "name": "once", "payload": {"n": 2}}
    return {"messageId": message_id, "body": json.dumps(body), "attributes": attributes}


def handle(here: Environment, *records: object, context: object = None) -> list[str]:
    context = context or LambdaContext(here.clock, 30.0)
    with warm.inside(here.container):
        answer = here.worker.handler({"Records": list(records)}, context)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def between_neighbours(world: World, here: Environment, body: str) -> list[str]:
    """Deliver a message of this body between two good ones; answer what comes back."""
    world.send("before", {"n": 1}, name="once")
    world.queue.send(body)
    world.send("after", {"n": 1}, name="once")
    return world.deliver(here)


def settled(world: World) -> list[str]:
    return sorted(outcome.id for outcome in world.accepted)


# What stands around the body.


def test_handler_refuses_an_event_source_that_would_delete_failed_messages(world: World) -> None:
    here = world.environment(partial_batch=False)

    with pytest.raises(PartialBatchOff, match="SEKALI_PARTIAL_BATCH"):
        handle(here, record("m1", "a"))

    assert world.runs == []


@pytest.mark.parametrize("number", ["", "abc", "1.0", "-1", "\u00b2", "9" * 40])
def test_number_of_the_queue_that_is_none_is_taken_for_unknown(
    world: World, here: Environment, number: str
) -> None:
    """Symptom: the batch failed, with every neighbour, as often as it was delivered."""
    odd = record("m1", "odd", ApproximateReceiveCount=number, SentTimestamp=number)

    returned = handle(here, odd, record("m2", "good"))

    assert returned == []
    assert settled(world) == ["good", "odd"]


def test_message_that_is_in_the_batch_twice_runs_once_and_is_named_once(
    world: World, here: Environment
) -> None:
    twice = record("m1", "a")
    world.body = lambda *_: 1 / 0
    here.container.outbox.send = lambda *_, **__: set()  # type: ignore[method-assign]

    returned = handle(here, twice, dict(twice))

    assert returned == ["m1"]
    assert here.container.durations.known().keys() == {"once"}


def test_two_messages_under_one_id_of_a_message_are_never_let_go_for_each_other(
    world: World, here: Environment
) -> None:
    """Symptom: one body ran twice, the other never; one dead letter let two messages go."""
    first, second = record("m1", "a"), record("m1", "b")
    bad = {"messageId": "m2", "body": "no json"}
    worse = {"messageId": "m2", "body": "[]"}

    returned = handle(here, first, second, bad, worse)

    assert returned == ["m1", "m2"]
    assert world.runs == ["a"]
    assert world.reasons() == []


@pytest.mark.parametrize("odd", [None, [], {}, {"messageId": 5}, {"messageId": ""}])
def test_record_without_the_name_of_its_message_is_refused_with_its_batch(
    here: Environment, odd: object
) -> None:
    with pytest.raises(SettingInvalid, match="event must be an SQS event"):
        handle(here, record("m1", "a"), odd)


@pytest.mark.parametrize("remaining", [None, float("nan"), "30000"])
def test_context_that_tells_no_time_is_refused_by_name(
    here: Environment, remaining: object
) -> None:
    class Timeless:
        def get_remaining_time_in_millis(self) -> object:
            return remaining

    with pytest.raises(SettingInvalid, match="context must tell the remaining time"):
        handle(here, record("m1", "a"), context=Timeless())


@pytest.mark.parametrize("context", ["no context at all", object()])
def test_context_without_a_clock_gets_a_minute(
    world: World, here: Environment, context: object
) -> None:
    left: list[float] = []

    def body(_: Environment, job: Job) -> None:
        left.append(job.remaining_seconds())

    world.body = body

    handle(here, record("m1", "a"), context=context)

    assert left == [60.0]


def test_body_that_no_queue_can_take_returns_alone(world: World, here: Environment) -> None:
    returned = between_neighbours(world, here, "\ud800")

    assert len(returned) == 1
    assert settled(world) == NEIGHBOURS


def test_fault_in_reading_a_record_returns_that_record_alone(
    world: World, here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = bodies.parse

    def parse(text: object, **options: Any) -> Any:  # Any: as the function that it stands for
        if text == "a defect":
            raise ZeroDivisionError
        return honest(text, **options)

    monkeypatch.setattr(message, "parse", parse)

    returned = between_neighbours(world, here, "a defect")

    assert len(returned) == 1
    assert settled(world) == NEIGHBOURS


# Keys and tags.


def send_keyed(world: World, here: Environment, payload: object) -> list[str]:
    body = {"sekali": 1, "id": "odd", "name": "keyed", "payload": payload}
    return between_neighbours(world, here, json.dumps(body))


def leaving(_: object) -> str:
    raise SystemExit(1)


async def later(_: object) -> str:
    return "a key"


@pytest.mark.parametrize(
    "key",
    [
        lambda _: None,
        lambda _: b"bytes",
        lambda _: True,
        lambda _: "",
        lambda _: 1 / 0,
        leaving,
        later,
    ],
    ids=["None", "bytes", "bool", "empty", "error", "exit", "coroutine"],
)
def test_key_function_that_makes_no_text_fails_alone(
    world: World, here: Environment, key: Callable[[object], str]
) -> None:
    """Symptom: `None` became the key of every payload without one; `sys.exit` left the batch."""
    here.worker.job("keyed", key=key)(lambda _: None)

    returned = send_keyed(world, here, {"n": 1})

    assert returned == []
    assert settled(world) == NEIGHBOURS
    assert world.reasons() == ["payload_rejected"]


@pytest.mark.parametrize(
    ("tags", "payload"),
    [
        (["{payload[tag]}"], {"tag": ""}),
        (["{payload[tag]}"], {"tag": "\ud800"}),
        (["{payload[tag]}"], {}),
        (lambda _: "text", {}),
        (lambda _: [None], {}),
        (leaving, {}),
    ],
    ids=["empty", "surrogate", "missing", "text", "None", "exit"],
)
def test_tag_that_cannot_be_one_fails_alone(
    world: World, here: Environment, tags: Any, payload: object
) -> None:
    """Symptom: an empty field of one payload failed the batch, as often as it was delivered."""
    here.worker.job("keyed", key="k", ttl_seconds=60, tags=tags)(lambda _: None)

    returned = send_keyed(world, here, payload)

    assert returned == []
    assert settled(world) == NEIGHBOURS
    assert world.reasons() == ["payload_rejected"]


def test_key_function_cannot_change_what_its_job_is_given(world: World, here: Environment) -> None:
    seen: list[object] = []
    key: Any = lambda payload: str(payload.pop("n"))  # noqa: E731  the fault that is tested
    here.worker.job("keyed", key=key)(lambda job: seen.append(job.payload))

    send_keyed(world, here, {"n": 1})

    assert seen == [{"n": 1}]


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ({"key": "{payload[n"}, "key must be a template"),
        ({"key": "{}"}, "key must be a template over payload alone"),
        ({"key": "{id}"}, "key must be a template over payload alone"),
        ({"key": 5}, "key must be a template, a function or None"),
        ({"tags": "{payload[n]}"}, "tags must be a list of templates"),
        ({"tags": ["{n}"]}, "tags must be a template over payload alone"),
    ],
)
def test_template_that_no_payload_could_fill_is_refused_when_it_is_registered(
    rules: dict[str, Any], fault: str
) -> None:
    """Symptom: a slip in the template made a dead letter of every message."""
    with pytest.raises(SettingInvalid, match=fault):
        Worker("tests").job("keyed", **rules)


# How much.


@pytest.mark.slow
def test_ten_thousand_records_wait_for_the_cache_forty_times(
    valkey: Redis, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert valkey.dbsize() == 0
    # On a busy machine a wave takes more than a quarter of a second, and beats would be counted.
    settings = {
        "SEKALI_DURABLE_MODE": "redis",
        "SEKALI_FLUSH_AFTER_SECONDS": "60",
        "SEKALI_HEARTBEAT": "false",
    }
    with started_kit(monkeypatch, valkey_url, **settings) as kit:
        worker = kit.worker()
        worker.job("once")(lambda job: job.payload)
        records = [record(f"m{n}", f"id-{n}") for n in range(10_000)]
        records[::1000] = [{"messageId": f"bad-{n}", "body": "no json"} for n in range(10)]

        answer = worker.handler({"Records": records}, Context(seconds=600))

        flushes = warm.container().shared.flushes
        assert len(kit.dead_letters()) == 10
    outcomes = Counter(one.outcome for one in kit.events if isinstance(one, events.RecordSettled))
    assert answer == {"batchItemFailures": []}
    assert outcomes == {"delete": 9_990, "dead_letter": 10}
    assert 40 <= flushes <= 42  # the scripts are unknown at first
