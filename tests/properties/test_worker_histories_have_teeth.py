"""The histories alone notice the gravest mutants of the worker, without a directed test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worker_world.history import History
from tests.worker_world.mutants import MUTANTS
from tests.worker_world.mutation import Mutant

if TYPE_CHECKING:
    from redis import Redis

STEPS = 120
SEEDS = 6
NOTICED = (
    "delete on Superseded",
    "finish before the durable write",
    "copy after deletion",
    "dead letter after deletion",
    "follower of a read-back leader",
    "rejected write counts as recorded",
    "unknown write counts as recorded",
    "suspect starts unmarked",
)
# Its reasons are taken out one by one by directed tests: in a history they mostly come together.
NOBODY_ASKS = Mutant(
    "nobody asks the table",
    "batch:Batch._has_reason_to_ask",
    "answer.takeover or item.redelivered or lost or item.ending is not None",
    "False",
    "",
    "",
)
BY_NAME = {mutant.name: mutant for mutant in (*MUTANTS, NOBODY_ASKS)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NOTICED, NOBODY_ASKS.name])
def test_histories_notice_the_mutant(
    valkey: Redis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    BY_NAME[name].apply(monkeypatch)

    noticed = any(breaks(valkey, seed) for seed in range(SEEDS))

    assert noticed


def breaks(valkey: Redis, seed: int) -> bool:
    """Tell whether a history fails, in a promise or because a result is none of a body's."""
    try:
        History(valkey, seed=seed, fault_rate=0.15, losses=seed % 3 == 2).run(STEPS)
    except (AssertionError, LookupError):
        return True
    return False
