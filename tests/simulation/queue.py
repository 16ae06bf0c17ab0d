"""The queue: what is visible in it, and how those who wait for it find out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import simpy

    from tests.simulation.inputs import Asked
    from tests.simulation.world import Process, World


@dataclass(eq=False, slots=True)
class Message:
    """A message in the queue or in flight.

    Attributes:
        sent_at: Second at which the queue had the original.
        received_at: Second of the last receive.
        held_since: Second at which the batch that has it now took the lease for its body; None:
            it has no body of its own.
        wait: Seconds for which it should stay away, where another holds its key.
    """

    asked: Asked
    sent_at: float
    deferrals: int = 0
    receives: int = 0
    received_at: float = 0.0
    held_since: float | None = None
    wait: float = 0.0


class Queue:
    """Messages that are visible, in their order.

    Its polls wait as long polls do. Where `look` is 0 the first of those who wait is told of what
    arrives; else each of them looks again after so long:

        poll A   ┤···┤···┤···x     looks at 0.3: nothing, at 0.4: takes up to ten
        poll B     ┤···┤···┤···┤   looks at 0.45: whatever is left
        arrives            ^ 0.33
    """

    def __init__(self, world: World) -> None:
        """Hold nothing."""
        self._world = world
        self._visible: deque[Message] = deque()
        self._hungry: deque[simpy.Event] = deque()

    def __len__(self) -> int:
        """Return how many messages are visible."""
        return len(self._visible)

    def put(self, message: Message) -> None:
        """Make a message visible."""
        self._visible.append(message)
        if self._hungry:
            self._hungry.popleft().succeed()

    def put_later(self, message: Message, seconds: float) -> None:
        """Make a message visible after so long."""
        self._world.after(seconds, lambda: self.put(message))

    def arrival(self) -> Process:
        """Wait until this poll sees a message."""
        look = self._world.costs.look
        while not self._visible:
            if look:
                yield self._world.wait(look)
            else:
                hungry = self._world.env.event()
                self._hungry.append(hungry)
                yield hungry

    def receive(self) -> list[Message]:
        """Take a batch of what is visible."""
        world = self._world
        size = min(world.policy.batch_size, len(self._visible))
        batch = [self._visible.popleft() for _ in range(size)]
        for message in batch:
            message.receives += 1
            message.received_at = world.now
        return batch
