"""Execution environments with both cache tiers, each on a clock that the test moves.

```python
clock = FrozenClock()
with CacheContainer(url, clock=clock) as one, CacheContainer(url) as other:
    with one.invocation() as cache:             # @cached, sekali.cache and worker.cache use it too
        cache.get_or_load("k", load, ttl_seconds=60)
    clock.freeze(600)                           # one is frozen for ten minutes
    with other.invocation() as cache:
        cache.invalidate(["k"])
    with one.invocation(seconds=3) as cache:    # thawed, with three seconds left
        cache.get_or_load("k", load)
```

The shared tier is a genuine server, because its steps are scripts that run in it; containers of one
namespace share it. What a container has kept lasts until its block ends. Where a call has to wait,
a `FrozenClock` moves and nobody sleeps.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from sekali import warm
from sekali.caching import cache
from sekali.settings import Settings
from sekali.telemetry.hooks import Hooks
from sekali.testing.clock import FrozenClock
from sekali.testing.events import LambdaContext

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from sekali.clock import Clock
    from sekali.invocation import Invocation
    from sekali.telemetry.events import Event
    from sekali.tiered import Tiered


class ContainerOnClock(warm.Container):
    """A container whose waits move its own clock."""

    def invocation(self, *, owner: str, remaining_seconds: float) -> Invocation:
        """Begin one, as the container does."""
        made = super().invocation(owner=owner, remaining_seconds=remaining_seconds)
        if isinstance(self.clock, FrozenClock):
            made.pause = self.clock.sleep
        return made


class CacheContainer:
    """One execution environment of a function, as after a cold start.

    `events` lists what the library told its telemetry, in order.
    """

    def __init__(
        self,
        cache_url: str,
        *,
        clock: Clock | None = None,
        **settings: Any,  # Any: fields of Settings
    ) -> None:
        """Take the server's address, and any setting; nothing is read from the environment.

        Args:
            cache_url: of the shared tier, or of a `Proxy` before it.
            clock: whose time it is; None is a `FrozenClock` of its own.
            settings: as in `Settings`; containers share values where `namespace` is the same.
        """
        about: dict[str, Any] = {"durable_mode": "redis", "heartbeat": False, **settings}
        self.clock: Clock = clock or FrozenClock()
        self.events: list[Event] = []
        self._container = ContainerOnClock(
            Settings(cache_url=cache_url, **about),
            emit=Hooks(self.events.append),
            clock=self.clock,
        )

    def __enter__(self) -> Self:
        """Connect nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of its connections."""
        self._container.close()

    @contextmanager
    def invocation(self, seconds: float = 30.0) -> Iterator[Tiered]:
        """Give the cache of one invocation that may last for `seconds`.

        Within the block this is the process's container: `@cached`, `sekali.cache`, `worker.cache`
        and `sekali.lease` use it.
        """
        with warm.inside(self._container), cache(LambdaContext(remaining_seconds=seconds)) as tiers:
            yield tiers

    @property
    def round_trips(self) -> int:
        """Return how often it has waited for the shared tier."""
        return self._container.shared.flushes

    @property
    def local_entries(self) -> int:
        """Return how many values its local tier holds."""
        return self._container.local.stats().entries
