"""Name what the ways through the tiers ask for, and the parts that they share.

A way is a generator: it yields a `Flush`, a `Pause` or a `Run` and is sent the outcome, or is
thrown the error. Who does the steps is no concern of it (see `driving`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from sekali.answers import Busy
from sekali.calls import Call, ChosenMark, Level, Old, Result, Tiers
from sekali.errors import LoadTimeout, SharedUnavailable
from sekali.keys import CACHE_NAME
from sekali.lifetimes import QUIET_SECONDS, Loaded
from sekali.light_dataclass import dataclass
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sekali.answers import ClaimAnswer, Lease
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
    moves = coherence.moves()
    replies = yield Flush([*before, *commands], operation)
    skip = len(before)
    marks: dict[str, str] = {}
    for tag, reply in zip(asked, replies[skip - len(asked) : skip], strict=True):
        if not isinstance(reply, Exception):
            marks[tag] = reply.decode()
            coherence.learn(tag, marks[tag], since=moves)

    def apply() -> None:
        if glance is not None:
            coherence.apply(glance, replies[0])

    return replies[skip:], apply, marks


def asked_tags(tiers: Tiers, level: Level, epochs: Mapping[str, str]) -> list[str]:
    """Return the tags whose mark has to be read before a value that carries these is served.

    `strict` takes nobody's word for a mark but the server's, and none from before the call.
    """
    return list(epochs) if level == "strict" else tiers.coherence.doubtful(epochs)


def nothing() -> None:
    """Stand for the tail where it is not due."""


def vouched(tiers: Tiers, call: Call, seen: Seen, *, due: bool) -> bool:
    """Tell whether the level lets a local copy be used without a question."""
    if call.level == "strict":
        return False
    # What was loaded in this very invocation is younger than its beginning.
    return not due or seen.held_seconds + seen.age_seconds < tiers.invocation.elapsed_seconds()


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


def may_serve_stale(call: Call, old: Old) -> bool:
    """Tell whether the call allows an old value of this age where there is no better one."""
    allowed = call.lifetime.stale_seconds
    return allowed > 0 and old.left_seconds > -allowed


def may_fall_back(call: Call, old: Old) -> bool:
    """Tell whether an old value may be served: because it is fresh after all, or stale."""
    return (old.trusted and old.left_seconds > 0) or may_serve_stale(call, old)


def instead(tiers: Tiers, call: Call, old: Old | None, answer: ClaimAnswer) -> Old | None:
    """Return the value to serve while another holder computes the key, if there is one.

    That is a fresh one that was due; or a stale one where the call allows it and the key cools,
    because its load has just failed: nobody tries it for so long, so nobody waits for it either.
    This container does not ask again meanwhile.
    """
    if old is None:
        return None
    if old.trusted and old.left_seconds > 0:
        tiers.local.hush(call.scoped, QUIET_SECONDS)
        return old
    if isinstance(answer, Busy) and answer.cooling and may_serve_stale(call, old):
        tiers.local.hush(call.scoped, answer.remaining_seconds)
        return old
    return None


def answer_of(tiers: Tiers, call: Call, old: Old) -> Result[Any]:
    """Serve an old value, which is told."""
    source = old.source if old.trusted and old.left_seconds > 0 else "stale"
    tiers.emit(events.CacheRead(source=source, name=CACHE_NAME, key=call.key))
    return Result(old.value, source, old.age_seconds)


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
