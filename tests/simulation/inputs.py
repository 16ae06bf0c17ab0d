"""What goes into the model: what things cost, what is configured, and what is asked for.

`Costs` are measured (`calibration.py`, and `tests/benchmarks` for the cache server) or, where this
machine has no such thing, assumed; `docs/scale.md` says which. Times are seconds throughout.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of whatever is busy, per occasion.

    Attributes:
        poll: Of the poller and the queue before an invocation: receive and hand over.
        poll_record: The same, for each record more.
        look: How long a poll that waits may not see what has arrived. The queue server of this
            machine looks again in steps of so long; SQS answers a long poll at once: 0.
        queue_call: Of one more call to the queue, for ten messages at most: a delete, a send.
        batch: Of the worker per invocation, whatever its size.
        answered_record: Of the worker per record that finds its answer.
        run_record: Of the worker per record whose body runs, body and write left out.
        flush: Of worker, table and cache each time that outcomes are recorded and finished.
        write: The same, for each outcome.
        write_wait: Seconds for which each round of eight writes waits while nobody is busy.
        start: From the start of an environment to its first claim.
        round_trip: Of the way to the cache and back, without the cache's own time.
        claim, finish: Of the shard, per record.
        cores: Processor cores that all of it shares, the senders too; None: each container has
            its own.
    """

    poll: float
    poll_record: float
    look: float
    queue_call: float
    batch: float
    answered_record: float
    run_record: float
    flush: float
    write: float
    write_wait: float
    start: float
    round_trip: float
    claim: float
    finish: float
    cores: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers of a deployment, as `docs/settings.md` and `docs/deploy.md` name them.

    Attributes:
        first_pollers, pollers_per_second: How the event source mapping scales, up to `concurrency`.
        death_rate: Containers that die, per container and second of work.
        flush_at: Second at which the cache loses everything; None: never.
        leases: False shows a fleet without them: whoever finds no value computes it.
    """

    batch_size: int = 10
    concurrency: int = 10
    shards: int = 1
    lease_seconds: float = 10.0
    ttl_seconds: float = 600.0
    visibility_seconds: float = 60.0
    first_pollers: int = 5
    pollers_per_second: float = 5.0
    death_rate: float = 0.0
    flush_at: float | None = None
    leases: bool = True


SENT_TOGETHER: Final = 10
"""Messages of one send, one receive, one delete."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One message: when it is sent, for which id and key, and how long its body would run."""

    at: float
    id: int
    key: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A mix of jobs, drawn from a seed.

    Attributes:
        jobs: How many messages.
        per_second: Arrivals (Poisson, in tens as a producer sends them); None: all at once.
        run_seconds: Mean of the bodies' run time; the time itself is exponential, 3 times the mean
            at most.
        keys: Number of keys that are asked for by rank^-`skew`; 0: each job has a key of its own.
        keyed: Share of jobs that ask for one of the keys.
        repeated: Share of messages that repeat an earlier id.
    """

    jobs: int
    per_second: float | None = None
    run_seconds: float = 0.05
    keys: int = 0
    skew: float = 1.0
    keyed: float = 1.0
    repeated: float = 0.0

    def messages(self, seed: int) -> Iterator[Asked]:
        """Yield the messages in the order in which they are sent."""
        chance = random.Random(seed)
        weights = list(accumulate(rank**-self.skew for rank in range(1, self.keys + 1)))
        at = 0.0
        sent: list[Asked] = []
        for number in range(self.jobs):
            if self.per_second is not None and number % SENT_TOGETHER == 0:
                at += chance.gammavariate(SENT_TOGETHER, 1 / self.per_second)
            if sent and chance.random() < self.repeated:
                earlier = sent[chance.randrange(max(0, len(sent) - _RECENT), len(sent))]
                yield Asked(at, earlier.id, earlier.key, earlier.seconds)
                continue
            key = -1 - number
            if weights and chance.random() < self.keyed:
                key = _ranked(weights, chance)
            seconds = min(chance.expovariate(1 / self.run_seconds), 3 * self.run_seconds)
            asked = Asked(at, number, key, seconds)
            if self.repeated:
                sent.append(asked)
            yield asked


_RECENT: Final = 10_000
"""A repeated message repeats one of so many before it."""


def _ranked(weights: Sequence[float], chance: random.Random) -> int:
    low, high = 0, len(weights) - 1
    wanted = chance.random() * weights[-1]
    while low < high:
        middle = (low + high) // 2
        if weights[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
