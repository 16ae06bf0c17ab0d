"""The local cache never answers what a plain model with a true clock would not.

The model knows what the cache cannot: how much time really passed, whatever the clocks said. Each
history mixes puts, reads and invalidations with time that passes, containers that freeze and wall
clocks that are set forward and back. Broken variants of the cache are run through the same
histories, to show that these would be noticed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekali import local as local_module
from sekali.clock import Clock, Moment, now
from sekali.entries import MISSING
from sekali.local import Local
from sekali.testing import FrozenClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEYS = ("a", "b", "c", "d")
TAGS = ("t", "u")
Step = tuple[str, int, int, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "get", "get", "get", "drop", "tag", "pass", "freeze", "step", "flush"]
        ),
        st.integers(0, 3),
        st.integers(0, 7),
        st.integers(0, 9),
    ),
    max_size=40,
)


@dataclass
class Expected:
    value: Any  # Any: whatever was put
    dies: float
    fence: int
    epochs: dict[str, str]


class World:
    """Drive a cache and its model through the same steps."""

    def __init__(self, cache: Callable[..., Local] = Local, *, max_entries: int = 100) -> None:
        self.clock = FrozenClock()
        self.local = cache(max_entries=max_entries, max_bytes=100_000, clock=self.clock)
        self.max_entries = max_entries
        self.model: dict[str, Expected] = {}
        self.true_seconds = 0.0
        self.stepped = False
        self.hits = 0

    def run(self, steps: Sequence[Step]) -> None:
        for verb, which, number, extra in steps:
            getattr(self, f"do_{verb}")(KEYS[which], number, extra)
            stats = self.local.stats()
            assert stats.entries <= self.max_entries
            assert stats.bytes <= 100_000
        for key in KEYS:
            self.do_get(key, 0, 0)
            self.local.drop(key)
        assert (self.local.stats().entries, self.local.stats().bytes) == (0, 0)

    def do_put(self, key: str, number: int, extra: int) -> None:
        value: Any = [number, extra] if number % 2 else f"{number} {extra}"  # Any: either kind
        ttl_seconds = float(number * 10)
        age_seconds = float(extra % 3) * 4
        since = self.request_sent(age_seconds) if age_seconds else None
        fence = extra // 2
        epochs = {TAGS[extra % 2]: f"m{number}"} if extra % 3 == 0 else {}

        kept = self.local.put(
            key, value, ttl_seconds=ttl_seconds, since=since, fence=fence, epochs=epochs
        )

        there = self.model.get(key)
        if there is not None and there.fence > fence and there.dies > self.true_seconds:
            assert not kept or self.stepped or self.max_entries < len(KEYS)
            if not kept:
                return
        self.model.pop(key, None)
        if kept:
            copy = list(value) if isinstance(value, list) else value
            dies = self.true_seconds - age_seconds + ttl_seconds
            self.model[key] = Expected(copy, dies, fence, epochs)
            if isinstance(value, list):
                value.append("changed by the one who put it")

    def request_sent(self, age_seconds: float) -> Moment:
        moment = now(self.clock)
        return Moment(moment.wall - age_seconds, moment.monotonic - age_seconds)

    def do_get(self, key: str, _number: int, _extra: int) -> None:
        found = self.local.get(key)
        expected = self.model.get(key)
        alive = expected is not None and self.true_seconds < expected.dies
        if found is MISSING:
            # Clocks that were set make values die early, and so does a lack of room.
            assert not alive or self.stepped or self.max_entries < len(KEYS)
            return
        assert expected is not None
        assert alive
        assert found == expected.value
        self.hits += 1
        if isinstance(found, list):
            found.append("changed by the one who got it")

    def do_drop(self, key: str, _number: int, _extra: int) -> None:
        self.local.drop(key)
        self.model.pop(key, None)

    def do_tag(self, _key: str, number: int, extra: int) -> None:
        tag = TAGS[extra % 2]
        mark = f"m{number}" if number else None
        self.local.drop_tag(tag, mark=mark)
        for key, expected in list(self.model.items()):
            if tag in expected.epochs and expected.epochs[tag] != mark:
                del self.model[key]

    def do_flush(self, _key: str, _number: int, extra: int) -> None:
        if extra == 0:
            self.local.flush("asked")
            self.model.clear()

    def do_pass(self, _key: str, number: int, extra: int) -> None:
        self.clock.sleep(number * 2 + extra / 4)
        self.true_seconds += number * 2 + extra / 4

    def do_freeze(self, _key: str, number: int, extra: int) -> None:
        """Sleep: the monotonic clock stands still, or counts the first part only."""
        seconds = number * 5.0 + extra
        self.clock.advance(wall=seconds, monotonic=min(extra / 10, seconds))
        self.true_seconds += seconds

    def do_step(self, _key: str, number: int, extra: int) -> None:
        """Set the wall clock; the cache is used before and after, or nobody could know of it."""
        self.stepped = True
        self.local.put("watch", 0, ttl_seconds=0)
        self.clock.advance(wall=(extra - 5) * (number + 1) * 3.0, monotonic=0.0)
        self.local.put("watch", 0, ttl_seconds=0)


@given(STEPS)
@settings(max_examples=150)
def test_a_value_is_served_exactly_while_it_lives(steps: list[Step]) -> None:
    World().run(steps)


@given(STEPS)
@settings(max_examples=100)
def test_with_too_little_room_no_wrong_value_is_served(steps: list[Step]) -> None:
    World(max_entries=2).run(steps)


def random_steps(seed: int) -> list[Step]:
    chance = random.Random(seed)
    verbs = ["put"] * 4 + ["get"] * 4 + ["drop", "tag", "pass", "pass", "freeze", "step", "flush"]
    return [
        (chance.choice(verbs), chance.randrange(4), chance.randrange(8), chance.randrange(10))
        for _ in range(60)
    ]


class WallBlind(Local):
    """Age by the monotonic clock only."""

    def __init__(self, *, clock: Clock, **bounds: Any) -> None:  # Any: as in Local
        super().__init__(clock=_OneClock(clock.monotonic), **bounds)


class MonotonicBlind(Local):
    """Age by the wall clock only."""

    def __init__(self, *, clock: Clock, **bounds: Any) -> None:  # Any: as in Local
        super().__init__(clock=_OneClock(clock.wall), **bounds)


class _OneClock:
    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def wall(self) -> float:
        return self._read()

    def monotonic(self) -> float:
        return self._read()


class Unwatchful(Local):
    """Take no notice of a clock that is set back."""

    def _follow_clocks(self) -> None:
        self._least_gap, self._most_gap = -1e18, 1e18


class FenceBlind(Local):
    """Let any put replace any value."""

    def put(self, key: str, value: object, **options: Any) -> bool:  # Any: as in Local.put
        return super().put(key, value, **{**options, "fence": 0})


class AgeBlind(Local):
    """Take every value for new."""

    def put(self, key: str, value: object, **options: Any) -> bool:  # Any: as in Local.put
        return super().put(key, value, **{**options, "since": None})


class TagBlind(Local):
    """Take no notice of an invalidated tag."""

    def drop_tag(self, tag: str, *, mark: str | None = None) -> int:
        return 0 if tag or mark else 1


MUTANTS = [WallBlind, MonotonicBlind, Unwatchful, FenceBlind, AgeBlind, TagBlind]


def test_random_histories_pass_and_hit_often() -> None:
    worlds = [World() for _ in range(100)]

    for seed, world in enumerate(worlds):
        world.run(random_steps(seed))

    assert sum(world.hits for world in worlds) > 500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_variant_is_noticed(mutant: type[Local]) -> None:
    assert any(fails(mutant, seed) for seed in range(100))


def test_a_variant_that_shares_what_can_be_changed_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_module, "frozen_bytes", lambda _: 1)

    assert any(fails(Local, seed) for seed in range(100))


def fails(cache: type[Local], seed: int) -> bool:
    try:
        World(cache).run(random_steps(seed))
    except AssertionError:
        return True
    return False
