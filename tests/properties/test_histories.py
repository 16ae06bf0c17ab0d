"""Thousands of random steps on a real Valkey, beside the decision tables and PROTOCOL §5."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.properties.protocol.coverage import HISTORY_STEPS, ROWS, SEEDS
from tests.properties.protocol.histories import History
from tests.properties.protocol.steps import BUCKETS, IDS, NAME
from tests.properties.protocol.world import World

if TYPE_CHECKING:
    from redis import Redis


@pytest.mark.slow
def test_scripts_do_what_the_tables_say_through_random_histories(valkey: Redis) -> None:
    world = World(valkey)

    for seed in SEEDS:
        try:
            History(world, Random(seed)).run(HISTORY_STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {world.steps}: {error}") from error

    print(_table(world))  # noqa: T201 shown with -rP
    assert world.steps >= 5_000
    assert [row for row in ROWS if world.memory.hits[row] == 0] == []


def test_histories_have_three_ids_for_each_key_and_two_keys_in_a_bucket(valkey: Redis) -> None:
    world = World(valkey)

    buckets = [world.keyspace.of(NAME, ids[0], key).active for key, ids in IDS.items()]

    assert all(len(ids) >= 3 for ids in IDS.values())
    assert sorted(buckets.count(bucket) for bucket in set(buckets)) == [1, 2]
    assert len(set(buckets)) == BUCKETS


def test_the_same_seed_makes_the_same_history(valkey: Redis) -> None:
    first, second = World(valkey), World(valkey)

    History(first, Random(7)).run(HISTORY_STEPS)
    History(second, Random(7)).run(HISTORY_STEPS)

    assert (first.steps, first.memory.hits) == (second.steps, second.memory.hits)


def test_the_servers_clock_stands_still_within_a_step(valkey: Redis) -> None:
    """What the model's exact times, and ties, rest on."""
    pipeline = valkey.pipeline(transaction=True)
    for number in range(2_000):
        pipeline.set(f"key-{number}", "", px=1_000_000)
    for number in (0, 1_999):
        pipeline.pexpiretime(f"key-{number}")

    *_, first, last = pipeline.execute()

    assert first == last


def _table(world: World) -> str:
    lines = [f"{world.steps} steps of {len(SEEDS)} histories; how often each row met each state"]
    lines += [f"{count:7d}  {row}" for row, count in sorted(world.memory.hits.items())]
    return "\n".join(lines)
