"""The table of `claim` (PROTOCOL §2) in Python, row by row.

Written from the table and not from the script. Where the table leaves something open, the choice
stands here with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sekali.answers import (
    Acquired,
    Busy,
    Done,
    Failed,
    Lease,
    Mismatch,
    Quarantined,
    Served,
    milliseconds,
)
from tests.properties.protocol.memory import COOLING, fence_of

if TYPE_CHECKING:
    from sekali.answers import Ask, ClaimAnswer
    from sekali.keys import Slot
    from tests.properties.protocol.memory import Hash, Memory


def claim(memory: Memory, ask: Ask, owner: str, now: int) -> ClaimAnswer:
    """Answer a claim and write what its row says."""
    return _Claim.read(memory, ask, owner, now).answer()


@dataclass(slots=True)
class _Claim:
    """One claim, with what it reads: K1 to K4 under the names of PROTOCOL §1."""

    memory: Memory
    ask: Ask
    owner: str
    now: int
    slot: Slot
    k1: Hash | None
    k2: str | None
    k3: str | None
    k4: Hash | None

    @classmethod
    def read(cls, memory: Memory, ask: Ask, owner: str, now: int) -> _Claim:
        slot = memory.keyspace.of(ask.name, ask.id, ask.key)
        return cls(
            memory, ask, owner, now, slot,
            memory.hash(slot.record), memory.text(slot.lease),
            memory.text(slot.value), memory.hash(slot.key),
        )  # fmt: skip

    def answer(self) -> ClaimAnswer:
        """Return the answer of the first row that matches."""
        ask, k1 = self.ask, self.k1

        if k1 is not None and k1["ph"] != ask.payload_hash:
            self.memory.hit("claim 1", k1["st"])
            return Mismatch()

        if k1 is not None and k1["st"] == "done":
            self.memory.hit("claim 2")
            return Done(k1["result"].encode())

        if k1 is not None and k1["st"] == "failed" and int(k1["f"]) > ask.rearm:
            self.memory.hit("claim 3", "rearmed too low" if ask.rearm else "")
            return Failed(k1["error"].encode(), int(k1["f"]))

        if self.k4 is not None and self.k4["tk"] == ask.token:
            return self._used_token(self.k4)

        if self.k3 is not None and fence_of(self.k3) > ask.refuse:
            self.memory.hit("claim 6", "refused an older one" if ask.refuse else "")
            left_ms = self.memory.ends_ms(self.slot.value) - self.now
            return Served(self.k3.encode(), left_ms / 1000)

        if self.k2 is not None:
            self.memory.hit("claim 7", "cooling" if self.k2 == COOLING else "held")
            return self._busy(self.k3 if ask.want_stale else None)

        attempts, suspect = self._left_over()
        if k1 is not None and attempts >= ask.terms.max_attempts:
            self.memory.hit("claim 8", k1["st"])
            error = k1.get("error", "").encode()
            return Quarantined(attempts, error, k1["owner"], int(k1["f"]))

        return self._grant(attempts, suspect=suspect)

    def _used_token(self, k4: Hash) -> ClaimAnswer:
        """Rows 4 and 5: this token was here before."""
        k1 = self.k1
        if (
            k4["st"] == "running"
            and k1 is not None
            and k1["tk"] == self.ask.token
            and k1["st"] == "running"
            and self.k2 in (None, self.ask.token)
        ):
            self.memory.hit("claim 4", k1["pre"], "lease gone" if self.k2 is None else "")
            self._hold()
            # "As the first time": the attempt that this body is or will be, and what the key's
            # record keeps of the first answer. Without a born mark, memory begins now.
            return self._acquired(
                fence=int(k4["f"]),
                attempt=int(k1["at"]) + (k1["pre"] == "lazy"),
                suspect=k1["pre"] == "lazy",
                first=k4["first"],
                born_ms=int(self.memory.text(self.slot.born) or self.now),
            )
        self.memory.hit("claim 5", k4["st"])
        return self._busy(None)

    def _left_over(self) -> tuple[int, bool]:
        """Return the attempts after a take-back, and whether the id is a suspect."""
        k1 = self.k1
        if k1 is None:
            return 0, False
        if int(k1["f"]) <= self.ask.rearm:
            # "A fresh job once": neither the count nor the suspicion of before counts.
            return 0, False
        attempts = int(k1.get("at", "0"))
        if k1["st"] == "running":
            return attempts - (k1["pre"] == "counted"), True
        return attempts, k1.get("su") == "1"

    def _grant(self, attempts: int, *, suspect: bool) -> Acquired:
        """Row 9."""
        ask, k1, k4, now = self.ask, self.k1, self.k4, self.now
        takeover = k1 is not None and k1["st"] == "running"
        self.memory.hit(
            "claim 9",
            "fresh" if k1 is None else k1["st"],
            f"takeover of {k1['pre']}" if k1 is not None and takeover else "",
            "rearmed" if k1 is not None and int(k1["f"]) <= ask.rearm else "",
        )
        issued = [int(record["f"]) + 1 for record in (k4, k1) if record is not None]
        fence = max(now * 1000, *issued) if issued else now * 1000
        abandoned = k4["owner"] if k4 is not None and k4["st"] == "running" else ""
        first = f"{int(k1 is None)}{int(takeover)}{int(self.k3 is not None)}{abandoned}"
        record = {
            "st": "running",
            "f": str(fence),
            "tk": ask.token,
            "ph": ask.payload_hash,
            "at": str(attempts if suspect else attempts + 1),
            "pre": "lazy" if suspect else "counted",
            "su": str(int(suspect)),
            "owner": self.owner,
            "started": str(now),
        }
        key = {
            "f": str(fence),
            "tk": ask.token,
            "owner": self.owner,
            "id": ask.id,
            "st": "running",
            "inv": "0",
            "started": str(now),
            "first": first,
        }
        record_ends = now + milliseconds(ask.terms.record_ttl_seconds)
        self.memory.put(self.slot.record, record, record_ends)
        self.memory.put(self.slot.key, key, now + ask.terms.ms.key_ttl)
        self._hold()
        born = self.memory.text(self.slot.born) or str(now)
        self.memory.set(self.slot.born, born, now + milliseconds(ask.terms.born_ttl_seconds))
        return self._acquired(
            fence=fence, attempt=attempts + 1, suspect=suspect, first=first, born_ms=int(born)
        )

    def _hold(self) -> None:
        terms = self.ask.terms
        lease_ends = self.now + milliseconds(terms.lease_seconds)
        self.memory.set(self.slot.lease, self.ask.token, lease_ends)
        member = {self.slot.key.decode(): str(lease_ends)}
        self.memory.put(self.slot.active, member, self.now + terms.ms.key_ttl)

    def _busy(self, stale: str | None) -> Busy:
        left_ms, age_ms = 0, 0
        if self.k2 is not None:
            left_ms = self.memory.ends_ms(self.slot.lease) - self.now
            started = int(self.k4["started"]) if self.k4 is not None else self.now
            age_ms = max(self.now - started, 0)
        return Busy(
            remaining_seconds=left_ms / 1000,
            owner=self.k4["owner"] if self.k4 is not None else "",
            age_seconds=age_ms / 1000,
            cooling=self.k2 == COOLING,
            stale=stale.encode() if stale is not None else None,
        )

    def _acquired(
        self, *, fence: int, attempt: int, suspect: bool, first: str, born_ms: int
    ) -> Acquired:
        terms = self.ask.terms
        return Acquired(
            lease=Lease(ask=self.ask, fence=fence, expires_at=terms.lease_seconds),
            attempt=attempt,
            suspect=suspect,
            fresh=first[0] == "1",
            takeover=first[1] == "1",
            older=first[2] == "1",
            abandoned_owner=first[3:],
            born_ms=born_ms,
        )
