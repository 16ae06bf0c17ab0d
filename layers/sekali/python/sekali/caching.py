"""Reach the cache from anywhere: inside a batch, in another handler, in a process that stays.

::

    with sekali.cache(context) as cache:        # a handler that takes no batches
        cache.invalidate(tags=["flights:2013-01"])

Inside a batch `job.cache` and `worker.cache` are the same tiers. A process that keeps running and
has no invocations gets new ones every second, so that it sees what was invalidated a second later
at the latest.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sekali import warm
from sekali.answers import LONGEST_INVOCATION_SECONDS
from sekali.invocation import CURRENT
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.settings import Settings
    from sekali.telemetry.events import Hook
    from sekali.tiered import Tiered

OUTSIDE_SECONDS: Final = 1.0


@contextmanager
def cache(context: Any = None, *, service: str = "cache") -> Iterator[Tiered]:
    """Yield both cache tiers for the block, which counts as one invocation.

    Args:
        context: Lambda's context, which bounds the time; None is fifteen minutes.
        service: dimension of the metrics, unless SEKALI_SERVICE says otherwise.

    Raises:
        SettingInvalid: the environment cannot work.
    """

    def observe(settings: Settings) -> Sequence[Hook]:
        from sekali.telemetry.observing import observers

        return observers(settings, service)

    here = warm.container(observe)
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    invocation = here.invocation(
        owner=warm.owner_name(str(getattr(context, "aws_request_id", "-"))),
        remaining_seconds=LONGEST_INVOCATION_SECONDS if remaining is None else remaining() / 1000,
    )
    current = CURRENT.set(invocation)
    tiers = here.tiered(invocation)
    try:
        yield tiers
        tiers.end()
    finally:
        here.cache = None
        CURRENT.reset(current)
        invocation.heartbeat.stop()
        left = max(invocation.remaining_seconds(), 0.0)
        here.emit(events.InvocationEnded(remaining_seconds=left))


def current_cache(observe: Callable[[Settings], Sequence[Hook]] | None = None) -> Tiered:
    """Return the tiers of the invocation under way, or of the present second."""
    here = warm.container(observe)
    tiers = here.cache
    if tiers is not None and not tiers.is_over(OUTSIDE_SECONDS):
        return tiers
    invocation = here.invocation(
        owner=warm.owner_name("-"), remaining_seconds=LONGEST_INVOCATION_SECONDS
    )
    return here.tiered(invocation, outside=True)
