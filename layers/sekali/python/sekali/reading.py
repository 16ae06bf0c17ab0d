"""Look keys up in both tiers without loading any: one flush for all that are not local.

    PTTL before GET, in this order: should the value be replaced in between, its life is taken for
    shorter than it is, never for longer.

A value that carries tags whose mark is not known costs one more flush, which asks for them, and is
kept here by the next look-up only; `strict` asks for every mark. A value that is past its TTL, or
not fresh by its tags, or not readable, is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekali.answers import Served
from sekali.calls import Result
from sekali.errors import SharedUnavailable
from sekali.keys import CACHE_NAME
from sekali.passage import Passage
from sekali.scripts import Command
from sekali.shared_hits import tell_not_looked_up
from sekali.steps import asked_tags, flush_with_tail
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from sekali.calls import Call, Level, Tiers
    from sekali.served import Taken
    from sekali.steps import Step


class Reading:
    """One look-up of several keys. `due`: the log's tail was not read in this invocation."""

    def __init__(self, tiers: Tiers, calls: Sequence[Call], *, due: bool) -> None:
        """Keep what the steps need; all calls have one level."""
        self._tiers = tiers
        self._calls = calls
        self._level = calls[0].level if calls else "ttl"
        self._due = due and self._level != "ttl"

    def steps(self) -> Generator[Step, Any, dict[str, Result[Any]]]:
        """Yield the steps; returns what was found, by key."""
        found: dict[str, Result[Any]] = {}
        asking: list[Call] = []
        for call in self._calls:
            result = None if self._due or self._level == "strict" else self._local(call)
            if result is None:
                asking.append(call)
            else:
                found[call.key] = result
        if asking:
            try:
                found |= yield from self._shared(asking)
            except SharedUnavailable as error:
                tell_not_looked_up(len(asking), error)
        for key, result in found.items():
            self._tiers.emit(events.CacheRead(source=result.source, name=CACHE_NAME, key=key))
        return found

    def _local(self, call: Call) -> Result[Any] | None:
        seen = self._tiers.local.look(call.scoped)
        if seen is None or seen.left_seconds <= 0:
            return None
        return Result(seen.value, "local", seen.age_seconds)

    def _shared(self, asking: Sequence[Call]) -> Generator[Step, Any, dict[str, Result[Any]]]:
        """Ask for the values; where only the tail was due, what it left in place counts."""
        keyspace = self._tiers.invocation.claims.keyspace
        passages = [Passage(self._tiers, call) for call in asking]
        commands: list[Command] = []
        for passage in passages:
            slot = keyspace.of(CACHE_NAME, passage.call.key, passage.call.key)
            commands += [Command(("PTTL", slot.value)), Command(("GET", slot.value))]
            passage.note()
        replies, apply, _ = yield from flush_with_tail(
            self._tiers, commands, due=self._due, operation="get"
        )
        taken: dict[str, Taken] = {}
        for index, passage in enumerate(passages):
            left_ms, value = replies[2 * index : 2 * index + 2]
            if isinstance(left_ms, int) and isinstance(value, bytes) and left_ms > 0:
                read = passage.take_served(Served(value, left_ms / 1000))
                if read is not None:
                    taken[passage.call.key] = read
        apply()
        return (yield from current(self._tiers, taken, level=self._level))


def current(
    tiers: Tiers, taken: Mapping[str, Taken], *, level: Level = "per_invocation"
) -> Generator[Step, Any, dict[str, Result[Any]]]:
    """Yield the step that asks for marks, if any has to be; return what is fresh, by key."""
    coherence = tiers.coherence
    asked = {tag: None for one in taken.values() for tag in asked_tags(tiers, level, one.epochs)}
    if asked:
        yield from flush_with_tail(tiers, [], due=False, tags=list(asked), operation="marks")
    return {
        key: one.result
        for key, one in taken.items()
        if one.left_seconds > 0 and coherence.current(one.epochs)
    }
