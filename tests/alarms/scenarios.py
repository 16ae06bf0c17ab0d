"""How to make each alarm ring, and how it ends: by a fault, a load or a neighbour.

A scenario names the symptoms that it drives. `begin` is done once, `push` again and again until all
of them have rung, `end` once, `mend` again and again until all of them are OK.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from infra.local.faults import slow_objects
from infra.local.flights import DAMAGED_MONTH
from tests.alarms.stage import WITHIN_SECONDS, with_changed_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from redis import Redis

    from infra.local.template import Function
    from tests.alarms.stage import Stage


def _nothing(stage: Stage) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way to trouble; `stage` holds arguments of its stage."""

    name: str
    symptoms: frozenset[str]
    begin: Callable[[Stage], None] = _nothing
    push: Callable[[Stage], None] = _nothing
    end: Callable[[Stage], None] = _nothing
    mend: Callable[[Stage], None] = _nothing
    stage: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Function, Path], Function] | None = None


# The shared cache is away: workers go on without it, and an invalidation fails for good.


def _cut(stage: Stage) -> None:
    stage.stack.climate.cache.cut = True
    _change_a_month(stage)


def _leave_jobs_pending(stage: Stage) -> None:
    """Let jobs wait for the cache, and nobody take them up when it is there again."""
    stage.stack.climate.cache.cut = True
    stage.ask(20)
    deadline = time.monotonic() + WITHIN_SECONDS
    while stage.stack.watch.store.total("JobsDeferred") == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    stage.stack.fleets[stage.worker].reserve(0)
    stage.stack.climate.cache.cut = False


def _mend_cache(stage: Stage) -> None:
    stage.stack.climate.cache.cut = False


def _change_a_month(stage: Stage) -> None:
    (bucket,) = stage.stack.template.buckets.values()
    key, content = next(iter(stage.months.items()))
    stage.stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


def _read_what_was_not_delivered(stage: Stage) -> None:
    for queue in stage.stack.template.queues.values():
        if "ndelivered" in queue.logical_id:
            stage.empty(queue)


def _by_the_table(function: Function, _folder: Path) -> Function:
    """Let jobs go on without the cache."""
    variables = {**function.variables, "SEKALI_DEGRADED": "durable"}
    return dataclasses.replace(function, variables=variables)


def _impatient(function: Function, folder: Path) -> Function:
    """Let the recovery function call two seconds long, in place of ten minutes."""
    if not function.handler.startswith("handlers.recover"):
        return function
    return with_changed_module(
        function,
        folder,
        module="handlers/recover.py",
        old='Recovery("',
        new='Recovery(pending_seconds=2.0, service="',
    )


# The shared cache forgets everything, again and again: nothing is found in any tier.


def flush(stage: Stage) -> None:
    """Let the cache server forget everything."""
    with stage.cache() as client:
        client.flushall()


def flush_and_ask(stage: Stage) -> None:
    """Let few jobs find anything, in whichever tier."""
    for _ in range(4):
        flush(stage)
        stage.ask(2, apart=True)


# Containers die, or stand still, while they hold leases.


def _ask_and_kill(stage: Stage) -> None:
    stage.forget_month()
    # Many ask the same: one of the others takes over from the dead.
    stage.ask(4, same=True, apart=True)
    stage.kill()
    # Nobody else asks for this one before the killed batch comes back.
    stage.ask(1)


def _ask_for_what_the_dead_left(stage: Stage) -> None:
    """Let a claim take over each lease that is overdue, long before the dead batches come back."""
    quick_storage(stage)
    stage.ask_again()


def leave_a_lease_behind(stage: Stage) -> None:
    """Kill a holder, and let others ask for what it held."""
    _very_slow_storage(stage)
    _ask_and_kill(stage)
    _ask_for_what_the_dead_left(stage)


def slow_storage(stage: Stage) -> None:
    """Let each load take long."""
    stage.stack.climate.aws.delay = slow_objects(1.2)


