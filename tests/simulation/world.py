"""What everything in the model stands on: time, chance, processors, and what is counted."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import simpy

from tests.simulation.inputs import SENT_TOGETHER
from tests.simulation.outcome import Outcome
from tests.simulation.servers import Servers, Unlimited

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.simulation.inputs import Costs, Policy

    Process = Generator[simpy.Event, object, None]


class World:
    """The clock of one run, and the processors on which it happens."""

    def __init__(self, costs: Costs, policy: Policy, *, seed: int) -> None:
        """Begin at second 0."""
        self.costs, self.policy = costs, policy
        self.chance = random.Random(seed)
        self.env = simpy.Environment()
        self.outcome = Outcome()
        self._cores = Unlimited() if costs.cores is None else Servers(costs.cores)

    @property
    def now(self) -> float:
        """Return the second of the run."""
        return self.env.now

    def wait(self, seconds: float) -> simpy.Event:
        """Wait for so long; no time at all, if it is over."""
        return self.env.timeout(max(0.0, seconds))

    def work(self, seconds: float) -> simpy.Event:
        """Wait for a processor and for so many seconds of it."""
        return self.env.timeout(self._cores.serve(self.now, seconds) - self.now)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something so much later."""
        self.wait(seconds).callbacks.append(lambda _: call())

    def call_queue(self, messages: int) -> simpy.Event:
        """Send or delete so many messages."""
        calls = math.ceil(messages / SENT_TOGETHER)
        self.outcome.queue_calls += calls
        return self.work(calls * self.costs.queue_call)
