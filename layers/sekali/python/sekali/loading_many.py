"""Load many keys at once: one flush of claims, one call of the loader, one flush of finishes.

    local, and the level vouches for it     found
    claim of each other key                 one flush
    Served, and good enough                 found
    Served, due or out of date              claimed again beyond that value, one flush for all
    Acquired                                loaded, all in one call of the loader
    Busy                                    the old value if it is fresh, else left to the caller
    finish of each loaded key               one flush, each fenced for itself

A key that the loader did not return is not stored, and not found. A loader that fails fails for all
of them, unless each has a stale value that may be served.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekali.answers import Acquired, Served
from sekali.calls import Result
from sekali.errors import SharedUnavailable
from sekali.flights import LeftOut
from sekali.keys import CACHE_NAME
from sekali.lease_events import tell_claim, tell_end
from sekali.lifetimes import QUIET_SECONDS, Loaded
from sekali.passage import Passage
from sekali.steps import (
    Flush,
    Run,
    answer_of,
    asked_tags,
    chosen_marks,
    flush_with_tail,
    instead,
    may_fall_back,
    may_serve_stale,
    old_of,
    vouched,
)
from sekali.telemetry import events
from sekali.tracebacks import without_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sekali.answers import Lease, Outcome
    from sekali.calls import Call, Old, Tiers
    from sekali.scripts import Command
    from sekali.served import Taken
    from sekali.steps import Step

    Found = dict[str, Result[Any]]
    Loader = Callable[[list[str]], Mapping[str, Any]]

_log = logging.getLogger(__name__)


class LoadingMany:
    """One call of `get_or_load_many`, for the keys that this process leads."""

    def __init__(
        self,
        tiers: Tiers,
        calls: Sequence[Call],
        loader: Loader,
        *,
        due: bool,
        postpone: Callable[[Call], bool],
    ) -> None:
        """Keep what the steps need; `due`: the log's tail was not read in this invocation.

        `postpone` takes a refresh for the end of the invocation.
        """
        self._tiers = tiers
        self._calls = {call.key: call for call in calls}
        self._loader = loader
        self._due = due and not all(call.level == "ttl" for call in calls)
        self._postpone = postpone
        self._found: Found = {}
        self._leases: dict[str, Lease] = {}

    def steps(self) -> Generator[Step, Any, tuple[Found, list[str]]]:
        """Yield the steps; returns what was found, and the keys that somebody else computes."""
        passages = {
            key: Passage(self._tiers, call)
            for key, call in self._calls.items()
            if not self._is_held(call)
        }
        if not passages:
            return self._found, []
        try:
            refused = yield from self._claim(passages)
        except SharedUnavailable as error:
            yield from self._without_shared(list(passages), error)
            return self._found, []
        if refused:
            try:
                yield from self._claim({key: passages[key] for key in refused})
            except SharedUnavailable as error:
                _log.warning("%d values were not claimed again: %s", len(refused), error)
        if self._leases:
            yield from self._load({key: passages[key] for key in self._leases})
        known = self._found.keys() | self._leases.keys()
        return self._found, [key for key in passages if key not in known]

    def _is_held(self, call: Call) -> bool:
        """Take a local value for found, where the level vouches for it and it is not due."""
        seen = self._tiers.local.look(call.scoped)
        if seen is None or not vouched(self._tiers, call, seen, due=self._due):
            return False
        old = old_of(seen, trusted=True)
        if (seen.left_seconds > 0 and (seen.fresh or seen.quiet)) or (
            seen.quiet and may_serve_stale(call, old)
        ):
            self._answer(call, old)
            return True
        return False

    def _answer(self, call: Call, old: Old) -> None:
        self._found[call.key] = answer_of(self._tiers, call, old)

    # Claims.

    def _claim(self, passages: Mapping[str, Passage]) -> Generator[Step, Any, list[str]]:
        """Claim the keys; returns those whose value has to be claimed beyond.

        Raises:
            SharedUnavailable: nobody knows what is there.
        """
        tiers, sent_at = self._tiers, self._tiers.invocation.now()
        tags = dict.fromkeys(tag for one in passages.values() for tag in one.call.tags)
        replies, apply, marks = yield from flush_with_tail(
            tiers,
            [passage.claim() for passage in passages.values()],
            due=self._due,
            tags=list(tags),
            operation="claim",
        )
        self._due = False
        served: list[tuple[Passage, Served, Taken | None]] = []
        for (key, passage), reply in zip(passages.items(), replies, strict=True):
            passage.named = marks
            if isinstance(reply, Exception):
                continue
            answer = tiers.invocation.claims.read_claim(passage.ask, reply, sent_at)
            if isinstance(answer, Served):
                served.append((passage, answer, passage.take_served(answer)))
                continue
            if isinstance(answer, Acquired):
                tell_claim(tiers.emit, passage.ask, answer)
                self._leases[key] = answer.lease
            elif (old := instead(tiers, passage.call, passage.old, answer)) is not None:
                tell_claim(tiers.emit, passage.ask, answer)
                self._answer(passage.call, old)
        apply()
        yield from self._ask_marks(served)
        return [
            passage.call.key
            for passage, answer, taken in served
            if not self._is_good(passage, answer, taken)
        ]

    def _ask_marks(
        self, served: Sequence[tuple[Passage, Served, Taken | None]]
    ) -> Generator[Step, Any, None]:
        """Read the marks that have to be known before these values are judged, if any."""
        asked: dict[str, None] = {}
        late = []
        for passage, answer, taken in served:
            if taken is None:
                continue
            others = passage.others(taken.epochs)
            if self._tiers.coherence.doubtful(others):
                late.append((passage, answer))
            asked |= dict.fromkeys(asked_tags(self._tiers, passage.call.level, others))
        if not asked:
            return
        try:
            yield from flush_with_tail(
                self._tiers, [], due=False, tags=list(asked), operation="marks"
            )
        except SharedUnavailable as error:
            _log.warning("the marks of %d tags were not read: %s", len(asked), error)
        for passage, answer in late:
            passage.take_served(answer)  # its marks were not known when it came

    def _is_good(self, passage: Passage, served: Served, taken: Taken | None) -> bool:
        """Take a served value for found if it is readable, current, and not due for a refresh.

        One that is only due is kept to fall back on.
        """
        if (
            taken is not None
            and passage.carries_named(taken.epochs)
            and not self._tiers.coherence.doubtful(passage.others(taken.epochs))
        ):
            passage.old = taken.old
            if taken.left_seconds > 0 and (taken.due_seconds > 0 or self._postponed(passage.call)):
                self._answer(passage.call, taken.old)
                return True
        passage.refuse(served)
        return False

    def _postponed(self, call: Call) -> bool:
        if call.refresh != "end" or not self._postpone(call):
            return False
        self._tiers.local.hush(call.scoped, QUIET_SECONDS)
        return True

    # The loader.

    def _load(self, passages: Mapping[str, Passage]) -> Generator[Step, Any, None]:
        leases = self._leases
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
        except BaseException as error:
            olds = {key: passage.old for key, passage in passages.items()}
            fallen_back = isinstance(error, Exception) and self._fall_back(olds, error)
            yield from self._give_back(passages, leases, "T" if fallen_back else "W")
            if not fallen_back:
                raise
            return
        finally:
            for key in passages:
                heartbeat.unwatch(leases[key])
                tell_end(self._tiers.emit, leases[key], self._tiers.invocation.now())
        self._tell_loaded(loaded, seconds)

    def _tell_loaded(self, loaded: Mapping[str, Loaded[Any]], seconds: float) -> None:
        for key, one in loaded.items():
            self._found[key] = Result(one.value, "loaded", 0.0)
            self._tiers.emit(
                events.CacheRead(source="loaded", name=CACHE_NAME, key=key, load_seconds=seconds)
            )

    def _fall_back(self, olds: Mapping[str, Old | None], error: Exception) -> bool:
        """Serve old values in the place of a load that failed, if every key has one."""
        usable = {
            key: old
            for key, old in olds.items()
            if old is not None and may_fall_back(self._calls[key], old)
        }
        if len(usable) < len(olds):
            return False
        _log.warning(
            "loading %d keys failed, stale values are served:\n%s", len(olds), without_text(error)
        )
        for key, old in usable.items():
            self._answer(self._calls[key], old)
            self._tiers.local.hush(self._calls[key].scoped, QUIET_SECONDS)
        return True

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
            moves = tiers.coherence.moves()
            read = yield from chosen_marks(tiers, every)
            marks = {
                key: passages[key].epochs({tag: read[tag] for tag in tags})
                for key, tags in chosen.items()
            }
            for tag, (mark, _, _) in read.items():
                tiers.coherence.learn(tag, mark, since=moves)
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
        self, passages: Mapping[str, Passage], leases: Mapping[str, Lease], outcome: Outcome
    ) -> Generator[Step, Any, None]:
        finishes = [passage.finish(leases[key], outcome) for key, passage in passages.items()]
        try:
            yield Flush(finishes, "finish")
        except SharedUnavailable as error:
            _log.warning("%d leases were not given back: %s", len(leases), error)

    def _without_shared(
        self, keys: Sequence[str], error: SharedUnavailable
    ) -> Generator[Step, Any, None]:
        """Serve old values where allowed; load the others under a limit, for this container."""
        olds: dict[str, Old | None] = {}
        for key in keys:
            call = self._calls[key]
            seen = self._tiers.local.look(call.scoped)
            old = None if seen is None else old_of(seen, trusted=False)
            if old is not None and old.left_seconds > 0 and may_fall_back(call, old):
                self._tiers.local.hush(call.scoped, QUIET_SECONDS)
                self._answer(call, old)
            else:
                olds[key] = old
        if not olds:
            return
        _log.warning("loading %d keys without the shared tier: %s", len(olds), error)
        drops, began = self._tiers.local.drops, self._tiers.invocation.now()
        try:
            returned = yield Run(lambda: self._loader(list(olds)), gated=True, key=next(iter(olds)))
            loaded = _loaded(returned, olds)
        except Exception as failure:
            if not self._fall_back(olds, failure):
                raise
            return
        for key, one in loaded.items():
            Passage(self._tiers, self._calls[key]).keep_unshared(one, drops=drops)
        self._tell_loaded(loaded, self._tiers.invocation.now() - began)


def loaded_alone(loader: Loader, key: str) -> Any:  # Any: whatever the caller caches
    """Return what a loader of many gives of one key.

    Raises:
        LeftOut: nothing.
    """
    loaded = _loaded(loader([key]), {key: None})
    if key not in loaded:
        raise LeftOut(key)
    return loaded[key]


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
