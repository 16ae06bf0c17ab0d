"""Containers that share one Valkey, each with a clock, a local tier and invocations of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sekali import warm
from sekali.settings import Settings
from sekali.testing import FakeLoader, FrozenClock

if TYPE_CHECKING:
    from sekali.clock import Clock
    from sekali.telemetry.events import Event
    from sekali.tiered import Tiered

INVOCATION_SECONDS = 30.0


@dataclass
class Box:
    """One container: `invoke` begins its next invocation and returns the cache of it."""

    container: warm.Container
    clock: Any  # Any: a FrozenClock, or the machine's
    events: list[Event] = field(default_factory=list)

    def invoke(self, seconds: float = INVOCATION_SECONDS) -> Tiered:
        """Begin an invocation; time passes on its clock where it has to wait."""
        invocation = self.container.invocation(owner="test", remaining_seconds=seconds)
        if isinstance(self.clock, FrozenClock):
            invocation.pause = self.clock.sleep
        return self.container.tiered(invocation)

    @property
    def flushes(self) -> int:
        """Return how often this container waited for the shared cache."""
        return self.container.shared.flushes

    def told(self, kind: type[Event]) -> list[Any]:  # Any: events of that kind
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


class Fleet:
    """Make containers of one namespace."""

    def __init__(self, url: str, **settings: Any) -> None:  # Any: fields of Settings
        """Take the address of their Valkey."""
        # Any: fields of Settings. A busy machine may stop a server for longer than half a second.
        about: dict[str, Any] = {"cache_timeout_seconds": 10, "cache_connect_timeout_seconds": 10}
        about |= {"cache_url": url, "durable_mode": "redis", "heartbeat": False, **settings}
        self.settings = Settings(**about)

    def warm_scripts(self) -> None:
        """Let the server know every script: one that it does not know costs a flush more."""
        box = self.box()
        box.invoke().get_or_load("warm", loader(1), tags=["warm"])
        box.invoke().invalidate(["warm"], tags=["warm"])
        box.invoke().get("warm")

    def box(self, clock: Clock | None = None, **options: Any) -> Box:  # Any: as in Container
        """Return a container as after a cold start; its clock stands still unless one is given."""
        clock = clock or FrozenClock()
        told: list[Event] = []
        container = warm.Container(self.settings, emit=told.append, clock=clock, **options)
        return Box(container, clock, told)


loader = FakeLoader