def _very_slow_storage(stage: Stage) -> None:
    stage.stack.climate.aws.delay = slow_objects(2.2)


def quick_storage(stage: Stage) -> None:
    """Let loads be quick again."""
    stage.stack.climate.aws.delay = lambda _: 0.0


def _hold_for_long(stage: Stage) -> None:
    """Let a job run as usual, then one for far longer, and have it looked at meanwhile."""
    quick_storage(stage)
    stage.ask(5)
    stage.stack.wait_until_drained(stage.queue, within_seconds=WITHIN_SECONDS)
    stage.stack.climate.aws.delay = slow_objects(2.8)
    _flush_months(stage)
    stage.ask(3, apart=True)
    for _ in range(5):
        time.sleep(0.5)
        stage.look_for_leaks()


def _ask_and_freeze(stage: Stage) -> None:
    stage.forget_month()
    stage.ask(5, same=True, apart=True)
    with stage.frozen_holder():
        # Less than its time-out, which goes on.
        stage.wait_for_a_successor(within_seconds=9.0)


def _flush_months(stage: Stage) -> None:
    """Let every report and every month be loaded again."""
    (bucket,) = stage.stack.template.buckets.values()
    for key, content in stage.months.items():
        stage.stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


def _load_slowly(stage: Stage) -> None:
    _flush_months(stage)
    stage.ask(6)


def crowd_one_key(stage: Stage) -> None:
    """Let many ask the same at once, of which nothing is known any more."""
    _flush_months(stage)
    stage.ask(24, same=True, apart=True)


# Bad messages, and whoever reads the dead letters.


def _poison(stage: Stage) -> None:
    stage.ask(15, month=DAMAGED_MONTH)
    stage.send(["no message of the contract"])


def _read_dead_letters(stage: Stage) -> None:
    stage.empty(stage.stack.dead_letter_queue(stage.queue))


# A neighbour on the cache server.


_NEIGHBOUR_BYTES: Final = 20_000
_AT_ONCE: Final = 50


def _leave_little_memory(stage: Stage) -> None:
    # Far more than what a client sends at once, which counts as memory that is used.
    stage.leave_room(4_000_000)


def _fill(stage: Stage) -> None:
    """Write keys that were never there before, until one of them drives another out."""
    with stage.cache() as client:
        before = _evicted(client)
        while _evicted(client) == before:
            last = client.incrby("neighbours", _AT_ONCE)
            pipeline = client.pipeline(transaction=False)
            for number in range(last - _AT_ONCE, last):
                pipeline.set(f"neighbour:{number}", b"x" * _NEIGHBOUR_BYTES, ex=300)
            pipeline.execute()


def _evicted(client: Redis) -> int:
    return int(client.info("stats")["evicted_keys"])


_BUSY: Final = "local x = 0 for i = 1, 12000000 do x = x + i end return x"


def _keep_busy(stage: Stage) -> None:
    def work() -> None:
        with stage.cache() as client:
            for _ in range(4):
                client.eval(_BUSY, 0)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Lambda, and deployments.


def _reserve_nothing(stage: Stage) -> None:
    stage.stack.fleets[stage.worker].reserve(0)


def _reserve_enough(stage: Stage) -> None:
    stage.stack.fleets[stage.worker].reserve(None)


def _always_cold(stage: Stage) -> None:
    fleet = stage.stack.fleets[stage.worker]
    stage.ask(4, apart=True)
    for _ in range(20):
        fleet.retire()
        threading.Event().wait(0.03)


def _start_polling(stage: Stage) -> None:
    stage.stack.start_polling()


# One that was left behind is known within a scenario's patience.
SHORT_LEASE: Final = {"lease_seconds": "2"}

