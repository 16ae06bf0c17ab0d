"""One batch in a container, as PROTOCOL §4 takes it: claim, run, record, finish, settle.

    claim  |body|   |body|     |body                   |   |body|  the rest: write, finish
                                    ^ 0.25 s: what has ended is written and finished beside it

The container dies in a body: of what has ended by then, only what was sent is not done again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

    import simpy

    from tests.simulation.cache import Cache
    from tests.simulation.queue import Message, Queue
    from tests.simulation.world import Process, World

FLUSH_SECONDS: Final = 0.25
WRITES_SIDE_BY_SIDE: Final = 8
SHORTEST_DELAY_SECONDS: Final = 1.0
GROWTH_PER_DEFERRAL: Final = 0.25
LARGEST_GROWTH: Final = 8.0
_SHARE_OF_THE_LATEST_RUN: Final = 0.2


@dataclass(eq=False, slots=True)
class Container:
    """An execution environment.

    Attributes:
        used_at: Second at which it was last used.
        known: Ids that it knows as finished.
        mean_run: Seconds that it expects a body to take.
    """

    used_at: float
    known: set[int] = field(default_factory=set)
    mean_run: float = 0.0


class Batch:
    """The messages of one invocation, from received to let go.

    Args:
        dies_at: Second at which the container dies, if it is still at this batch then.
    """

    def __init__(
        self,
        world: World,
        cache: Cache,
        queue: Queue,
        container: Container,
        messages: list[Message],
        *,
        dies_at: float,
    ) -> None:
        """Have asked nothing yet."""
        self._world, self._cache, self._queue = world, cache, queue
        self._messages = messages
        self._container = container
        self._dies_at = dies_at
        self._siblings: dict[int, list[Message]] = {}
        self._held: list[Message] = []
        self._ended: list[Message] = []
        self._due_at = math.inf
        self._sending: simpy.Event | None = None

    @property
    def settled(self) -> list[Message]:
        """Return the messages whose ids have their outcome; the others were sent back."""
        return [message for message in self._messages if message not in self._held]

    def process(self) -> Generator[simpy.Event, object, bool]:
        """Take everything to its end; return whether the container survived."""
        world, costs = self._world, self._world.costs
        yield world.work(costs.batch + costs.answered_record * len(self._messages))
        asking = [
            one.asked.key for one in self._messages if one.asked.id not in self._container.known
        ]
        world.outcome.claims += len(asking)
        yield self._cache.pipeline(asking, costs.claim)
        for message in self._messages:
            self._claim(message)
        for siblings in list(self._siblings.values()):
            if self._ended and world.now >= self._due_at:
                yield from self._send(self._taken(), after=self._sending)
            if not (yield from self._run(siblings)):
                return False
        yield from self._send(self._taken(), after=self._sending)
        if self._held:
            yield world.call_queue(len(self._held))
            self._defer()
        return True

    def _claim(self, message: Message) -> None:
        """Decide as the claim's rows do: finished, served, led by a sibling, busy, acquired."""
        asked, outcome, container = message.asked, self._world.outcome, self._container
        message.held_since = None
        if asked.id in container.known or self._cache.is_finished(asked.id):
            outcome.answered += 1
            outcome.waits.append(self._world.now - message.sent_at)
        elif self._cache.has_value(asked.key):
            outcome.answered += 1
            self._ended.append(message)
        elif asked.key in self._siblings:
            self._siblings[asked.key].append(message)
        elif (wait := self._cache.acquire(asked.key, mean_run=container.mean_run)) is not None:
            message.wait = wait
            self._held.append(message)
        else:
            message.held_since = self._world.now
            self._siblings[asked.key] = [message]

    def _run(self, siblings: list[Message]) -> Generator[simpy.Event, object, bool]:
        """Run one body, and send beside it what has waited for long enough."""
        world, seconds = self._world, siblings[0].asked.seconds
        ends_at = world.now + seconds
        self._due_at = min(self._due_at, world.now + FLUSH_SECONDS)
        world.outcome.started_in[int(world.now)] += 1
        if self._ended and self._due_at < min(ends_at, self._dies_at):
            yield world.wait(self._due_at - world.now)
            beside = self._send(self._taken(), after=self._sending)
            self._sending = world.env.process(beside)
            self._due_at = world.now + FLUSH_SECONDS
        if ends_at >= self._dies_at:
            yield world.wait(self._dies_at - world.now)
            self._die()
            return False
        yield world.wait(ends_at - world.now)
        yield world.work(world.costs.run_record)
        expected = self._container.mean_run
        self._container.mean_run += _SHARE_OF_THE_LATEST_RUN * (seconds - expected)
        self._ended += siblings
        return True

    def _taken(self) -> list[Message]:
        ended, self._ended, self._due_at = self._ended, [], math.inf
        return ended

    def _send(self, ended: list[Message], *, after: simpy.Event | None) -> Process:
        """Record what has ended, then finish it in one pipeline; one such after the other."""
        world, costs, outcome = self._world, self._world.costs, self._world.outcome
        if after is not None:
            yield after
        if not ended:
            return
        outcome.finishes += len(ended)
        yield world.work(costs.flush + costs.write * len(ended))
        yield world.wait(costs.write_wait * math.ceil(len(ended) / WRITES_SIDE_BY_SIDE))
        yield self._cache.pipeline([one.asked.key for one in ended], costs.finish)
        for message in ended:
            asked = message.asked
            self._cache.finish(asked.id, asked.key, held_since=message.held_since)
            self._container.known.add(asked.id)
            outcome.bodies[asked.key] += message.held_since is not None
            outcome.waits.append(world.now - message.sent_at)

    def _defer(self) -> None:
        """Send delayed copies of those whose keys are held elsewhere."""
        chance = self._world.chance
        for message in self._held:
            growth = min(1.0 + GROWTH_PER_DEFERRAL * message.deferrals, LARGEST_GROWTH)
            delay = max(message.wait, SHORTEST_DELAY_SECONDS) * growth * chance.uniform(1.0, 1.25)
            copy = type(message)(message.asked, message.sent_at, message.deferrals + 1)
            self._world.outcome.deferrals += 1
            self._queue.put_later(copy, math.ceil(delay))

    def _die(self) -> None:
        """Leave leases that run out, and messages that come back when their visibility ends."""
        world = self._world
        world.outcome.deaths += 1
        world.outcome.lost_work += sum(message.held_since is not None for message in self._ended)
        for key in self._siblings:
            self._cache.abandon(key)
        for message in self._messages:
            returns = message.received_at + world.policy.visibility_seconds - world.now
            self._queue.put_later(message, returns)
