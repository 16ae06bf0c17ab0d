"""Find a value or load it: the order of the steps, without the doing of them.

Each function here is a generator that yields what has to be done (`Flush`, `Pause`, `Run`) and is
sent the outcome, so that threads and coroutines take the same way (see `steps`, `driving`):

    local, fresh                  a hit, if the level vouches for it: no step at all
    per_invocation, first read    [log's tail], one flush, then as above
    strict                        [fence of the shared value, marks], then as above
    claim: Served                 kept, decided by its marks and its age
    claim: Acquired               the loader, then [finish]
    claim: Busy                   an old value that may be served, else a pause, growing
    nothing answers               an old value where allowed, else a bounded load

What is *not* guaranteed: that a loader runs once. A waiter at its bound loads without the lease (or
raises, by `on_timeout`), and while the shared cache is away every container loads for itself.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, Final

from sekali import codec
from sekali.answers import Acquired, Busy, Served
from sekali.calls import Call, Old, Result, Tiers
from sekali.errors import SharedUnavailable
from sekali.flights import LeftOut
from sekali.keys import CACHE_NAME
from sekali.lease_events import tell_claim, tell_end
from sekali.lifetimes import QUIET_SECONDS, Loaded
from sekali.passage import Passage
from sekali.scripts import Command
from sekali.steps import (
    Flush,
    Pause,
    Run,
    Step,
    Steps,
    answer_of,
    asked_tags,
    at_bound,
    bound_seconds,
    chosen_marks,
    flush_with_tail,
    instead,
    may_fall_back,
    may_serve_stale,
    nothing,
    old_of,
    vouched,
)
from sekali.telemetry import events
from sekali.tracebacks import without_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sekali.answers import ClaimAnswer, Lease, Outcome
    from sekali.entries import Seen
    from sekali.served import Taken
    from sekali.shared_hits import Opening

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.1
"""No waiter asks more often than ten times a second."""
LONGEST_PAUSE_SECONDS: Final = 1.5
"""Before its jitter: nobody is answered later than two seconds after a load has ended."""
MOST_REFUSALS: Final = 5
"""Values that may be refused in a row, each newer than the last, before the wait is given up."""


class Loading:
    """One call of `get_or_load` for one key.

    `due` says that the log's tail was not read in this invocation. `until` ends the wait for other
    holders, on the invocation's line of time; None is the call's bound from the first of them on.
    """

    def __init__(
        self,
        tiers: Tiers,
        call: Call,
        *,
        due: bool,
        postpone: Callable[[Call], bool],
        until: float | None = None,
    ) -> None:
        """Keep what the steps need; `postpone` takes a refresh for the end of the invocation."""
        self._tiers = tiers
        self._call = call
        self._due = due and call.level != "ttl"
        self._postpone = postpone
        self._passage = Passage(tiers, call)
        self._until = until
        self._contended = False

    def steps(self, opening: Opening | None = None) -> Steps:
        """Yield the steps to the value; returns it. With an opening, those after its claim."""
        if opening is not None:
            return (yield from self._from_shared(opening))
        seen = self._tiers.local.look(self._call.scoped)
        trusted = seen is not None and vouched(self._tiers, self._call, seen, due=self._due)
        if seen is not None and not trusted:
            unverified = old_of(seen, trusted=False)
            try:
                seen = yield from self._verify(seen)
            except SharedUnavailable as error:
                self._passage = Passage(self._tiers, self._call, unverified)
                return (yield from self._without_shared(error))
        if seen is None:
            return (yield from self._from_shared())
        old = old_of(seen, trusted=True)
        if seen.left_seconds > 0 and (seen.fresh or seen.quiet or self._postponed()):
            return self._answer(old)
        if seen.quiet and may_serve_stale(self._call, old):
            return self._answer(old)
        self._passage = Passage(self._tiers, self._call, old)
        return (yield from self._from_shared())

    def refresh(self, fence: int) -> Steps:
        """Yield the steps to a value newer than `fence`, for a refresh at the end.

        Raises:
            LoadTimeout: somebody else is at it.
        """
        old = Old(
            value=None,
            fence=fence,
            age_seconds=0.0,
            left_seconds=-math.inf,
            source="local",
            trusted=False,
        )
        self._passage = Passage(self._tiers, self._call, old)
        self._until = self._tiers.invocation.now()
        return self._from_shared()

    # What is local.

    def _verify(self, seen: Seen) -> Generator[Step, Any, Seen | None]:
        """Ask whether the copy is good: the tail, and for `strict` its fence and its marks.

        Raises:
            SharedUnavailable: nobody knows.
        """
        call, tiers = self._call, self._tiers
        strict = call.level == "strict"
        slot = tiers.invocation.claims.keyspace.of(CACHE_NAME, call.key, call.key)
        ask = [Command(("GETRANGE", slot.value, 0, codec.FENCE_DIGITS - 1))] if strict else []
        tags = tuple(seen.epochs) if strict else ()
        replies, apply, _ = yield from flush_with_tail(
            tiers, ask, due=self._due, tags=tags, operation="verify"
        )
        apply()
        self._due = False
        if strict and replies[0] != b"%0*d" % (codec.FENCE_DIGITS, seen.fence):
            tiers.local.drop(call.scoped)
        return tiers.local.look(call.scoped)

    def _postponed(self) -> bool:
        if self._call.refresh != "end" or not self._postpone(self._call):
            return False
        self._tiers.local.hush(self._call.scoped, QUIET_SECONDS)
        return True

    # What is shared.

    def _from_shared(self, opening: Opening | None = None) -> Steps:
        refusals, pause = 0, FIRST_PAUSE_SECONDS
        while True:
            passage = self._passage
            try:
                answer, apply = yield from self._answered(opening)
            except SharedUnavailable as error:
                return (yield from self._without_shared(error))
            if isinstance(answer, Served):
                taken = passage.take_served(answer) if opening is None else opening.taken
                opening = None
                apply()
                result = yield from self._serve(answer, taken)
                if result is not None:
                    return result
                refusals += 1
                passage.refuse(answer)
                if refusals < MOST_REFUSALS:
                    continue
            apply()
            opening = None
            if isinstance(answer, Acquired) or not self._contended:
                tell_claim(self._tiers.emit, passage.ask, answer)
                self._contended = True
            if isinstance(answer, Acquired):
                self._tell_foreign(answer)
                return (yield from self._load(answer.lease))
            if (old := instead(self._tiers, self._call, passage.old, answer)) is not None:
                return self._answer(old)
            left_seconds = self._left_to_wait()
            if left_seconds <= 0:
                return (yield from at_bound(self._tiers, self._call, self._usable()))
            pause = yield from self._wait(answer, pause, left_seconds)

    def _claim(
        self, sent_at: float
    ) -> Generator[Step, Any, tuple[ClaimAnswer, Callable[[], None]]]:
        call, tiers, passage = self._call, self._tiers, self._passage
        (reply,), apply, passage.named = yield from flush_with_tail(
            tiers, [passage.claim()], due=self._due, tags=call.tags, operation="claim"
        )
        self._due = False
        if isinstance(reply, Exception):
            apply()
        return self._read(reply, sent_at), apply

    def _answered(
        self, opening: Opening | None
    ) -> Generator[Step, Any, tuple[ClaimAnswer, Callable[[], None]]]:
        """Claim, or take over a claim that was sent."""
        if opening is None:
            return (yield from self._claim(self._tiers.invocation.now()))
        self._passage.resume(opening)
        if isinstance(opening.reply, SharedUnavailable):
            raise opening.reply
        return self._read(opening.reply, opening.sent_at), nothing

    def _read(self, reply: Any, sent_at: float) -> ClaimAnswer:  # Any: as the client has it
        if isinstance(reply, Exception):
            raise SharedUnavailable("claim", str(reply)) from reply
        return self._tiers.invocation.claims.read_claim(self._passage.ask, reply, sent_at)

    def _serve(
        self, served: Served, taken: Taken | None
    ) -> Generator[Step, Any, Result[Any] | None]:
        """Return the served value if it is fresh; keep it to fall back on if only that."""
        tiers, passage = self._tiers, self._passage
        if taken is None:
            return None
        if self._call.tags or taken.epochs:
            if not passage.carries_named(taken.epochs):
                return None
            others = passage.others(taken.epochs)
            if asked := asked_tags(tiers, self._call.level, others):
                try:
                    yield from flush_with_tail(tiers, [], due=False, tags=asked, operation="marks")
                except SharedUnavailable:
                    return None
            if tiers.coherence.doubtful(others):
                return None
            if asked:
                passage.take_served(served)  # its marks were not known when it came
        passage.old = old = taken.old
        if old.left_seconds > 0 and (taken.due_seconds > 0 or self._postponed()):
            return self._answer(old)
        return None

    def _tell_foreign(self, answer: Acquired) -> None:
        """Tell of a value that no script serves, because it begins with no fence: not ours."""
        if answer.older and not self._passage.ask.refuse:
            self._tiers.emit(events.UnreadableValue(name=CACHE_NAME, reason="garbage"))

    def _left_to_wait(self) -> float:
        """Return the seconds until the wait's bound; it begins with the first look at it."""
        now = self._tiers.invocation.now()
        if self._until is None:
            self._until = now + bound_seconds(self._call, self._tiers)
        return self._until - now

    def _wait(self, answer: ClaimAnswer, pause: float, most: float) -> Generator[Step, Any, float]:
        tiers = self._tiers
        left = answer.remaining_seconds if isinstance(answer, Busy) else LONGEST_PAUSE_SECONDS
        # A lease about to end is looked at when it ends; a long one by growing pauses.
        chosen = max(min(pause, left), FIRST_PAUSE_SECONDS) * tiers.uniform(1.0, 1.3)
        yield Pause(min(chosen, most))
        return min(pause * 1.6, LONGEST_PAUSE_SECONDS)

    # The loader.

    def _load(self, lease: Lease) -> Steps:
        call, tiers, passage = self._call, self._tiers, self._passage
        passage.begin(lease)
        began = tiers.invocation.now()
        try:
            returned = yield Run(call.loader, lease=lease, key=call.key)
            # The lease is renewed until its finish is sent.
            seconds = tiers.invocation.now() - began
            loaded = returned if isinstance(returned, Loaded) else Loaded(returned)
            yield from self._fill(lease, loaded, seconds)
        except GeneratorExit:  # nobody is there any more to send anything
            raise
        except BaseException as error:
            old = self._instead_of(error)
            yield from self._give_back(lease, "W" if old is None else "T")
            if old is not None:
                _tell_failed(call.key, error)
                tiers.local.hush(call.scoped, QUIET_SECONDS)
                return self._answer(old)
            raise
        finally:
            tiers.invocation.heartbeat.unwatch(lease)
            tell_end(tiers.emit, lease, tiers.invocation.now())
        tiers.emit(
            events.CacheRead(source="loaded", name=CACHE_NAME, key=call.key, load_seconds=seconds)
        )
        return Result(loaded.value, "loaded", 0.0)

    def _fill(
        self,
        lease: Lease,
        loaded: Loaded[Any],
        seconds: float,
    ) -> Generator[Step, Any, None]:
        """Offer the value to the shared tier, and keep it here if that took it."""
        call, tiers, passage = self._call, self._tiers, self._passage
        try:
            moves = tiers.coherence.moves()
            chosen = yield from chosen_marks(tiers, passage.chosen_tags(loaded))
            epochs = passage.epochs(chosen)
            for tag, (mark, _, _) in chosen.items():
                tiers.coherence.learn(tag, mark, since=moves)
            finish = passage.pack(lease, loaded, epochs, seconds)
            (reply,), _, _ = yield from flush_with_tail(
                tiers, [finish], due=False, tags=call.tags, operation="finish"
            )
        except SharedUnavailable as error:
            _log.warning("the value of %s was not stored: %s", call.key, error)
            passage.keep_unshared(loaded, drops=passage.drops)
            return
        passage.take_end(reply)

    def _give_back(self, lease: Lease, outcome: Outcome) -> Generator[Step, Any, None]:
        """Let the lease go; where a stale value is served, the key cools for the whole fleet."""
        try:
            yield Flush([self._passage.finish(lease, outcome)], "finish")
        except SharedUnavailable as unavailable:
            _log.warning("the lease of %s was not given back: %s", lease.key, unavailable)

    def _without_shared(self, error: SharedUnavailable) -> Steps:
        """Serve an old value where allowed, else load under a limit, for this container alone."""
        call, tiers, passage = self._call, self._tiers, self._passage
        old = passage.old
        if old is not None and old.left_seconds > 0 and (old.trusted or self._usable()):
            tiers.local.hush(call.scoped, QUIET_SECONDS)
            return self._answer(old)
        _log.warning("loading %s without the shared tier: %s", call.key, error)
        drops = tiers.local.drops
        began = tiers.invocation.now()
        try:
            returned = yield Run(call.loader, gated=True, key=call.key)
        except Exception as failure:
            if (usable := self._instead_of(failure)) is None:
                raise
            _tell_failed(call.key, failure)
            tiers.local.hush(call.scoped, QUIET_SECONDS)
            return self._answer(usable)
        loaded = returned if isinstance(returned, Loaded) else Loaded(returned)
        passage.keep_unshared(loaded, drops=drops)
        seconds = tiers.invocation.now() - began
        tiers.emit(
            events.CacheRead(source="loaded", name=CACHE_NAME, key=call.key, load_seconds=seconds)
        )
        return Result(loaded.value, "loaded", 0.0)

    # Old values.

    def _usable(self) -> Old | None:
        """Return the value to serve when there is no better one, if the call allows it."""
        old = self._passage.old
        return old if old is not None and may_fall_back(self._call, old) else None

    def _instead_of(self, error: BaseException) -> Old | None:
        """Return the value to serve in the place of a load that failed.

        A loader that has no value of its key has not failed.
        """
        failed = isinstance(error, Exception) and not isinstance(error, LeftOut)
        return self._usable() if failed else None

    def _answer(self, old: Old) -> Result[Any]:
        return answer_of(self._tiers, self._call, old)


def _tell_failed(key: str, error: BaseException) -> None:
    _log.warning("loading %s failed, a stale value is served:\n%s", key, without_text(error))