SCENARIOS: Final = [
    Scenario(
        name="the shared cache is away",
        symptoms=frozenset(
            {
                "degraded-mode-jobs",
                "degraded-mode-shared-errors",
                "poison-messages-undelivered",
            }
        ),
        begin=_cut,
        push=lambda stage: stage.ask(8),
        end=_mend_cache,
        mend=_read_what_was_not_delivered,
        change=_by_the_table,
    ),
    # Two minutes, whatever the pace: ages are what they are. So it begins early.
    Scenario(
        name="nobody works the queue off",
        symptoms=frozenset({"growing-backlog-oldest-message"}),
        begin=lambda stage: stage.ask(3),
        end=_start_polling,
        stage={"poll": False},
    ),
    Scenario(
        name="jobs wait for the shared cache",
        symptoms=frozenset({"degraded-mode-pending"}),
        begin=_leave_jobs_pending,
        end=_reserve_enough,
        change=_impatient,
    ),
    Scenario(
        name="the shared cache forgets",
        symptoms=frozenset({"stampede-hit-ratio", "storage-spike-reads"}),
        push=flush_and_ask,
        stage={"context": SHORT_LEASE},
    ),
    Scenario(
        name="containers die",
        symptoms=frozenset({"poison-messages-errors", "lock-leak-takeovers", "lock-leak-overdue"}),
        begin=_very_slow_storage,
        push=_ask_and_kill,
        end=_ask_for_what_the_dead_left,
        mend=lambda stage: stage.look_for_leaks(),
        stage={"context": SHORT_LEASE},
    ),
    Scenario(
        name="a container stands still",
        symptoms=frozenset({"lock-leak-lost", "lock-leak-superseded"}),
        begin=slow_storage,
        push=_ask_and_freeze,
        end=quick_storage,
        # It stands still for longer than its lease, and not for longer than its time-out.
        stage={
            "context": {"lease_seconds": "2", "timeout_seconds": "12"},
            "minute_seconds": 5.0,
        },
    ),
    Scenario(
        name="storage is slow",
        symptoms=frozenset({"growing-backlog-duration"}),
        begin=_very_slow_storage,
        push=_load_slowly,
        end=quick_storage,
        stage={"context": SHORT_LEASE},
    ),
    Scenario(
        name="a holder lasts long",
        symptoms=frozenset({"lock-leak-long-holders"}),
        push=_hold_for_long,
        end=quick_storage,
        # Renewed several times while it holds.
        stage={"context": {"lease_seconds": "1", "timeout_seconds": "12"}},
    ),
    Scenario(
        name="everybody asks the same",
        symptoms=frozenset({"contention-claims"}),
        begin=slow_storage,
        push=crowd_one_key,
        end=quick_storage,
        stage={"context": SHORT_LEASE},
    ),
    Scenario(
        name="messages are poison",
        symptoms=frozenset({"poison-messages-dead-letters", "poison-messages-retries"}),
        push=_poison,
        mend=_read_dead_letters,
    ),
    Scenario(
        name="a neighbour fills the cache",
        symptoms=frozenset({"evictions-evicted", "evictions-memory"}),
        begin=_leave_little_memory,
        push=_fill,
        end=lambda stage: stage.give_memory(),
    ),
    Scenario(
        name="a neighbour keeps the cache busy",
        symptoms=frozenset({"degraded-mode-busy-nodes"}),
        push=_keep_busy,
    ),
    Scenario(
        name="Lambda refuses",
        symptoms=frozenset({"growing-backlog-throttles"}),
        begin=_reserve_nothing,
        push=lambda stage: stage.ask(2, apart=True),
        end=_reserve_enough,
    ),
    Scenario(
        name="every container is new",
        symptoms=frozenset({"cold-start-storm-containers"}),
        push=_always_cold,
        stage={"minute_seconds": 8.0},
    ),
    Scenario(
        name="a deployment",
        symptoms=frozenset({"deploying"}),
        begin=lambda stage: stage.stack.redeploy(),
        stage={"minute_seconds": 1.0},
    ),
]
