"""The fleet as processes of SimPy.

    arrivals ──> queue ──poller──> container: claim ─ run ... run ─ finish ──> delete
                   ^                   │ busy: delayed copy      │ dies: visibility ends
                   └───────────────────┴─────────────────────────┘

It follows PROTOCOL §4 in what decides time and load: one claim for a batch, bodies one after the
other, what has ended recorded after 0.25 s or at the batch's end, values and finished ids that
answer, leases that outlive their dead holder, deferral for as long as the holder's lease lasts,
growing and jittered; a message is gone when its whole batch is. What it leaves out: stale values,
degraded mode, FIFO, the local tier's bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tests.simulation.batch import Batch, Container
from tests.simulation.cache import Cache
from tests.simulation.inputs import SENT_TOGETHER
from tests.simulation.queue import Message, Queue
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.inputs import Asked, Costs, Policy
    from tests.simulation.outcome import Outcome
    from tests.simulation.world import Process

FREEZE_SECONDS: Final = 300.0
"""How long an idle container stays; AWS does not say."""


class Fleet:
    """One run of the model."""

    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        """Let nothing have happened, but for so many containers that are warm."""
        self._world = World(costs, policy, seed=seed)
        self._cache = Cache(self._world)
        self._queue = Queue(self._world)
        self._idle = [Container(0.0) for _ in range(warm)]
        self._pollers = self._busy = self._open = 0
        self._drained = self._world.env.event()

    def run(self, messages: Iterable[Asked], *, until: float = math.inf) -> Outcome:
        """Run until every message is settled, or until that second."""
        world = self._world
        world.env.process(self._arrive(messages))
        world.env.process(self._scale())
        if world.policy.flush_at is not None:
            world.after(world.policy.flush_at, self._cache.flush)
        stop = self._drained if math.isinf(until) else world.env.timeout(until) | self._drained
        world.env.run(stop)
        world.outcome.seconds = world.now
        world.outcome.shard_busy = self._cache.busy_seconds
        return world.outcome

    def _arrive(self, messages: Iterable[Asked]) -> Process:
        """Put messages into the queue at their seconds; locally, sending takes its time too."""
        world = self._world
        # One more than there are, so that a pause between arrivals is not taken for the end.
        self._open = 1
        for number, asked in enumerate(messages):
            if asked.at > world.now:
                yield world.wait(asked.at - world.now)
            if world.costs.cores is not None and number % SENT_TOGETHER == 0:
                yield world.work(world.costs.queue_call)
            self._open += 1
            self._queue.put(Message(asked, world.now))
        self._close(1)

    def _close(self, count: int) -> None:
        self._open -= count
        if self._open == 0:
            self._drained.succeed()

    def _scale(self) -> Process:
        """Add pollers as the event source mapping does while messages wait."""
        policy = self._world.policy
        for _ in range(min(policy.first_pollers, policy.concurrency)):
            self._world.env.process(self._poll())
            self._pollers += 1
        while self._pollers < policy.concurrency:
            yield self._world.wait(1.0)
            grow = min(policy.pollers_per_second, policy.concurrency - self._pollers)
            if len(self._queue) > policy.batch_size:
                for _ in range(round(grow)):
                    self._world.env.process(self._poll())
                    self._pollers += 1

    def _poll(self) -> Process:
        world, costs = self._world, self._world.costs
        # Each poll began at a second of its own.
        yield world.wait(world.chance.uniform(0.0, costs.look))
        while True:
            yield from self._queue.arrival()
            batch = self._queue.receive()
            world.outcome.queue_calls += math.ceil(len(batch) / SENT_TOGETHER)
            yield world.work(costs.poll + costs.poll_record * len(batch))
            yield from self._invoke(batch)

    def _container(self) -> tuple[Container, bool]:
        while self._idle:
            container = self._idle.pop()
            if self._world.now - container.used_at < FREEZE_SECONDS:
                return container, False
        return Container(self._world.now), True

    def _invoke(self, messages: list[Message]) -> Process:
        world, outcome, began = self._world, self._world.outcome, self._world.now
        container, cold = self._container()
        self._busy += 1
        outcome.invocations += 1
        outcome.most_busy = max(outcome.most_busy, self._busy)
        outcome.most_containers = max(outcome.most_containers, self._busy + len(self._idle))
        if cold:
            outcome.starts += 1
            yield world.work(world.costs.start)
        rate = world.policy.death_rate
        batch = Batch(
            world,
            self._cache,
            self._queue,
            container,
            messages,
            dies_at=world.now + world.chance.expovariate(rate) if rate else math.inf,
        )
        survived = yield from batch.process()
        outcome.billed_seconds += world.now - began
        self._busy -= 1
        if survived:
            container.used_at = world.now
            self._idle.append(container)
            yield world.call_queue(len(messages))
            self._settle(batch.settled)

    def _settle(self, messages: list[Message]) -> None:
        outcome, now = self._world.outcome, self._world.now
        for message in messages:
            latency, second = now - message.sent_at, int(message.sent_at)
            outcome.latencies.append(latency)
            longest = outcome.longest_sent_in.get(second, 0.0)
            outcome.longest_sent_in[second] = max(latency, longest)
            outcome.receives[message.receives] += 1
            outcome.deferred[message.deferrals] += 1
        self._close(len(messages))
