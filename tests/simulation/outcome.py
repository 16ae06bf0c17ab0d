"""What a run of the model shows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Outcome:
    """Everything that was counted. Times are seconds.

    Attributes:
        latencies: From sent to gone, by message that was deleted with its id settled.
        waits: From sent to recorded, by message: a result is there before its batch is at its end.
        bodies: Bodies that ran to their end, by key.
        receives: Receives that a settled message took, with how often; a copy counts anew.
        deferred: Deferrals that a settled message took, with how often.
        lost_work: Bodies that ran in vain, because their container died.
        billed_seconds: Of all containers, INIT included.
        shard_busy: Each shard's busy seconds.
        started_in: Bodies that started, by second.
        longest_sent_in: Longest latency of the messages that were sent in a second, by second.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    bodies: Counter[int] = field(default_factory=Counter)
    receives: Counter[int] = field(default_factory=Counter)
    deferred: Counter[int] = field(default_factory=Counter)
    deferrals: int = 0
    answered: int = 0
    deaths: int = 0
    lost_work: int = 0
    invocations: int = 0
    starts: int = 0
    most_containers: int = 0
    most_busy: int = 0
    billed_seconds: float = 0.0
    queue_calls: int = 0
    claims: int = 0
    finishes: int = 0
    shard_busy: Sequence[float] = ()
    started_in: Counter[int] = field(default_factory=Counter)
    longest_sent_in: dict[int, float] = field(default_factory=dict)

    def latency(self, share: float) -> float:
        """Return the latency that so large a share of the messages does not exceed."""
        return _quantile(self.latencies, share)

    def wait(self, share: float) -> float:
        """Return the same for the results."""
        return _quantile(self.waits, share)

    @property
    def loads(self) -> int:
        """Return how many bodies ran to their end."""
        return self.bodies.total()

    @property
    def amplification(self) -> float:
        """Return bodies that ran per key that was asked for; 1 is perfect while values live."""
        return self.loads / max(1, len(self.bodies))

    @property
    def busiest_shard(self) -> float:
        """Return the share of the time in which the busiest shard was busy."""
        return max(self.shard_busy, default=0.0) / self.seconds if self.seconds else 0.0


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
