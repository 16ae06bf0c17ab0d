"""The table of `renew` (PROTOCOL §2) in Python, row by row; see claim_table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.answers import Lost, Renewed, milliseconds
from tests.properties.protocol.memory import COOLING, superseding

if TYPE_CHECKING:
    from sekali.answers import Lease
    from sekali.keys import Slot
    from tests.properties.protocol.memory import Memory


def renew(
    memory: Memory, lease: Lease, owner: str, *, lease_seconds: float, started: bool, now: int
) -> Renewed | Lost:
    """Answer a renewal and write what its row says."""
    ask = lease.ask
    slot = memory.keyspace.of(ask.name, ask.id, ask.key)
    k1, k2, k4 = memory.hash(slot.record), memory.text(slot.lease), memory.hash(slot.key)
    known = k4["owner"] if k4 is not None else ""

    if k1 is not None and k1["st"] == "done":
        memory.hit("renew 1", "done")
        return Lost("done", known)
    if k1 is not None and k1["st"] == "failed":
        memory.hit("renew 1", "failed")
        return Lost("failed", known)

    if k2 not in (None, lease.token):
        memory.hit("renew 2", "cooling" if k2 == COOLING else "held")
        return Lost("held", known)

    by_key = superseding(k4, lease.token, lease.fence)
    by_job = superseding(k1, lease.token, lease.fence)
    if by_key or by_job:
        memory.hit("renew 3", f"key {by_key}" if by_key else f"job {by_job}")
        return Lost("superseded", known)

    if k4 is not None and k4["tk"] == lease.token and k4["st"] == "ended":
        memory.hit("renew 4", "by the key")
        return Lost("ended", known)
    # The table names the key's record only (docs/design/coordination.md).
    if k1 is not None and k1["tk"] == lease.token and k1["st"] == "retry":
        memory.hit("renew 4", "by the job")
        return Lost("ended", known)

    invalidated = _keep_key(memory, slot, lease, owner, now)
    _keep_record(memory, slot, lease, owner, started=started, now=now)
    lease_ends = now + milliseconds(lease_seconds)
    memory.set(slot.lease, lease.token, lease_ends)
    memory.put(slot.active, {slot.key.decode(): str(lease_ends)}, now + ask.terms.ms.key_ttl)
    return Renewed(invalidated)


def _keep_key(memory: Memory, slot: Slot, lease: Lease, owner: str, now: int) -> bool:
    """Row 5, K4: mine goes on; absent or older becomes mine, without the right to fill."""
    k4 = memory.hash(slot.key)
    ends_ms = now + lease.ask.terms.ms.key_ttl
    if k4 is not None and k4["tk"] == lease.token and int(k4["f"]) == lease.fence:
        invalidated = k4["inv"] == "1"
        memory.hit("renew 5", "key mine", "invalidated" if invalidated else "")
        memory.put(slot.key, {}, ends_ms)
        return invalidated
    memory.hit("renew 5", "key absent" if k4 is None else "key older")
    key = {
        "f": str(lease.fence),
        "tk": lease.token,
        "owner": owner,
        "id": lease.ask.id,
        "st": "running",
        "inv": "1",
        "started": str(now),
        "first": "000",
    }
    memory.put(slot.key, key, ends_ms)
    return True


def _keep_record(
    memory: Memory, slot: Slot, lease: Lease, owner: str, *, started: bool, now: int
) -> None:
    """Row 5, K1: mine is marked; absent or older becomes mine, a suspect's."""
    k1 = memory.hash(slot.record)
    ends_ms = now + milliseconds(lease.ask.terms.record_ttl_seconds)
    if k1 is not None and k1["tk"] == lease.token:
        if started:
            memory.hit("renew 5", f"marks {k1['pre']}")
            counted = int(k1["at"]) + (k1["pre"] == "lazy")
            memory.put(slot.record, {"at": str(counted), "pre": "sure"}, ends_ms)
        return
    met = "job absent" if k1 is None else "job older"
    memory.hit("renew 5", met, "started" if started else "not started")
    before = int(k1.get("at", "0")) if k1 is not None else 0
    record = {
        "st": "running",
        "f": str(lease.fence),
        "tk": lease.token,
        "ph": lease.ask.payload_hash,
        "at": str(before + started),
        # The table names no `pre` here. A start that is told is sure; else nothing is counted yet.
        "pre": "sure" if started else "lazy",
        "su": "1",
        "owner": owner,
        "started": str(now),
    }
    memory.put(slot.record, record, ends_ms)
