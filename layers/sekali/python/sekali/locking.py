"""Hold a lock of one's own, in a job or anywhere else: `sekali.lease`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sekali.answers import LONGEST_INVOCATION_SECONDS
from sekali.invocation import CURRENT
from sekali.locks import Locksmith
from sekali.warm import container, owner_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sekali.leases import HeldLease


@contextmanager
def lease(
    key: str, *, wait_seconds: float = 0.0, lease_seconds: float | None = None
) -> Iterator[HeldLease]:
    """Hold the lock `key` for the block, across all containers of the namespace.

    Inside a job it belongs to the job's invocation and never outlives it. Elsewhere its heartbeat
    lasts as long as the block.

    Args:
        key: what is locked; locks, cache keys and jobs do not meet, even under one text.
        wait_seconds: how long to wait for another holder; 0 asks once.
        lease_seconds: how long a dead holder would block the key; None is SEKALI_LEASE_SECONDS.

    Raises:
        LeaseBusy: somebody else still holds it.
        SharedUnavailable: the shared cache did not answer: nothing is held.
    """
    here = container()
    current = CURRENT.get()
    invocation = current or here.invocation(
        owner=owner_name("-"), remaining_seconds=LONGEST_INVOCATION_SECONDS
    )
    locksmith = Locksmith(invocation, here.shared, here.default_terms(), emit=here.emit)
    try:
        with locksmith.hold(key, wait_seconds=wait_seconds, lease_seconds=lease_seconds) as held:
            yield held
    finally:
        if current is None:
            invocation.heartbeat.stop()
