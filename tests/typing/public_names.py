"""Use each public name as a typed program does; nothing here is run.

`assert_type` is an error of the checker where a type is another one. A line with `type: ignore`
is a use that the types must refuse: mypy warns of an ignore that ignores nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_type

import sekali
from sekali import (
    AsyncProducer,
    IdempotencyLayer,
    Job,
    Loaded,
    MsgpackCodec,
    Packing,
    Producer,
    Recovery,
    Request,
    Result,
    Settings,
    Unwrap,
    Worker,
    cache,
    cached,
    lease,
    listening,
    load_lease,
)
from sekali.leases import HeldLease
from sekali.sending import Sent, Unsent
from sekali.testing import (
    CacheContainer,
    DeadLetter,
    FakeLoader,
    FrozenClock,
    Jobs,
    LambdaContext,
    MemoryQueue,
    MemoryStore,
    Proxy,
    QueueNotEmpty,
    sqs_event,
    sqs_record,
)
from sekali.tiered import Tiered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

worker = Worker("typed", concurrency=4, unwrap=Unwrap(sns=True))


@dataclass
class Question:
    """A payload."""

    month: str


@worker.job("report", key="{payload[month]}", ttl_seconds=60, permanent=[KeyError])
def report(job: Job) -> int:
    """Return what the decorator must leave alone."""
    assert_type(job.payload, dict[str, Any])
    assert_type(job.id, str)
    assert_type(job.attempt, int)
    assert_type(job.lease, HeldLease)
    assert_type(job.cache, Tiered)
    assert_type(job.cache.get_or_load("k", lambda: 1, ttl_seconds=60), int)
    assert_type(job.cache.look_up("k", lambda: "v"), Result[str])
    assert_type(job.remaining_seconds(), float)
    return 1


def of_a_registered_job(job: Job) -> None:
    """A decorated function keeps its signature."""
    assert_type(report(job), int)
    report("no job")  # type: ignore[arg-type]  # the point of the line
    assert_type(worker.handler({}, None), dict[str, Any])


@cached(ttl_seconds=60, tags=["{month}"])
def flights_of(month: str, *, carrier: str = "UA") -> list[str]:
    """Return what the decorator must leave alone."""
    return [month, carrier]


def of_a_cached_function() -> None:
    """Arguments and result stay as they are written."""
    assert_type(flights_of("2013-01", carrier="AA"), list[str])
    assert_type(flights_of.key_for("2013-01"), str)
    flights_of(2013)  # type: ignore[arg-type]  # the point of the line


def of_the_cache(context: object) -> None:
    """A value has the type of its loader's."""
    with cache(context) as tiers:
        assert_type(tiers, Tiered)
        assert_type(tiers.get_or_load("k", lambda: {"a": 1}), dict[str, int])
        assert_type(tiers.get_or_load("k", lambda: Loaded({"a": 1}, tags=["t"])), dict[str, int])
        assert_type(tiers.get_or_load_many(["a"], lambda _: {"a": 1.5}), dict[str, float])
        assert_type(tiers.set("k", 1, packing=Packing(codec=MsgpackCodec())), bool)
        tiers.invalidate(["k"], tags=["t"])
        tiers.get_or_load("k", 1)  # type: ignore[call-overload]  # the point of the line
    with listening():
        assert_type(Loaded(1, ttl_seconds=5).value, int)


def of_leases() -> None:
    """A lease and its condition."""
    with lease("k", wait_seconds=1) as held:
        assert_type(held, HeldLease)
        assert_type(held.check(), bool)
        assert_type(held.remaining(), float)
        assert_type(held.fence, int)
        assert_type(held.condition(), dict[str, Any])
        assert_type(held.stamp(), dict[str, Any])
    assert_type(load_lease(), HeldLease | None)


def of_the_producer(url: str) -> None:
    """Ids are text, and what was not sent says why."""
    producer = Producer(url, table_name="results")
    assert_type(producer.send("report", Question("2013-01"), delay_seconds=5), str)
    sent = producer.send_many([Request(name="report", payload={"month": "2013-01"})])
    assert_type(sent, Sent)
    for one in sent.unsent:
        assert_type(one, Unsent)
        assert_type(one.code, str)
    producer.send("report", 7)  # type: ignore[arg-type]  # the point of the line
    producer.send("report", {}, delay_seconds="5")  # type: ignore[arg-type]  # the point of the line


async def of_the_async_producer(producer: Producer) -> None:
    """The same, awaited."""
    sender = AsyncProducer(producer)
    assert_type(await sender.send("report", {"month": "2013-01"}), str)
    assert_type(await sender.send_many([]), Sent)


def of_the_rest() -> None:
    """Functions beside the worker, settings, errors."""
    IdempotencyLayer("orders")
    assert_type(Recovery("reports").handler({}, None), dict[str, Any])
    assert_type(Settings.from_env({}), Settings)
    assert_type(Settings.from_env({}).lease_seconds, float)
    assert_type(sekali.__version__, str)


def of_errors(error: sekali.SekaliError) -> None:
    """What an error carries has a type."""
    match error:
        case sekali.LeaseBusy():
            assert_type(error.owner, str | None)
        case sekali.LeaseLost() | sekali.LoadTimeout():
            assert_type(error.key, str)
        case sekali.JobFailed() | sekali.ResultTimeout():
            assert_type(error.job_id, str)
        case sekali.MessageInvalid():
            assert_type(error.field, str)
        case sekali.SharedUnavailable() | sekali.StoreUnavailable():
            assert_type(error.operation, str)
        case sekali.SettingInvalid() | sekali.KeyInvalid():
            assert_type(error.rule, str)
        case sekali.ResultUnencodable() | sekali.PermanentError():
            assert_type(str(error), str)


def of_testing(handler: Callable[[Any, Any], Mapping[str, Any]]) -> None:
    """The kit for tests."""
    clock = FrozenClock()
    with Jobs("valkey://127.0.0.1:6379", clock=clock, queue=MemoryQueue(clock=clock)) as jobs:
        assert_type(jobs.send("report", {"month": "2013-01"}), str)
        assert_type(jobs.run(handler), int)
        assert_type(jobs.dead_letters, list[DeadLetter])
        assert_type(jobs.table, MemoryStore)
    with CacheContainer("valkey://127.0.0.1:6379", clock=clock) as box:
        assert_type(box.round_trips, int)
        with box.invocation(seconds=5) as tiers:
            assert_type(tiers, Tiered)
    assert_type(sqs_event(sqs_record("{}")), dict[str, Any])
    assert_type(LambdaContext().get_remaining_time_in_millis(), int)
    assert_type(FakeLoader(1).calls, int)
    assert_type(QueueNotEmpty(1).waiting, int)
    with Proxy("127.0.0.1", 6379) as proxy:
        assert_type(proxy.url, str)
