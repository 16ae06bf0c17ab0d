"""What a revocation does (PROTOCOL §2, under `invalidate`); see claim_table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sekali.answers import Lease
    from tests.properties.protocol.memory import Memory

REVOKE_TTL_MS: Final = 1_800_000
NOBODY: Final = "revoked"


def revoke(memory: Memory, lease: Lease, now: int) -> int:
    """Take the lease from exactly this holder; returns the new fence, 0 where it holds no more."""
    ask = lease.ask
    slot = memory.keyspace.of(ask.name, ask.id, ask.key)
    k4 = memory.hash(slot.key)
    mine = k4 is not None and k4["tk"] == lease.token and int(k4["f"]) == lease.fence
    if k4 is None or not mine or k4["st"] != "running":
        memory.hit("revoke", "mine, ended" if mine else "not mine")
        return 0
    memory.hit("revoke", "running")
    fence = lease.fence + 1
    fields = {"f": str(fence), "tk": NOBODY, "st": "ended", "inv": "1"}
    memory.put(slot.key, fields, now + REVOKE_TTL_MS)
    memory.drop(slot.lease)
    memory.unlist(slot.active, slot.key)
    return fence
