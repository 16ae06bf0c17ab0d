"""Take one key through the shared tier: build its commands, read their replies, keep what counts.

A passage sends nothing. `loading` puts its commands into flushes, alone or with those of many keys:

    1  [log's tail if due, marks of the named tags, claim]      → `take_claim`, then the tail
    2  the loader runs under the lease
    3  [marks again, finish]                                     → `take_end`

Fenced fill: the finish says whether the value was stored, which it is only under a live lease of a
key that nobody invalidated meanwhile. The local tier keeps it only then, only if the marks of its
tags are still those from before the load, and only if nothing was dropped here in between.
"""

from __future__ import annotations

import logging
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from sekali import codec
from sekali.answers import End, Finished, load_of, new_token
from sekali.calls import Call, ChosenMark, Old, Tiers, tags_of
from sekali.clock import Moment, now
from sekali.coherence import NO_MARK
from sekali.errors import ResultUnencodable, ValueTooLarge
from sekali.keys import CACHE_NAME
from sekali.lifetimes import Lifetime, Loaded, fresh_seconds
from sekali.light_dataclass import dataclass
from sekali.served import take
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.answers import Ask, Lease, Outcome, Served
    from sekali.claims import Reply
    from sekali.packing import Packed
    from sekali.scripts import Command
    from sekali.served import Taken
    from sekali.shared_hits import Opening

_log = logging.getLogger(__name__)

CLOCK_SLACK_SECONDS: Final = 1.0
"""How far the clock of a cache node may be set forward during a load."""


@dataclass(slots=True)
class _Fill:
    """A value on its way into both tiers."""

    value: object
    packed: Packed
    lifetime: Lifetime
    epochs: Mapping[str, str]
    load_seconds: float
    drops: int
    sent: Moment


