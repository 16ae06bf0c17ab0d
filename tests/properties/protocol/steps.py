"""Name what happens in a world, step by step, and the names and terms under which it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sekali.answers import Ask, End, Lease, Outcome, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.scripts import Command
    from tests.properties.protocol.memory import Memory, State

NAME = "job"
# Two keys of one bucket, one of another, three ids for each.
IDS = {
    "k1": ("k1-a", "k1-b", "k1-c"),
    "k2": ("k2-a", "k2-b", "k2-c"),
    "k4": ("k4-a", "k4-b", "k4-c"),
}
BUCKETS = 2
HOLDERS = ("ann", "ben", "cid")
TERMS = Terms(
    lease_seconds=60.0,
    record_ttl_seconds=1_000.0,
    max_attempts=3,
    cooling_base_seconds=20.0,
    cooling_cap_seconds=50.0,
    born_ttl_seconds=2_000.0,
    longest_invocation_seconds=300.0,
)
PATIENT_TERMS = replace(TERMS, max_attempts=5)
VALUE_TTL_SECONDS = 500.0
ENDS: tuple[Outcome, ...] = ("D", "S", "X", "T", "W", "U")
A_TICK_SECONDS = 0.0002


class Deviation(AssertionError):
    """The scripts and the tables disagree."""


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that happens: commands, how their reply is read, what the model says to it."""

    label: str
    commands: tuple[Command, ...]
    predict: Callable[[Memory, int], object]
    read: Callable[[Any], object] = lambda _: None  # Any: a reply of the client
    about: Ask | Lease | End | str | None = None
    lost: frozenset[str] = frozenset()
    rewound: bool = False
    revokes: Lease | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What one op answered, with the real state before and after it and the server's clock."""

    op: Op
    answer: Any  # Any: as many types as ops
    before: State
    after: State
    now_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A replica that got no further than this."""

    state: State
    dumps: Mapping[str, bytes]
