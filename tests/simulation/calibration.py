"""Measure the model's costs on this machine, with loads of their own.

One poller and one environment, bodies that take no time: then whatever passes is somebody's work.

    |delete, receive| invocation |delete, receive| invocation ...

    of n ids that are done       batch + n (answer)
    of n keys with a value       batch + n (answer + write) + flush
    of n cold keys               batch + n (answer + write + run) + flush

What runs here shares the cores of this machine with everything else, so all of it counts as work.
"""

from __future__ import annotations

import itertools
import os
import statistics
from typing import TYPE_CHECKING, Any, Final

from redis import Redis

from tests.simulation.inputs import Costs, Load, Policy
from tests.simulation.rehearsal import rehearsing

if TYPE_CHECKING:
    from infra.local.fleet import Invocation
    from tests.simulation.rehearsal import Rehearsal, Run

_BATCH: Final = 10
_BATCHES: Final = 40
_APART: Final = 30
_NO_TIME: Final = 1e-9


def calibrate() -> Costs:
    """Run small loads on the stack of this machine and return what things cost on it."""
    single = list(Load(jobs=_BATCHES, run_seconds=_NO_TIME).messages(1))
    cold = list(Load(jobs=_BATCHES * _BATCH, run_seconds=_NO_TIME).messages(2))
    one_key = list(Load(jobs=_BATCHES * _BATCH, run_seconds=_NO_TIME, keys=1).messages(3))
    with rehearsing(Policy(batch_size=1, concurrency=1)) as stack:
        ones = stack.run(single, name="cold")
        done_one = _seconds(stack.run(single, name="cold"))
        apart = stack.run(single[:_APART], name="apart", apart=True)
    with rehearsing(Policy(batch_size=_BATCH, concurrency=1)) as stack:
        tens = stack.run(cold, name="cold")
        script = _script_seconds(stack)
        served = _seconds(stack.run(one_key, name="served"))
        done = _seconds(stack.run(cold, name="cold"))
    answered = _positive((done - done_one) / (_BATCH - 1))
    cold_one, cold_ten = _seconds(ones) - done_one, _seconds(tens) - done
    record = _positive((cold_ten - cold_one) / (_BATCH - 1))
    flush = _positive(cold_one - record)
    write = min(record, _positive((served - done - flush) / _BATCH))
    queue_call = _queue_call(tens)
    poll_one, poll_ten = _gap(ones) - _queue_call(ones), _gap(tens) - queue_call
    poll_record = _positive((poll_ten - poll_one) / (_BATCH - 1))
    first = tens.invocations[0]
    return Costs(
        poll=_positive(poll_one - poll_record),
        poll_record=poll_record,
        look=_look(apart),
        queue_call=queue_call,
        batch=_positive(done_one - answered),
        answered_record=answered,
        run_record=record - write,
        flush=flush,
        write=write,
        # On loopback both are part of what was measured.
        write_wait=0.0,
        round_trip=0.0,
        start=(first.init_seconds or 0.0) + first.outcome.seconds - _seconds(tens),
        claim=script,
        finish=script,
        cores=len(os.sched_getaffinity(0)),
    )


def _positive(seconds: float) -> float:
    """Take what noise makes less than nothing for nothing."""
    return max(0.0, seconds)


def _seconds(run: Run) -> float:
    """Return the median of the invocations' times, the first one's left out."""
    return statistics.median(one.outcome.seconds for one in run.invocations[1:])


def _gap(run: Run) -> float:
    """Return the time from the end of an invocation to the start of the next."""
    gaps = [
        after.outcome.started_at - _ended(before)
        for before, after in itertools.pairwise(run.invocations)
    ]
    return statistics.median(gaps[1:])


def _queue_call(run: Run) -> float:
    """Return the time from the end of an invocation until its messages are gone."""
    gone: dict[str, float] = {}
    for delivery in run.deliveries:
        gone.setdefault(delivery.request_id, delivery.at)
    return statistics.median(
        gone[one.outcome.request_id] - _ended(one) for one in run.invocations[1:]
    )


def _look(apart: Run) -> float:
    """Return in which steps a poll that waits looks again.

    Whoever comes at any moment waits for half a step on average, beyond what everybody waits.
    """
    waits = [
        invocation.outcome.started_at - delivery.sent_at
        for invocation, delivery in zip(apart.invocations, apart.deliveries, strict=True)
    ]
    return 2 * (statistics.median(waits[1:]) - min(waits[1:]))


def _script_seconds(stack: Rehearsal) -> float:
    """Return the cache server's time for a script, by its own count; claims and finishes alike."""
    host, port = stack.stack.cache_address
    # Any: redis-py's replies vary by client.
    with Redis(host=host, port=port) as client:
        counted: Any = client.info("commandstats")
    return float(counted["cmdstat_evalsha"]["usec_per_call"]) * 1e-6


def _ended(invocation: Invocation) -> float:
    return invocation.outcome.started_at + invocation.outcome.seconds
