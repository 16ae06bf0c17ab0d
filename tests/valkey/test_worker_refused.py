"""A cache that answers but takes nothing: for the moment, or for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sekali.refusals import Refused
from sekali.shared import is_passing
from tests.worker_world.faults import Script
from tests.worker_world.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis import Redis

    from sekali.shared import Command


@pytest.fixture
def world(valkey: Redis) -> World:
    return World(valkey)


@pytest.mark.parametrize("mode", ["recorded", "redis"])
def test_finish_that_is_refused_for_the_moment_is_repeated_and_no_other(
    world: World, mode: str
) -> None:
    """Symptom: a primary without room for a moment made mode redis do finished work again."""
    here = world.environment(Script(finish=["refused"] * 2), durable_mode=mode)
    sent: list[int] = []
    honest = here.container.shared.flush

    def flush(commands: Sequence[Command], **options: Any) -> Any:  # Any: as `Shared.flush`
        if options["operation"] == "finish":
            sent.append(len(commands))
        return honest(commands, **options)

    here.container.shared.flush = flush  # type: ignore[method-assign]
    world.body = lambda *_: "fine"
    for job_id in ("a", "b"):
        world.send(job_id, {}, name="once")

    returned = world.deliver(here)

    assert returned == []
    assert world.server.client.keys("*:lease:*") == []
    # Two finishes and the note of how long jobs run; then only what was refused.
    assert sent == [3, 1, 1]


@pytest.mark.parametrize(
    ("reply", "passing"),
    [
        (Refused("READONLY You can't write against a read only replica."), True),
        (Refused("OOM command not allowed when used memory > 'maxmemory'."), True),
        (Refused("CLUSTERDOWN The cluster is down"), True),
        (Refused("NOREPLICAS Not enough good replicas to write."), True),
        (Refused("LOADING Valkey is loading the dataset in memory"), True),
        (Refused("NOPERM this user has no permissions to run the 'evalsha' command"), False),
        (Refused("WRONGTYPE Operation against a key holding the wrong kind of value"), False),
        ([b"done", b"1"], False),
        (None, False),
    ],
    ids=str,
)
def test_only_what_the_server_s_state_refuses_is_worth_another_try(
    reply: object, *, passing: bool
) -> None:
    assert is_passing(reply) == passing
