"""Name what the ways through the tiers ask for, and the parts that they share.

A way is a generator: it yields a `Flush`, a `Pause` or a `Run` and is sent the outcome, or is
thrown the error. Who does the steps is no concern of it (see `driving`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from sekali.calls import Call, ChosenMark, Old, Result, Tiers
from sekali.errors import LoadTimeout, SharedUnavailable
from sekali.keys import CACHE_NAME
from sekali.lifetimes import Loaded
from sekali.light_dataclass import dataclass
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sekali.answers import Lease
    from sekali.entries import Seen
    from sekali.scripts import Command

WAIT_SHARE: Final = 0.5
"""Part of the invocation's remaining time that a wait may use, unless the call says otherwise."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Send the commands in one pipeline; answered with the replies, or SharedUnavailable."""

    commands: Sequence[Command]
    operation: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Let `seconds` pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """Call the loader; answered with what it returned, or what it raised.

    `gated`: one of few. `lease`: what the load is done under, for `load_lease`. `key`: what is
    loaded, for whoever draws it.
    """

    loader: Callable[[], Any]  # Any: whatever the caller caches
    gated: bool = False
    lease: Lease | None = None
    key: str = ""


Step = Flush | Pause | Run
Steps = Generator[Step, Any, Result[Any]]  # Any: replies, and whatever the caller caches


def bound_seconds(call: Call, tiers: Tiers) -> float:
    """Return how long this call may wait for somebody else, in seconds."""
    remaining = max(tiers.invocation.remaining_seconds(), 0.0)
    share = remaining * WAIT_SHARE
    return share if call.wait_seconds is None else min(call.wait_seconds, remaining)


def flush_with_tail(
    tiers: Tiers,
    commands: Sequence[Command],
    *,
    due: bool,
    tags: Collection[str] = (),
    operation: str,
) -> Generator[Step, Any, tuple[list[Any], Callable[[], None], dict[str, str]]]:
    """Flush commands behind the tail, if it is due, and the marks of `tags`.

    Returns the replies, what applies the tail once their values are kept, and the marks that were
    read. They are learnt already, though a gap in the tail makes the container forget them again:
    whoever loads under them has them compared once more beside its finish.
    """
    coherence = tiers.coherence
    if not due and not tags:
        return (yield Flush(commands, operation)), nothing, {}
    glance = coherence.glance() if due else None
    asked = {tag: coherence.ask_mark(tag)[0] for tag in tags}
    before = [glance.command] if glance else []
    before += asked.values()
    replies = yield Flush([*before, *commands], operation)
    skip = len(before)
    marks: dict[str, str] = {}
    for tag, reply in zip(asked, replies[skip - len(asked) : skip], strict=True):
        if not isinstance(reply, Exception):
            marks[tag] = reply.decode()
            coherence.learn(tag, marks[tag])

    def apply() -> None:
        if glance is not None:
            coherence.apply(glance, replies[0])

    return replies[skip:], apply, marks


def nothing() -> None:
    """Stand for the tail where it is not due."""


def old_of(seen: Seen, *, trusted: bool) -> Old:
    """Return what is local as a value to fall back on."""
    return Old(
        value=seen.value,
        fence=seen.fence,
        age_seconds=seen.age_seconds,
        left_seconds=seen.left_seconds,
        source="local",
        trusted=trusted,
    )


def chosen_marks(tiers: Tiers, tags: Sequence[str]) -> Generator[Step, Any, dict[str, ChosenMark]]:
    """Read the marks of tags that a loader chose, without learning them yet.

    How long each was left alone is asked before it, in the same pipeline and of the same server.
    """
    if not tags:
        return {}
    coherence = tiers.coherence
    commands: list[Command] = []
    offered: dict[str, str] = {}
    for tag in tags:
        command, offered[tag] = coherence.ask_mark(tag)
        commands += [coherence.ask_idle(tag), command]
    replies = yield Flush(commands, "marks")
    if any(isinstance(reply, Exception) for reply in replies):
        raise SharedUnavailable("marks", "refused")
    return {
        tag: ChosenMark(mark.decode(), offered[tag], coherence.idle_seconds(idle))
        for tag, idle, mark in zip(tags, replies[::2], replies[1::2], strict=True)
    }


def at_bound(tiers: Tiers, call: Call, old: Old | None) -> Steps:
    """End a wait by policy: an old value, a load without the lease, or the error."""
    tiers.emit(events.LoadTimedOut(name=CACHE_NAME, key=call.key, policy=call.on_timeout))
    if old is not None:
        tiers.emit(events.CacheRead(source="stale", name=CACHE_NAME, key=call.key))
        return Result(old.value, "stale", old.age_seconds)
    if call.on_timeout == "raise":
        raise LoadTimeout(call.key, bound_seconds(call, tiers))
    returned = yield Run(call.loader, key=call.key)
    value = returned.value if isinstance(returned, Loaded) else returned
    return Result(value, "loaded", 0.0)
