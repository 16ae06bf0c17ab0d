"""How long each job usually runs is kept beside the leases. Also run against every mutant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.clock import SystemClock
from sekali.leaks import Leaks
from sekali.shared import Shared

if TYPE_CHECKING:
    from tests.properties.protocol.world import World


def test_usual_runs_are_kept_for_a_week(world: World) -> None:
    runs, week_ms = world.keyspace.runs, 7 * 86_400_000
    leaks = Leaks(world.keyspace, Shared(lambda: world.client, clock=SystemClock()))

    world.send(leaks.note_runs({"one": 1.5, "two": 0.25}))

    assert world.client.hgetall(runs) == {b"one": b"1.500000", b"two": b"0.250000"}
    assert week_ms - 5_000 < world.client.pttl(runs) <= week_ms
