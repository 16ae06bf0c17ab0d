"""The shared cache: finished ids, values and leases, on shards that take one request at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.simulation.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Iterable

    import simpy

    from tests.simulation.world import World

BEATS_PER_LEASE: Final = 3.0
EARLIEST_BEAT: Final = 0.8
"""A lease is renewed after 0.8 to 1 times a third of its length, as `heartbeat.py` does."""


@dataclass(slots=True)
class Lease:
    """Who computes a key, since when; `until` is infinite while its holder renews it."""

    since: float
    until: float = math.inf


class Cache:
    """What all containers share."""

    def __init__(self, world: World) -> None:
        """Hold nothing."""
        self._world = world
        self._shards = [Servers(1) for _ in range(world.policy.shards)]
        self._finished: set[int] = set()
        self._values: dict[int, float] = {}
        self._leases: dict[int, Lease] = {}

    @property
    def busy_seconds(self) -> list[float]:
        """Return for how long each shard was at work."""
        return [shard.busy_seconds for shard in self._shards]

    def pipeline(self, keys: Iterable[int], seconds: float) -> simpy.Event:
        """Wait for one pipeline: the way, and the slowest of the shards that it asks."""
        world, half = self._world, self._world.costs.round_trip / 2
        per_shard: dict[int, float] = {}
        for key in keys:
            shard = hash(key * 2_654_435_761) % len(self._shards)
            per_shard[shard] = per_shard.get(shard, 0.0) + seconds
        if not per_shard:
            return world.wait(0.0)
        arrives = world.now + half
        done = max(self._shards[shard].serve(arrives, busy) for shard, busy in per_shard.items())
        return world.wait(done + half - world.now)

    def is_finished(self, job_id: int) -> bool:
        """Tell whether a job has its outcome."""
        return job_id in self._finished

    def has_value(self, key: int) -> bool:
        """Tell whether a key has a value that has not run out."""
        return self._values.get(key, -1.0) > self._world.now

    def acquire(self, key: int, *, mean_run: float) -> float | None:
        """Take the lease of a key; or return the seconds that its holder still needs."""
        now, lease = self._world.now, self._leases.get(key)
        if lease is not None and lease.until > now and self._world.policy.leases:
            age = now - lease.since
            left = self._left(age) if math.isinf(lease.until) else lease.until - now
            return max(left, mean_run - age)
        self._leases[key] = Lease(now)
        return None

    def finish(self, job_id: int, key: int, *, held_since: float | None) -> None:
        """Settle a job; fill its key and release it, unless somebody else holds it by now.

        `held_since` is None for a job that did not compute.
        """
        self._finished.add(job_id)
        if held_since is None:
            return
        lease = self._leases.get(key)
        mine = lease is None or lease.since == held_since
        if mine or not self._world.policy.leases:
            self._leases.pop(key, None)
            self._values[key] = self._world.now + self._world.policy.ttl_seconds

    def abandon(self, key: int) -> None:
        """Let a lease run out whose holder is dead."""
        lease = self._leases.get(key)
        if lease is not None:
            lease.until = self._world.now + self._left(self._world.now - lease.since)

    def flush(self) -> None:
        """Lose everything: ids, values, leases."""
        self._finished.clear()
        self._values.clear()
        self._leases.clear()

    def _left(self, age: float) -> float:
        """Return what is left of a lease that is renewed, so long after it was taken."""
        length, renewed = self._world.policy.lease_seconds, 0.0
        while True:
            pause = length / BEATS_PER_LEASE * self._world.chance.uniform(EARLIEST_BEAT, 1.0)
            if renewed + pause > age:
                return length - (age - renewed)
            renewed += pause
