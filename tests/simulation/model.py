"""The fleet as processes of SimPy.

    arrivals ──> queue ──poller──> container: claim ─ run ... run ─ finish ──> delete
                   ^                   │ busy: delayed copy      │ dies: visibility ends
                   └───────────────────┴─────────────────────────┘

It follows PROTOCOL §4 in what decides time and load: one claim for a batch, bodies one after the
other, a flush at the first record boundary 0.25 s after the last one, values and finished ids that
answer, leases that outlive their dead holder, deferral for as long as the holder needs, growing and
jittered. What it leaves out: stale values, degraded mode, FIFO, the local tier's bounds.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import simpy

from tests.simulation.outcome import Outcome
from tests.simulation.servers import Servers, Unlimited

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from tests.simulation.inputs import Asked, Costs, Policy

    Process = Generator[simpy.Event, object, None]

FLUSH_SECONDS: Final = 0.25
SHORTEST_DELAY_SECONDS: Final = 1.0
GROWTH_PER_DEFERRAL: Final = 0.25
LARGEST_GROWTH: Final = 8.0
FREEZE_SECONDS: Final = 300.0
"""How long an idle container stays; AWS does not say."""


@dataclass(slots=True)
class Message:
    """A message in the queue or in flight."""

    asked: Asked
    receives: int = 0
    deferrals: int = 0
    received_at: float = 0.0
    wait: float = 0.0


@dataclass(slots=True)
class Lease:
    """Who computes a key, since when; `until` is infinite while its holder renews it."""

    since: float
    until: float = math.inf


@dataclass(eq=False, slots=True)
class Container:
    """An execution environment: what it has in its local tier, and when it was last used."""

    used_at: float
    known: set[int] = field(default_factory=set)


class Fleet:
    """One run of the model."""

    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        """Let nothing have happened, but for so many containers that are warm."""
        self._costs, self._policy = costs, policy
        self._chance = random.Random(seed)
        self._env = simpy.Environment()
        self._cores = Unlimited() if costs.cores is None else Servers(costs.cores)
        self._shards = [Servers(1) for _ in range(policy.shards)]
        self._visible: deque[Message] = deque()
        self._hungry: deque[simpy.Event] = deque()
        self._idle = [Container(0.0) for _ in range(warm)]
        self._pollers = self._busy = self._open = 0
        self._finished: set[int] = set()
        self._running: set[int] = set()
        self._values: dict[int, float] = {}
        self._leases: dict[int, Lease] = {}
        self._mean_run = 0.0
        self.outcome = Outcome()

    def run(self, messages: Iterable[Asked], *, until: float = math.inf) -> Outcome:
        """Run until every message is settled, or until that second."""
        self._env.process(self._arrive(messages))
        self._env.process(self._scale())
        if self._policy.flush_at is not None:
            self._after(self._policy.flush_at, self._flush)
        self._drained = self._env.event()
        stop = self._drained if math.isinf(until) else self._env.timeout(until) | self._drained
        self._env.run(stop)
        self.outcome.seconds = self._env.now
        self.outcome.shard_busy = [shard.busy_seconds for shard in self._shards]
        return self.outcome

    # --- the queue ----------------------------------------------------------------------------

    def _arrive(self, messages: Iterable[Asked]) -> Process:
        # One more than there are, so that a pause between arrivals is not taken for the end.
        self._open = 1
        for asked in messages:
            if asked.at > self._env.now:
                yield self._env.timeout(asked.at - self._env.now)
            self._open += 1
            self._put(Message(asked))
        self._settled(1)

    def _put(self, message: Message) -> None:
        self._visible.append(message)
        if self._hungry:
            self._hungry.popleft().succeed()

    def _after(self, seconds: float, call: object, *arguments: object) -> None:
        timeout = self._env.timeout(seconds)
        timeout.callbacks.append(lambda _: call(*arguments))  # type: ignore[operator]

    def _settled(self, count: int) -> None:
        self._open -= count
        if self._open == 0:
            self._drained.succeed()

    def _scale(self) -> Process:
        """Add pollers as the event source mapping does while messages wait."""
        policy = self._policy
        for _ in range(min(policy.first_pollers, policy.concurrency)):
            self._env.process(self._poll())
            self._pollers += 1
        while self._pollers < policy.concurrency:
            yield self._env.timeout(1.0)
            grow = min(policy.pollers_per_second, policy.concurrency - self._pollers)
            if len(self._visible) > policy.batch_size:
                for _ in range(round(grow)):
                    self._env.process(self._poll())
                    self._pollers += 1

    def _poll(self) -> Process:
        costs, policy, outcome = self._costs, self._policy, self.outcome
        while True:
            while not self._visible:
                hungry = self._env.event()
                self._hungry.append(hungry)
                yield hungry
            batch = [
                self._visible.popleft() for _ in range(min(policy.batch_size, len(self._visible)))
            ]
            for message in batch:
                message.receives += 1
                message.received_at = self._env.now
            outcome.queue_calls += 2 * math.ceil(len(batch) / 10)
            yield self._work(costs.poll + costs.poll_record * len(batch))
            yield from self._invoke(batch)

    # --- a container --------------------------------------------------------------------------

    def _work(self, seconds: float) -> simpy.Event:
        """Wait for a processor and for so many seconds of it."""
        return self._env.timeout(self._cores.serve(self._env.now, seconds) - self._env.now)

    def _container(self) -> tuple[Container, bool]:
        while self._idle:
            container = self._idle.pop()
            if self._env.now - container.used_at < FREEZE_SECONDS:
                return container, False
        return Container(self._env.now), True

    def _invoke(self, batch: list[Message]) -> Process:
        outcome, began = self.outcome, self._env.now
        container, cold = self._container()
        self._busy += 1
        outcome.invocations += 1
        outcome.most_containers = max(outcome.most_containers, self._busy + len(self._idle))
        if cold:
            outcome.starts += 1
            yield self._work(self._costs.start)
        rate = self._policy.death_rate
        dies_at = self._env.now + self._chance.expovariate(rate) if rate else math.inf
        survived = yield from self._process(batch, container, dies_at)
        outcome.billed_seconds += self._env.now - began
        self._busy -= 1
        if survived:
            container.used_at = self._env.now
            self._idle.append(container)

    def _process(
        self, batch: list[Message], container: Container, dies_at: float
    ) -> Generator[simpy.Event, object, bool]:
        """Take a batch through claim, run and finish; return whether the container survived."""
        costs, outcome = self._costs, self.outcome
        yield self._work(costs.batch + costs.answered_record * len(batch))
        known = container.known
        asking = [one for one in batch if one.asked.id not in known]
        yield self._at_the_cache([one.asked.key for one in asking], costs.claim)
        outcome.claims += len(asking)
        mine: dict[int, list[Message]] = {}
        held: list[Message] = []
        for message in batch:
            self._claim(message, mine, held)
        done: list[int] = []
        sent_at = self._env.now
        keys = list(mine)
        for position, key in enumerate(keys):
            asked = mine[key][0].asked
            if self._env.now + asked.seconds >= dies_at:
                yield self._env.timeout(max(0.0, dies_at - self._env.now))
                outcome.lost_work += len(done)
                self._die(keys[position - len(done) :], mine, held)
                return False
            outcome.started_in[int(self._env.now)] += 1
            yield self._env.timeout(asked.seconds)
            yield self._work(costs.run_record)
            self._mean_run += 0.2 * (asked.seconds - self._mean_run)
            done.append(key)
            if self._env.now - sent_at >= FLUSH_SECONDS:
                yield from self._finish(done, mine, container)
                done, sent_at = [], self._env.now
        if done:
            yield from self._finish(done, mine, container)
        if held:
            yield self._work(costs.deferred_record * len(held))
            self._defer(held)
        return True

    def _claim(self, message: Message, mine: dict[int, list[Message]], held: list[Message]) -> None:
        """Decide as the claim's rows do: finished, served, led by a sibling, busy, acquired."""
        asked, now = message.asked, self._env.now
        if asked.id in self._finished or self._values.get(asked.key, -1.0) > now:
            self.outcome.answered += 1
            self._finished.add(asked.id)
            self._settle(message)
        elif asked.key in mine:
            mine[asked.key].append(message)
        elif (wait := self._wait(asked.key, now)) is not None:
            message.wait = wait
            held.append(message)
        else:
            self._leases[asked.key] = Lease(now)
            mine[asked.key] = [message]

    def _wait(self, key: int, now: float) -> float | None:
        """Return how long the holder of a key still needs; None where nobody holds it."""
        lease = self._leases.get(key)
        if lease is None or lease.until <= now or not self._policy.leases:
            return None
        renewed = self._chance.uniform(2 / 3, 1.0) * self._policy.lease_seconds
        left = renewed if math.isinf(lease.until) else lease.until - now
        return max(left, self._mean_run - (now - lease.since))

    def _finish(
        self, keys: list[int], mine: dict[int, list[Message]], container: Container
    ) -> Process:
        yield self._at_the_cache(keys, self._costs.finish)
        self.outcome.finishes += len(keys)
        now = self._env.now
        for key in keys:
            self._leases.pop(key, None)
            self._values[key] = now + self._policy.ttl_seconds
            self.outcome.bodies[key] += 1
            for message in mine[key]:
                self._finished.add(message.asked.id)
                container.known.add(message.asked.id)
                self._settle(message)

    def _settle(self, message: Message) -> None:
        self.outcome.latencies.append(self._env.now - message.asked.at)
        self.outcome.receives[message.receives] += 1
        self._settled(1)

    def _defer(self, held: list[Message]) -> None:
        for message in held:
            growth = min(1.0 + GROWTH_PER_DEFERRAL * message.deferrals, LARGEST_GROWTH)
            delay = max(message.wait, SHORTEST_DELAY_SECONDS) * growth
            delay = math.ceil(delay * self._chance.uniform(1.0, 1.25))
            copy = Message(message.asked, message.receives, message.deferrals + 1)
            self.outcome.deferrals += 1
            self.outcome.queue_calls += 1
            self._after(delay, self._put, copy)

    def _die(self, keys: list[int], mine: dict[int, list[Message]], held: list[Message]) -> None:
        now = self._env.now
        self.outcome.deaths += 1
        for key in keys:
            left = self._chance.uniform(2 / 3, 1.0) * self._policy.lease_seconds
            self._leases[key] = Lease(now, now + left)
        back = [message for key in keys for message in mine[key]] + held
        for message in back:
            returns = message.received_at + self._policy.visibility_seconds - now
            self._after(max(0.0, returns), self._put, message)

    # --- the cache ----------------------------------------------------------------------------

    def _at_the_cache(self, keys: list[int], seconds: float) -> simpy.Event:
        """Wait for one pipeline: the way, and the slowest of the shards that it asks."""
        if not keys:
            return self._env.timeout(0.0)
        arrives = self._env.now + self._costs.round_trip / 2
        per_shard: dict[int, float] = {}
        for key in keys:
            shard = hash(key * 2_654_435_761) % len(self._shards)
            per_shard[shard] = per_shard.get(shard, 0.0) + seconds
        done = max(self._shards[shard].serve(arrives, busy) for shard, busy in per_shard.items())
        return self._env.timeout(done + self._costs.round_trip / 2 - self._env.now)

    def _flush(self) -> None:
        """Lose everything that the cache holds: ids, values, leases."""
        self._finished.clear()
        self._values.clear()
        self._leases.clear()
