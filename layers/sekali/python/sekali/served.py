"""Take apart a value that the shared tier served, and keep it in the local one.

Whoever asks, alone or for many keys, by the short way or the long one, takes what it is given here:
checked, decoded, aged by the server's own clock, and kept no longer than what is left of its life,
counted from before it was asked for. Whether its tags are current is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sekali import codec
from sekali.calls import Old, Result
from sekali.errors import ValueUnreadable
from sekali.keys import CACHE_NAME
from sekali.lifetimes import fresh_seconds
from sekali.packing import PLAIN
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekali.calls import Tiers
    from sekali.clock import Moment
    from sekali.packing import Packing


class Taken(NamedTuple):
    """A value that was served: `due_seconds` from now somebody should refresh it."""

    value: Any  # Any: whatever is cached
    fence: int
    age_seconds: float
    left_seconds: float
    due_seconds: float
    epochs: Mapping[str, str]

    @property
    def old(self) -> Old:
        """Return it as a value to fall back on."""
        return Old(self.value, self.fence, self.age_seconds, self.left_seconds, "shared")

    @property
    def result(self) -> Result[Any]:  # Any: as above
        """Return it as the answer to a call."""
        return Result(self.value, "shared", self.age_seconds)


def take(
    tiers: Tiers,
    scoped: str,
    stored: bytes,
    *,
    remaining_seconds: float,
    sent: Moment,
    drops: int,
    packing: Packing,
    most_seconds: float | None,
) -> Taken | None:
    """Keep a served value and return it, or None if it is unreadable, which is told.

    Args:
        tiers: the tiers of this invocation.
        scoped: the key with its scope.
        stored: what the shared tier holds.
        remaining_seconds: what was left of its life there.
        sent: the moment before it was asked for.
        drops: how often the local tier had dropped something by then: it is not kept if it dropped
            anything since.
        packing: how the caller reads it.
        most_seconds: the longest that the caller wants it kept here, None for as long as there.
    """
    try:
        fence, body, _, ttl_seconds, epochs, soft_seconds, stale_seconds, load_seconds, packed = (
            codec.unfold(stored, key=scoped)
        )
        if packing is PLAIN and not packed:
            value = codec.decode(body)
        else:
            body = packing.unpack(body, packed)
            value = packing.decode(body)
    except ValueUnreadable as error:
        tiers.emit(events.UnreadableValue(name=CACHE_NAME, reason=error.reason))
        return None
    kept_stale_seconds = stale_seconds
    left = kept_seconds = min(remaining_seconds - stale_seconds, ttl_seconds)
    age = ttl_seconds - left
    due = fresh_seconds(
        left_seconds=left,
        age_seconds=age,
        soft_seconds=soft_seconds,
        load_seconds=load_seconds,
        uniform=tiers.uniform,
    )
    if most_seconds is not None:
        kept_seconds = min(left, most_seconds)
        kept_stale_seconds = min(stale_seconds, most_seconds)
    life = kept_seconds + kept_stale_seconds
    if life > 0 and most_seconds != 0:
        tiers.local.keep(
            scoped,
            value,
            body,
            packing.decode,
            sent,
            fresh_seconds=due,
            ttl_seconds=max(kept_seconds, 0.0),
            kept_seconds=life,
            age_seconds=age,
            fence=fence,
            epochs=epochs,
            drops=drops,
        )
    return Taken(value, fence, age, left, due, epochs)
