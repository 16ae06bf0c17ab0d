"""The tables of `finish` and `invalidate` (PROTOCOL §2) in Python, row by row; see claim_table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sekali.answers import (
    Finished,
    FinishFailed,
    FinishMismatch,
    FinishSuperseded,
    GivenBack,
    milliseconds,
)
from tests.properties.protocol.memory import COOLING, superseding

if TYPE_CHECKING:
    from sekali.answers import End, FinishAnswer
    from sekali.keys import Slot
    from tests.properties.protocol.memory import Hash, Memory

INVALIDATE_TTL_MS: Final = 1_800_000


def finish(memory: Memory, end: End, now: int) -> FinishAnswer:
    """Answer a finish and write what its row says."""
    return _Finish.read(memory, end, now).answer()


def invalidate(memory: Memory, name: str, key: str, now: int) -> bool:
    """Drop the value; mark the key's record if there is one."""
    slot = memory.keyspace.of(name, key, key)
    known = memory.hash(slot.key) is not None
    memory.hit(
        "invalidate",
        "key known" if known else "key unknown",
        "with a value" if memory.text(slot.value) else "without a value",
    )
    memory.drop(slot.value)
    if known:
        memory.put(slot.key, {"inv": "1"}, now + INVALIDATE_TTL_MS)
    return known


@dataclass(slots=True)
class _Finish:
    """One finish, with what it reads: K1, K2 and K4 under the names of PROTOCOL §1."""

    memory: Memory
    end: End
    now: int
    slot: Slot
    k1: Hash | None
    k2: str | None
    k4: Hash | None

    @classmethod
    def read(cls, memory: Memory, end: End, now: int) -> _Finish:
        slot = memory.keyspace.of(end.ask.name, end.ask.id, end.ask.key)
        return cls(
            memory, end, now, slot,
            memory.hash(slot.record), memory.text(slot.lease), memory.hash(slot.key),
        )  # fmt: skip

    def answer(self) -> FinishAnswer:
        """Return the answer of the first row that matches."""
        end, k1 = self.end, self.k1

        if k1 is not None and k1["ph"] != end.ask.payload_hash:
            self.memory.hit("finish 1", end.outcome)
            return FinishMismatch()

        if k1 is not None and k1["st"] == "done":
            self.memory.hit("finish 2", end.outcome, self._met)
            self._release()
            return Finished(k1["result"].encode(), filled=False)

        if k1 is not None and k1["st"] == "failed" and not end.recorded:
            self.memory.hit("finish 3", end.outcome, self._met)
            self._release()
            return FinishFailed(k1["error"].encode())

        superseded = self._superseded
        if superseded and not end.recorded:
            self.memory.hit("finish 4", end.outcome, superseded)
            return FinishSuperseded()

        recorded = "recorded" if superseded else ""
        if end.outcome in ("D", "S"):
            return self._done(recorded)

        if end.outcome == "X":
            self.memory.hit("finish 6", self._met, recorded)
            self._write_record({"st": "failed", "error": end.result.decode()})
            self._release()
            return FinishFailed(end.result)

        if k1 is None or k1["tk"] == end.token:
            return self._given_back()

        self.memory.hit("finish 8", end.outcome)
        return FinishSuperseded()

    def _done(self, recorded: str) -> Finished:
        """Row 5."""
        end, live = self.end, self._live
        fillable = live and self.k4 is not None and self.k4["inv"] == "0"
        storable = end.header != b"" and end.value_ttl_seconds > 0
        own = end.outcome == "D"
        self._write_record({"st": "done", "result": end.result.decode()})
        if own and fillable and storable:
            value_ends = self.now + milliseconds(end.value_ttl_seconds)
            self.memory.set(self.slot.value, (end.header + end.result).decode(), value_ends)
        elif own and fillable:
            self.memory.drop(self.slot.value)
        fill = "no fill"
        if live:
            fill = "refused: invalidated"
        if fillable:
            fill = "filled" if storable else "not storable"
        met = self._met if end.token else "served"
        self.memory.hit("finish 5", end.outcome, met, recorded, fill if own else "")
        self._release()
        return Finished(end.result, own and fillable and storable)

    def _given_back(self) -> GivenBack:
        """Row 7."""
        end, k1, terms = self.end, self.k1, self.end.ask.terms
        pre = "job absent" if k1 is None else k1.get("pre", "")
        self.memory.hit("finish 7", end.outcome, self._met, pre)
        attempts = int(k1.get("at", "0")) if k1 is not None else 0
        if end.outcome == "U" and pre == "counted":
            attempts -= 1
        error = {"error": end.result.decode()} if end.outcome == "T" else {}
        self._write_record({"st": "retry", "at": str(attempts), "pre": "sure"} | error)
        self._release()
        if self.k4 is None and self.k2 == end.token:
            self.memory.hit("finish 7", "key absent, lease mine")
            self.memory.drop(self.slot.lease)
        if end.outcome != "T":
            return GivenBack(0.0)
        # A record that was lost counts none of its bodies: it cools like after a first failure.
        doublings = max(attempts - 1, 0)
        cooling_ms = min(
            milliseconds(terms.cooling_cap_seconds),
            milliseconds(terms.cooling_base_seconds) * 2**doublings,
        )
        if self._live:
            self.memory.set(self.slot.lease, COOLING, self.now + cooling_ms)
        return GivenBack(cooling_ms / 1000)

    @property
    def _live(self) -> bool:
        end, k4 = self.end, self.k4
        mine = k4 is not None and k4["tk"] == end.token and int(k4["f"]) == end.fence
        running = k4 is not None and k4["st"] == "running"
        return mine and running and self.k2 in (None, end.token)

    @property
    def _met(self) -> str:
        return "live" if self._live else "late"

    @property
    def _superseded(self) -> str:
        by_key = superseding(self.k4, self.end.token, self.end.fence)
        by_job = superseding(self.k1, self.end.token, self.end.fence)
        if by_key:
            return f"key {by_key}"
        return f"job {by_job}" if by_job else ""

    def _write_record(self, fields: Hash) -> None:
        """Write K1 with the fence, token and payload of this claim."""
        end = self.end
        identity = {"f": str(end.fence), "tk": end.token, "ph": end.ask.payload_hash}
        ends_ms = self.now + milliseconds(end.ask.terms.record_ttl_seconds)
        self.memory.put(self.slot.record, identity | fields, ends_ms)

    def _release(self) -> None:
        """End a claim that is live; what it read stays as it was read."""
        if self._live:
            ends_ms = self.now + self.end.ask.terms.ms.key_ttl
            self.memory.put(self.slot.key, {"st": "ended"}, ends_ms)
            self.memory.drop(self.slot.lease)
            self.memory.unlist(self.slot.active, self.slot.key)
