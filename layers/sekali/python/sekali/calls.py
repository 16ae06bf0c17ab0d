"""Name what a call asks of the tiers, what they work with, and what they answer.

`Call` and `Old` are made for every look-up, so they are tuples: a frozen dataclass of ten fields
takes two microseconds more to make, a twentieth of a hit in the shared tier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from sekali.packing import PLAIN, Packing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import Terms
    from sekali.clock import Clock
    from sekali.coherence import Coherence
    from sekali.invocation import Invocation
    from sekali.lifetimes import Lifetime, Uniform
    from sekali.local import Local
    from sekali.telemetry import events

T = TypeVar("T")

Source = Literal["local", "shared", "loaded", "stale"]
Level = Literal["per_invocation", "strict", "ttl"]


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """Hold a value, where it came from, and how long ago it was computed, in seconds."""

    value: T
    source: Source
    age_seconds: float


class Call(NamedTuple):
    """One call's options."""

    key: str
    scoped: str
    loader: Callable[[], Any]  # Any: whatever the caller caches
    lifetime: Lifetime
    tags: tuple[str, ...] = ()
    packing: Packing = PLAIN
    level: Level = "per_invocation"
    wait_seconds: float | None = None
    on_timeout: Literal["load", "raise"] = "load"
    refresh: Literal["now", "end"] = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """What every passage of one invocation works with."""

    local: Local
    coherence: Coherence
    invocation: Invocation
    terms: Terms
    clock: Clock
    emit: Callable[[events.Event], None]
    uniform: Uniform


class Old(NamedTuple):
    """A value that is not fresh: what to fall back on. `trusted` says that the level vouches."""

    value: Any  # Any: whatever is cached
    fence: int
    age_seconds: float
    left_seconds: float
    source: Source
    trusted: bool = True
