"""Load many keys at once: one flush of claims, one call of the loader, one flush of finishes.

    claim of each key that is not local     one flush
    Served                                  found
    Acquired                                loaded, all in one call of the loader
    Busy                                    somebody else computes it: left to the caller
    finish of each loaded key               one flush, each fenced for itself

A key that the loader did not return is not stored, and not found.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekali.answers import Acquired, Served
from sekali.calls import Result
from sekali.errors import SharedUnavailable
from sekali.keys import CACHE_NAME
from sekali.lease_events import tell_claim, tell_end
from sekali.lifetimes import Loaded
from sekali.passage import Passage
from sekali.steps import Flush, Run, chosen_marks, flush_with_tail
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sekali.answers import Lease
    from sekali.calls import Call, Tiers
    from sekali.scripts import Command
    from sekali.steps import Step

    Found = dict[str, Result[Any]]
    Loader = Callable[[list[str]], Mapping[str, Any]]

_log = logging.getLogger(__name__)


class LoadingMany:
    """One call of `get_or_load_many`, for the keys that this process leads."""

    def __init__(self, tiers: Tiers, calls: Sequence[Call], loader: Loader, *, due: bool) -> None:
        """Keep what the steps need; `due`: the log's tail was not read in this invocation."""
        self._tiers = tiers
        self._calls = {call.key: call for call in calls}
        self._loader = loader
        self._due = due

    def steps(self) -> Generator[Step, Any, tuple[Found, list[str]]]:
        """Yield the steps; returns what was found, and the keys that somebody else computes."""
        tags = dict.fromkeys(tag for call in self._calls.values() for tag in call.tags)
        passages = {key: Passage(self._tiers, call) for key, call in self._calls.items()}
        sent_at = self._tiers.invocation.now()
        try:
            replies, apply, marks = yield from flush_with_tail(
                self._tiers,
                [passage.claim() for passage in passages.values()],
                due=self._due,
                tags=list(tags),
                operation="claim",
            )
        except SharedUnavailable as error:
            return (yield from self._without_shared(error)), []
        for passage in passages.values():
            passage.named = marks
        found: Found = {}
        leases: dict[str, Lease] = {}
        claims = self._tiers.invocation.claims
        for (key, passage), reply in zip(passages.items(), replies, strict=True):
            if isinstance(reply, Exception):
                continue
            answer = claims.read_claim(passage.ask, reply, sent_at)
            if isinstance(answer, Acquired):
                tell_claim(self._tiers.emit, passage.ask, answer)
                leases[key] = answer.lease
            elif isinstance(answer, Served):
                self._take(passage, answer, found)
        apply()
        if leases:
            loading = {key: passages[key] for key in leases}
            found |= yield from self._load(loading, leases)
        busy = [key for key in passages if key not in found and key not in leases]
        return found, busy

    def _take(self, passage: Passage, answer: Served, found: Found) -> None:
        """Take a served value for found if it is readable, current, and not due for a refresh."""
        key, taken = passage.call.key, passage.take_served(answer)
        if taken is None:
            return
        current = passage.carries_named(taken.epochs) and not self._tiers.coherence.doubtful(
            passage.others(taken.epochs)
        )
        if current and taken.left_seconds > 0 and taken.due_seconds > 0:
            self._tiers.emit(events.CacheRead(source="shared", name=CACHE_NAME, key=key))
            found[key] = taken.result

    def _load(
        self, passages: Mapping[str, Passage], leases: Mapping[str, Lease]
    ) -> Generator[Step, Any, Found]:
        for key, passage in passages.items():
            passage.begin(leases[key])
        began = self._tiers.invocation.now()
        heartbeat = self._tiers.invocation.heartbeat
        try:
            returned = yield Run(lambda: self._loader(list(passages)), key=next(iter(passages)))
            seconds = self._tiers.invocation.now() - began
            loaded = _loaded(returned, passages)
            yield from self._fill(passages, leases, loaded, seconds)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._give_back(passages, leases)
            raise
        finally:
            for lease in leases.values():
                heartbeat.unwatch(lease)
                tell_end(self._tiers.emit, lease, self._tiers.invocation.now())
        for key in loaded:
            self._tiers.emit(
                events.CacheRead(source="loaded", name=CACHE_NAME, key=key, load_seconds=seconds)
            )
        return {key: Result(one.value, "loaded", 0.0) for key, one in loaded.items()}

    def _fill(
        self,
        passages: Mapping[str, Passage],
        leases: Mapping[str, Lease],
        loaded: Mapping[str, Loaded[Any]],
        seconds: float,
    ) -> Generator[Step, Any, None]:
        tiers = self._tiers
        chosen = {key: passages[key].chosen_tags(one) for key, one in loaded.items()}
        named = dict.fromkeys(tag for passage in passages.values() for tag in passage.call.tags)
        try:
            every = list(dict.fromkeys(tag for tags in chosen.values() for tag in tags))
            read = yield from chosen_marks(tiers, every)
            marks = {
                key: passages[key].epochs({tag: read[tag] for tag in tags})
                for key, tags in chosen.items()
            }
            for tag, (mark, _, _) in read.items():
                tiers.coherence.learn(tag, mark)
            finishes: list[Command] = [
                passage.pack(leases[key], loaded[key], marks[key], seconds)
                if key in loaded
                else passage.finish(leases[key], "W")
                for key, passage in passages.items()
            ]
            replies, _, _ = yield from flush_with_tail(
                tiers, finishes, due=False, tags=list(named), operation="finish"
            )
        except SharedUnavailable as error:
            _log.warning("%d values were not stored: %s", len(loaded), error)
            for key, one in loaded.items():
                passages[key].keep_unshared(one, drops=passages[key].drops)
            return
        for passage, reply in zip(passages.values(), replies, strict=True):
            passage.take_end(reply)

    def _give_back(
        self, passages: Mapping[str, Passage], leases: Mapping[str, Lease]
    ) -> Generator[Step, Any, None]:
        try:
            yield Flush(
                [passage.finish(leases[key], "W") for key, passage in passages.items()], "finish"
            )
        except SharedUnavailable as error:
            _log.warning("%d leases were not given back: %s", len(leases), error)

    def _without_shared(self, error: SharedUnavailable) -> Generator[Step, Any, Found]:
        _log.warning("loading %d keys without the shared tier: %s", len(self._calls), error)
        drops = self._tiers.local.drops
        returned = yield Run(
            lambda: self._loader(list(self._calls)), gated=True, key=next(iter(self._calls))
        )
        loaded = _loaded(returned, self._calls)
        for key, one in loaded.items():
            Passage(self._tiers, self._calls[key]).keep_unshared(one, drops=drops)
        return {key: Result(one.value, "loaded", 0.0) for key, one in loaded.items()}


def _loaded(
    returned: Mapping[str, Any],  # Any: whatever the caller caches
    asked: Mapping[str, object],
) -> dict[str, Loaded[Any]]:
    """Return what the loader gave of the keys that it was asked for.

    Raises:
        TypeError: it gave no mapping.
    """
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise TypeError(f"the loader of many keys must return a mapping by key, got a {kind}")
    return {
        key: value if isinstance(value, Loaded) else Loaded(value)
        for key, value in returned.items()
        if key in asked
    }
