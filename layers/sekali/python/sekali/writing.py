"""Change what is cached: set a value, invalidate keys and tags.

An invalidation goes to the keys and the tags' marks first and to the log second, in two flushes,
because shards answer in any order: a container that finds the entry must not find the old value any
more. It is repeated within its time, each part of it as often as needed; if it could not be brought
to its end, the caller is told, and has to do the same again.

    t=0   A loads key k                   it read the database before the change
    t=1   B changes the database
    t=2   B invalidates k                 value gone, A's fill refused; then the log's entry
    t=3   A's load ends                   refused, in both tiers; A's caller still gets its value
    t=4   whoever asks for k loads anew

Setting a value takes the lease, so that it never loses against a load which began before it: such a
load's fill is refused, and if the load does not end in time, the value is not stored but the older
one is gone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from sekali import codec
from sekali.answers import Acquired
from sekali.calls import Old
from sekali.errors import KeyInvalid, SharedUnavailable
from sekali.invalidation import Entry, new_mark
from sekali.keys import CACHE_NAME
from sekali.lifetimes import Loaded
from sekali.loading import FIRST_PAUSE_SECONDS
from sekali.passage import Passage
from sekali.steps import Flush, Pause, bound_seconds, flush_with_tail

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sekali.answers import Lease
    from sekali.calls import Call, Tiers
    from sekali.scripts import Command
    from sekali.steps import Step

_log = logging.getLogger(__name__)

REPEAT_PAUSE_SECONDS: Final = 0.1
KEPT_FREE_SECONDS: Final = 0.5
"""Of the invocation's time, for the caller to react to a failure."""
LONGEST_REPEAT_SECONDS: Final = 10.0


def invalidate(
    tiers: Tiers, scoped: Sequence[tuple[str, str]], tags: Sequence[str]
) -> Generator[Step, Any, None]:
    """Invalidate keys, as pairs of job name and key, and tags, everywhere.

    Raises:
        KeyInvalid: a key or a tag cannot be used; nothing was sent.
        SharedUnavailable: it is not known to have reached every container. Repeat it.
    """
    claims, coherence = tiers.invocation.claims, tiers.coherence
    if not scoped and not tags:
        raise KeyInvalid("invalidate", "needs a key or a tag", "")
    marks, entries = coherence.tag_commands(tags)
    first = [claims.invalidate(name, key) for name, key in scoped] + marks
    entries = [Entry("k", f"{name}/{key}", new_mark()) for name, key in scoped] + entries
    _follow(tiers, scoped, entries)
    until = tiers.invocation.now() + min(
        tiers.invocation.remaining_seconds() - KEPT_FREE_SECONDS, LONGEST_REPEAT_SECONDS
    )
    moves = coherence.moves()
    yield from _insist(tiers, first, until)
    yield from _insist(tiers, [coherence.append(entries)], until)
    # Again: another thread may have asked for the old value before it was gone.
    _follow(tiers, scoped, entries, moves)


def _follow(
    tiers: Tiers,
    scoped: Sequence[tuple[str, str]],
    entries: Sequence[Entry],
    moves: int | None = None,
) -> None:
    """Bring this container's own tier up to date at once."""
    for name, key in scoped:
        tiers.local.drop(f"{name}/{key}")
    for entry in entries:
        if entry.kind != "t":
            continue
        if moves is None:
            tiers.coherence.learn(entry.name, entry.mark)
        else:
            tiers.coherence.confirm(entry.name, entry.mark, since=moves)


def _insist(tiers: Tiers, commands: Sequence[Command], until: float) -> Generator[Step, Any, None]:
    """Send commands until each was accepted; all of them may be repeated."""
    while True:
        try:
            replies = yield Flush(commands, "invalidate")
            refused = next((reply for reply in replies if isinstance(reply, Exception)), None)
            if refused is None:
                return
            raise SharedUnavailable("invalidate", type(refused).__name__) from refused
        except SharedUnavailable as error:
            if tiers.invocation.now() >= until:
                raise
            _log.warning("an invalidation is repeated: %s", error)
            yield Pause(REPEAT_PAUSE_SECONDS)


def set_value(
    tiers: Tiers, call: Call, value: object, *, patient: bool
) -> Generator[Step, Any, bool]:
    """Store a value in both tiers, whatever is there; tell whether it is stored.

    Who is not `patient` does not wait for the load under way: it may be its own.

    Raises:
        SharedUnavailable: the shared tier did not answer: what it holds is not known.
    """
    tiers.local.drop(call.scoped)
    until = tiers.invocation.now() + bound_seconds(call, tiers)
    older = Old(
        value=None,
        fence=codec.GREATEST_FENCE,
        age_seconds=0.0,
        left_seconds=0.0,
        source="shared",
        trusted=False,
    )
    while True:
        passage = Passage(tiers, call, older)
        sent_at = tiers.invocation.now()
        (reply,), _, passage.named = yield from flush_with_tail(
            tiers, [passage.claim()], due=False, tags=call.tags, operation="claim"
        )
        if isinstance(reply, Exception):
            raise SharedUnavailable("claim", type(reply).__name__) from reply
        answer = tiers.invocation.claims.read_claim(passage.ask, reply, sent_at)
        if isinstance(answer, Acquired):
            return (yield from _fill(tiers, passage, answer.lease, value))
        # Somebody loads what may be older: its fill must not come after this.
        yield from invalidate(tiers, [(CACHE_NAME, call.key)], ())
        if tiers.invocation.now() >= until or not patient:
            return False
        yield Pause(FIRST_PAUSE_SECONDS)


def _fill(
    tiers: Tiers, passage: Passage, lease: Lease, value: object
) -> Generator[Step, Any, bool]:
    passage.begin(lease)
    try:
        finish = passage.pack(lease, Loaded(value), passage.epochs({}), 0.0)
        (reply,), _, _ = yield from flush_with_tail(
            tiers, [finish], due=False, tags=passage.call.tags, operation="finish"
        )
    finally:
        tiers.invocation.heartbeat.unwatch(lease)
    stored = passage.take_end(reply)
    # After the value: a container that finds the entry must not find the older value any more.
    entry = Entry("r", passage.call.scoped, new_mark())
    until = tiers.invocation.now() + bound_seconds(passage.call, tiers)
    yield from _insist(tiers, [tiers.coherence.append([entry])], until)
    return stored