@dataclass(slots=True)
class Passage:
    """One key's way. Used once."""

    tiers: Tiers
    call: Call
    old: Old | None = None
    named: Mapping[str, str] = field(init=False, default_factory=dict)
    ask: Ask = field(init=False)
    _sent: Moment = field(init=False)
    _drops: int = field(init=False, default=0)
    _marked: list[str] = field(init=False, default_factory=list)
    _moves: int = field(init=False, default=0)
    _began: float = field(init=False, default=0.0)
    drops: int = field(init=False, default=0)
    """How often the local tier had dropped something when the load began."""
    _fill: _Fill | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Mint the claim's token; refuse what is known not to be fresh."""
        token = new_token()
        self.ask = load_of(
            self.call.key, token, self.tiers.terms, self.old.fence if self.old else 0
        )

    # The claim.

    def note(self) -> None:
        """Remember the moment before a flush: values that it brings are no younger."""
        self._sent = now(self.tiers.clock)
        self._drops = self.tiers.local.drops

    def resume(self, opening: Opening) -> None:
        """Go on from a claim that was sent for this key."""
        self.ask = load_of(self.call.key, opening.token, self.tiers.terms)
        self._sent, self._drops = opening.sent, opening.drops

    def claim(self) -> Command:
        """Return the claim's command."""
        self.note()
        return self.tiers.invocation.claims.load(self.ask)

    def refuse(self, served: Served) -> None:
        """Ask for a newer value than this one at the next claim; here it stays to fall back on."""
        fence = codec.fence_of(served.value)
        if self.old is None or self.old.fence != fence:
            self.tiers.local.drop(self.call.scoped)
        self.ask = replace(self.ask, refuse=fence)

    def take_served(self, served: Served) -> Taken | None:
        """Keep a served value and return it, or None if it is unreadable.

        Whether its tags are current is not decided here.
        """
        call = self.call
        return take(
            self.tiers,
            call.scoped,
            served.value,
            remaining_seconds=served.remaining_seconds,
            sent=self._sent,
            drops=self._drops,
            packing=call.packing,
            most_seconds=call.lifetime.local_seconds,
        )

    def carries_named(self, epochs: Mapping[str, str]) -> bool:
        """Tell whether a value carries every named tag, with the mark that came with its claim."""
        return all(tag in epochs and epochs[tag] == self.named.get(tag) for tag in self.call.tags)

    def others(self, epochs: Mapping[str, str]) -> dict[str, str]:
        """Return the marks of the tags that the call did not name."""
        return {tag: mark for tag, mark in epochs.items() if tag not in self.call.tags}

    # The load.

    def begin(self, lease: Lease) -> None:
        """Note what the tags' marks are before the loader runs, and renew the lease meanwhile."""
        lease.started = True
        heartbeat = self.tiers.invocation.heartbeat
        heartbeat.watch(lease)
        heartbeat.start()
        self._moves = self.tiers.coherence.moves()
        self._began = self.tiers.invocation.now()
        self.drops = self.tiers.local.drops

    def chosen_tags(self, loaded: Loaded[Any]) -> list[str]:  # Any: whatever was loaded
        """Return the tags that the loader added to those of the call."""
        return [tag for tag in tags_of(loaded.tags) if tag not in self.call.tags]

    def epochs(self, chosen: Mapping[str, ChosenMark]) -> dict[str, str] | None:
        """Return the marks from before the load, or None where one is not known to be from then.

        The named tags were read before it. A chosen one is from then if

        - it was known here before it and is still the same, or
        - nobody has set or read it since before the load began, by the server's own clock, or
        - there was none until now: whatever was invalidated by the tag had nothing to lose.
        """
        coherence = self.tiers.coherence
        if any(tag not in self.named for tag in self.call.tags):
            return None
        epochs = {tag: self.named[tag] for tag in self.call.tags}
        since_seconds = self.tiers.invocation.now() - self._began + CLOCK_SLACK_SECONDS
        for tag, (mark, offered, idle_seconds) in chosen.items():
            known = {offered, coherence.mark_since(tag, self._moves)}
            if mark not in known and idle_seconds <= since_seconds:
                return None
            epochs[tag] = mark
        return epochs

    def pack(
        self, lease: Lease, loaded: Loaded[Any], epochs: Mapping[str, str] | None, seconds: float
    ) -> Command:
        """Return the finish that offers the value to the shared tier; unfit ones are told."""
        call = self.call
        lifetime = call.lifetime.of(loaded).jittered(self.tiers.uniform)
        try:
            packed = call.packing.pack(loaded.value)
        except (ResultUnencodable, ValueTooLarge) as error:
            _log.warning("the value of %s is returned but not cached: %s", call.key, error)
            reason = "too_large" if isinstance(error, ValueTooLarge) else "unencodable"
            return self._refused(lease, reason)
        if epochs is None:
            return self._refused(lease, "tag_unknown")
        if lifetime.ttl_seconds <= 0:
            return self.finish(lease, "D")
        header = codec.header(
            lease.fence,
            key=call.scoped,
            created=self.tiers.clock.wall(),
            ttl_seconds=lifetime.ttl_seconds,
            epochs=epochs,
            body=packed.stored,
            soft_seconds=lifetime.soft_seconds,
            stale_seconds=lifetime.stale_seconds,
            load_seconds=seconds,
            packing=packed.packing,
        )
        self._fill = _Fill(
            loaded.value,
            packed,
            lifetime,
            epochs,
            seconds,
            self.tiers.local.drops,
            now(self.tiers.clock),
        )
        life = lifetime.ttl_seconds + lifetime.stale_seconds
        return self.finish(lease, "D", packed.stored, header, life)

    def _refused(self, lease: Lease, reason: str) -> Command:
        self.tiers.local.drop(self.call.scoped)
        self.tiers.emit(events.FillRefused(name=CACHE_NAME, key=self.call.key, reason=reason))
        return self.finish(lease, "D")

    def finish(
        self,
        lease: Lease,
        outcome: Outcome,
        result: bytes = b"",
        header: bytes = b"",
        life_seconds: float = 0.0,
    ) -> Command:
        """Return the command that ends the claim; without a header it stores nothing."""
        self._end = End(
            ask=lease.ask,
            token=lease.token,
            fence=lease.fence,
            outcome=outcome,
            recorded=False,
            result=result,
            header=header,
            value_ttl_seconds=life_seconds,
        )
        return self.tiers.invocation.claims.finish(self._end)

    _end: End = field(init=False)

    def take_end(self, reply: Reply | Exception) -> bool:
        """Keep the value in the local tier if the shared one took it; tell whether it did.

        Call it after the marks of the same flush were learnt.
        """
        fill, call = self._fill, self.call
        if isinstance(reply, Exception):
            _log.warning("the value of %s was refused: %s", call.key, reply)
            return False
        answer = self.tiers.invocation.claims.read_finish(self._end, reply)
        if fill is None:
            return False
        if not (isinstance(answer, Finished) and answer.filled):
            self.tiers.emit(events.FillRefused(name=CACHE_NAME, key=call.key, reason="superseded"))
            return False
        nothing_dropped = self._nothing_dropped_since(fill.drops)
        self._keep_filled(
            fill,
            self._end.fence,
            only_if=lambda: nothing_dropped() and self.tiers.coherence.current(fill.epochs),
        )
        return True

    def keep_unshared(self, loaded: Loaded[Any], *, drops: int) -> None:
        """Keep a value that was loaded without the shared tier, for this container alone.

        The log's next tail names whatever was invalidated meanwhile; marks that are not known are
        those of nobody, so that the first look at a tag drops it.
        """
        lifetime = self.call.lifetime.of(loaded)
        try:
            packed = self.call.packing.pack(loaded.value)
        except (ResultUnencodable, ValueTooLarge):
            return
        epochs = dict.fromkeys((*self.call.tags, *tags_of(loaded.tags)), NO_MARK)
        sent = now(self.tiers.clock)
        fill = _Fill(loaded.value, packed, lifetime, epochs, 0.0, drops, sent)
        seen = self.tiers.local.look(self.call.scoped)
        # As good as what is there, so that it takes its place; any claim's fence is greater.
        fence = seen.fence if seen else 0
        self._keep_filled(fill, fence, only_if=self._nothing_dropped_since(drops))

    def _nothing_dropped_since(self, drops: int) -> Callable[[], bool]:
        return lambda: self.tiers.local.drops == drops

    def _keep_filled(self, fill: _Fill, fence: int, *, only_if: Callable[[], bool]) -> None:
        lifetime = fill.lifetime
        due = fresh_seconds(
            left_seconds=lifetime.ttl_seconds,
            age_seconds=0.0,
            soft_seconds=lifetime.soft_seconds,
            load_seconds=fill.load_seconds,
            uniform=self.tiers.uniform,
        )
        self._keep(
            fill.value,
            fill.packed.body,
            fence,
            fill.epochs,
            left_seconds=lifetime.ttl_seconds,
            due_seconds=due,
            stale_seconds=lifetime.stale_seconds,
            age_seconds=0.0,
            since=fill.sent,
            only_if=only_if,
        )

    def _keep(
        self,
        value: object,
        body: bytes,
        fence: int,
        epochs: Mapping[str, str],
        *,
        left_seconds: float,
        due_seconds: float,
        stale_seconds: float,
        age_seconds: float,
        since: Moment,
        only_if: Callable[[], bool],
    ) -> None:
        most = self.call.lifetime.local_seconds
        if most is not None:
            left_seconds, stale_seconds = min(left_seconds, most), min(stale_seconds, most)
        if left_seconds + stale_seconds <= 0 or most == 0:
            return
        self.tiers.local.put(
            self.call.scoped,
            value,
            encoded=body,
            decode=self.call.packing.decode,
            ttl_seconds=max(left_seconds, 0.0),
            stale_seconds=stale_seconds + min(left_seconds, 0.0),
            fresh_seconds=max(due_seconds, 0.0),
            age_seconds=age_seconds,
            fence=fence,
            epochs=epochs,
            since=since,
            only_if=only_if,
        )
