"""Measure the model's costs on this machine, with loads of their own.

One poller and one environment, bodies that take no time: then whatever passes is somebody's work.

    ├─ poll ─┤├─ invocation of 1 ─┤├─ poll ─┤├─ invocation of 10 ──────────────┤
                 batch + record                 batch + 10 records

What runs here shares the cores of this machine with everything else, so all of it counts as work.
"""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Final

from tests.simulation.inputs import Costs, Load, Policy
from tests.simulation.rehearsal import rehearsing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.local.fleet import Invocation

CORES: Final = 2
_BATCH: Final = 10
_BATCHES: Final = 40
_NO_TIME: Final = 1e-9
# From `make bench`, the claim and the finish of a cold record; next to nothing beside the rest.
CLAIM_SECONDS: Final = 40e-6
FINISH_SECONDS: Final = 30e-6


def calibrate(*, cores: int = CORES) -> Costs:
    """Run small loads on the stack of this machine and return what things cost on it."""
    single = Load(jobs=_BATCHES, run_seconds=_NO_TIME)
    full = Load(jobs=_BATCHES * _BATCH, run_seconds=_NO_TIME)
    one_key = Load(jobs=_BATCHES * _BATCH, run_seconds=_NO_TIME, keys=1)
    with rehearsing(Policy(batch_size=1, concurrency=1)) as stack:
        _, ones = stack.run(list(single.messages(1)), name="single")
    with rehearsing(Policy(batch_size=_BATCH, concurrency=1)) as stack:
        _, tens = stack.run(list(full.messages(2)), name="full")
        _, answered = stack.run(list(one_key.messages(3)), name="answered")
    one, ten = _median_seconds(ones), _median_seconds(tens)
    poll_one, poll_ten = _median_gap(ones), _median_gap(tens)
    record = max(0.0, (ten - one) / (_BATCH - 1))
    batch = max(0.0, one - record)
    answered_record = max(0.0, (_median_seconds(answered) - batch) / _BATCH)
    poll_record = max(0.0, (poll_ten - poll_one) / (_BATCH - 1))
    first = tens[0]
    return Costs(
        poll=max(0.0, poll_one - poll_record),
        poll_record=poll_record,
        batch=batch,
        answered_record=min(answered_record, record),
        run_record=max(0.0, record - answered_record),
        deferred_record=answered_record,
        start=(first.init_seconds or 0.0) + first.outcome.seconds - ten,
        # On loopback it is part of what was measured.
        round_trip=0.0,
        claim=CLAIM_SECONDS,
        finish=FINISH_SECONDS,
        cores=cores,
    )


def _median_seconds(invocations: Sequence[Invocation]) -> float:
    return statistics.median(one.outcome.seconds for one in invocations[1:])


def _median_gap(invocations: Sequence[Invocation]) -> float:
    gaps = [
        after.outcome.started_at - before.outcome.started_at - before.outcome.seconds
        for before, after in itertools.pairwise(invocations)
    ]
    return statistics.median(gaps[1:])
