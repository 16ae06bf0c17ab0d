"""The invariants have teeth of their own: broken scripts break them where no table is asked."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.properties.protocol.coverage import HISTORY_STEPS, SEEDS
from tests.properties.protocol.histories import History
from tests.properties.protocol.invariants import Broken
from tests.properties.protocol.mutants import broken_scripts, text_of
from tests.properties.protocol.mutation import Mutant
from tests.properties.protocol.world import World

if TYPE_CHECKING:
    from redis import Redis


# Two holders that both fill are rare: the key's record is lost between them.
LATER_SEEDS = (1003,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "file", "old", "new"),
    [
        ("no stored key without a TTL", "words", "redis.call('PEXPIRE', KEYS[5], key_ttl_ms)", ""),
        (
            "nothing is written beside such an answer",
            "claim",
            "return { 'mismatch' }",
            "redis.call('HSET', KEYS[1], 'seen', '1')\nreturn { 'mismatch' }",
        ),
        ("payloads never mix", "claim", "job[2] ~= payload_hash", "false"),
        ("fences of a key grow", "claim", ", now * 1000", ""),
        ("one live lease per key", "claim", "if lease then -- row 7", "if false then"),
        ("one live lease per key", "renew", "lease ~= token", "false"),
        ("a released lease is never revived", "renew", "key[3] == 'ended'", "false"),
        (
            "a stale holder changes nothing of a newer one",
            "finish",
            "local mine = key[2] == token and",
            "local mine =",
        ),
        ("a value never predates an invalidation", "finish", " and key[4] == '0'", ""),
        ("only the newest claim fills", "renew", "'inv', '1'", "'inv', '0'"),
        ("a finished record never changes", "finish", "if status == 'done' then", "if false then"),
        ("an invalidated value is gone", "invalidate", "redis.call('DEL', KEYS[1])", ""),
        ("attempts", "claim", "attempts = attempts - 1", ""),
    ],
)
def test_a_broken_script_breaks_the_rule(
    valkey: Redis, rule: str, file: str, old: str, new: str
) -> None:
    source = text_of(file)
    assert source.count(old) == 1
    mutant = Mutant(file, rule, source.replace(old, new))
    world = World(valkey, broken_scripts(mutant), compares=False)

    with pytest.raises(Broken) as raised:
        _run(world, LATER_SEEDS if "newest" in rule else SEEDS)

    assert str(raised.value).startswith(rule)


def test_sound_scripts_break_no_rule_without_the_tables(valkey: Redis) -> None:
    world = World(valkey, compares=False)

    _run(world, SEEDS[:10])

    assert world.memory.state == {}  # the tables were not asked
    assert world.steps > 500


def _run(world: World, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        History(world, Random(seed)).run(HISTORY_STEPS)
