"""Bring about what many tests begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekali.answers import Acquired
from tests.properties.protocol.steps import Deviation

if TYPE_CHECKING:
    from sekali.answers import Lease
    from tests.properties.protocol.world import World


def held(world: World, id_: str, owner: str = "ann", **changes: Any) -> Lease:  # Any: as in ask
    """Claim an id that can be claimed, and return the lease."""
    answer = world.claim(world.ask(id_, **changes), owner)
    if not isinstance(answer, Acquired):
        raise Deviation(f"{id_} should have been acquired, got {answer}")
    return answer.lease


def let_body_fail(world: World, id_: str, *, error: str = "OSError", cooled: bool = True) -> Lease:
    """Let one attempt fail in good order, and its cooling end."""
    lease = held(world, id_)
    world.finish(lease, "T", result=error.encode())
    if cooled:
        world.lose(world.slot(id_).lease)
    return lease


def run_and_die(world: World, id_: str, *, owner: str = "ann") -> None:
    """Let a body start, and its container die."""
    lease = held(world, id_, owner)
    world.renew(lease, owner, started=True)
    world.lose(world.slot(id_).lease)
