"""Watch what PROTOCOL §5 promises, from outside: real answers and real states, no decision table.

Each rule is stated as a user would feel it broken. What the protocol does not promise is left out
by name: a failover that loses an acknowledged invalidation, counts of a record that was lost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sekali.answers import (
    Acquired,
    Ask,
    Busy,
    Done,
    End,
    Failed,
    Finished,
    FinishMismatch,
    FinishSuperseded,
    Lease,
    Lost,
    Mismatch,
    Quarantined,
    Served,
)
from tests.properties.protocol.memory import superseding

if TYPE_CHECKING:
    from sekali.keys import Keyspace, Slot
    from tests.properties.protocol.memory import Hash, State
    from tests.properties.protocol.steps import Seen

UNWRITTEN = (
    Done, Failed, Mismatch, Served, Busy, Quarantined, Lost, FinishSuperseded, FinishMismatch,
)  # fmt: skip

Claim = tuple[str, int]
"""A token and a fence: one claim, as its holder knows it."""


class Broken(AssertionError):
    """A promise of PROTOCOL §5 does not hold."""


@dataclass(slots=True)
class KeyMemory:
    """What is known of one key from outside."""

    newest: Claim = ("", 0)
    newest_ms: int = 0
    issued: set[Claim] = field(default_factory=set)
    invalidated: set[Claim] = field(default_factory=set)
    released: dict[Claim, bytes] = field(default_factory=dict)
    rewound: bool = False


@dataclass(slots=True)
class RecordMemory:
    """What is known of one job id from outside."""

    bodies: int = 0
    vain_marks: int = 0
    lost: bool = False
    results: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Invariants:
    """Check each thing that was seen against everything seen before."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self.keys: dict[bytes, KeyMemory] = defaultdict(KeyMemory)
        self.records: dict[bytes, RecordMemory] = defaultdict(RecordMemory)

    def body_started(self, ask: Ask) -> None:
        self.records[self._slot(ask).record].bodies += 1

    def marked_in_vain(self, ask: Ask) -> None:
        """Know of a mark without a body: "a container that dies between them counts one more"."""
        self.records[self._slot(ask).record].vain_marks += 1

    def check_attempts(self, state: State) -> None:
        """Confirmed count ≤ bodies started ≤ at + 1, for every record that was never lost."""
        for name, memory in self.records.items():
            record = _hash(state, name)
            if record is None or memory.lost or record["st"] not in ("running", "retry"):
                continue
            count = int(record["at"])
            confirmed = count - (record["pre"] == "counted") - memory.vain_marks
            if not confirmed <= memory.bodies <= count + 1:
                raise Broken(f"attempts: {memory} beside {record}")

    def check(self, seen: Seen) -> None:
        """Raise `Broken` with the rule that does not hold."""
        for name, stored in seen.after.items():
            _must(stored.ends_ms > seen.now_ms, seen, f"no stored key without a TTL: {name}")
        if seen.op.lost:
            self._forget(seen)
            return
        _must(
            not isinstance(seen.answer, UNWRITTEN)
            or (isinstance(seen.answer, Done) and isinstance(seen.op.about, End))
            or seen.before == seen.after,
            seen,
            "nothing is written beside such an answer",
        )
        self._check_finality(seen)
        if seen.op.revokes is not None and seen.answer:
            lease = seen.op.revokes
            slot = self._slot(lease.ask)
            self.keys[slot.key].released[lease.token, lease.fence] = slot.record
        match seen.op.about:
            case Ask() as ask:
                self._check_claim(seen, ask)
                self._check_lease(seen, self._slot(ask), ask.token)
            case Lease() as lease:
                slot = self._slot(lease.ask)
                self._check_strangers(seen, slot, (lease.token, lease.fence))
                self._check_lease(seen, slot, lease.token)
            case End() as end:
                slot = self._slot(end.ask)
                self._check_strangers(seen, slot, (end.token, end.fence))
                self._check_fill(seen, slot, (end.token, end.fence))
                self._check_results(seen, end)
                self._check_lease(seen, slot, end.token)
                self._note_release(seen, slot, end)
            case str(key):
                slot = self._keyspace.of("job", key, key)
                _must(_text(seen.after, slot.value) is None, seen, "an invalidated value is gone")
                memory = self.keys[slot.key]
                memory.invalidated |= memory.issued

    # --- one rule each ---

    def _check_claim(self, seen: Seen, ask: Ask) -> None:
        memory, record = self.keys[self._slot(ask).key], self.records[self._slot(ask).record]
        if isinstance(seen.answer, Done):
            known = record.results[seen.answer.result.decode()]
            _must(ask.payload_hash in known, seen, "payloads never mix")
        if not isinstance(seen.answer, Acquired):
            return
        lease = seen.answer.lease
        claim = (lease.token, lease.fence)
        before = _hash(seen.before, self._slot(ask).record)
        if before is not None and int(before["f"]) <= ask.rearm:
            record.bodies, record.lost = 0, True  # its former holders may still start one
        if claim in memory.issued:
            return
        newest_token, newest_fence = memory.newest
        tied = lease.fence == newest_fence and lease.token != newest_token
        _must(
            lease.fence > newest_fence or (tied and memory.newest_ms == seen.now_ms),
            seen,
            f"fences of a key grow: {lease.fence} after {newest_fence}",
        )
        memory.newest, memory.newest_ms = claim, seen.now_ms
        memory.issued.add(claim)
        memory.rewound = False

    def _check_lease(self, seen: Seen, slot: Slot, token: str) -> None:
        """One string is the lease: whoever finds another's in it leaves it alone."""
        before, after = _text(seen.before, slot.lease), _text(seen.after, slot.lease)
        if before not in (None, token):
            _must(after == before, seen, "one live lease per key")
        record = _hash(seen.after, slot.key)
        if after is not None and after == token and record is not None:
            claim = (token, int(record["f"]))
            revived = claim in self.keys[slot.key].released and record["tk"] == token
            _must(not revived, seen, "a released lease is never revived")

    def _check_strangers(self, seen: Seen, slot: Slot, claim: Claim) -> None:
        """A renew or a finish changes its own id, and its key only if nobody is newer on it."""
        token, fence = claim
        record = _hash(seen.before, slot.key)
        own = {slot.record.decode()}
        newer = record is not None and (
            int(record["f"]) > fence or (int(record["f"]) == fence and record["tk"] != token)
        )
        if token and not newer:
            own |= {name.decode() for name in (slot.lease, slot.value, slot.key, slot.active)}
        for name in set(seen.before) | set(seen.after):
            _must(
                name in own or seen.before.get(name) == seen.after.get(name),
                seen,
                f"a stale holder changes nothing of a newer one: {name}",
            )

    def _check_fill(self, seen: Seen, slot: Slot, claim: Claim) -> None:
        before, after = _text(seen.before, slot.value), _text(seen.after, slot.value)
        memory = self.keys[slot.key]
        if after is None or after == before or memory.rewound:
            return
        _must(claim not in memory.invalidated, seen, "a value never predates an invalidation")
        _must(claim == memory.newest, seen, "only the newest claim fills")

    def _check_finality(self, seen: Seen) -> None:
        for name, stored in seen.before.items():
            if not isinstance(stored.value, dict) or stored.value.get("st") != "done":
                continue
            after = _hash(seen.after, name.encode())
            _must(
                after is not None and after == stored.value, seen, "a finished record never changes"
            )

    def _check_results(self, seen: Seen, end: End) -> None:
        results = self.records[self._slot(end.ask).record].results
        results[end.result.decode()].add(end.ask.payload_hash)
        if isinstance(seen.answer, Finished):
            known = results[seen.answer.result.decode()]
            _must(end.ask.payload_hash in known, seen, "payloads never mix")

    # --- what is remembered ---

    def _note_release(self, seen: Seen, slot: Slot, end: End) -> None:
        before, after = _hash(seen.before, slot.key), _hash(seen.after, slot.key)
        if (
            before is not None
            and after is not None
            and before["st"] == "running"
            and after["st"] == "ended"
        ):
            self.keys[slot.key].released[end.token, end.fence] = slot.record

    def _forget(self, seen: Seen) -> None:
        for key, memory in self.keys.items():
            memory.released = {
                claim: record
                for claim, record in memory.released.items()
                if _is_known_to_be_over(claim, _hash(seen.after, key), _hash(seen.after, record))
            }
            if key.decode() in seen.op.lost and seen.op.rewound:
                memory.invalidated.clear()
                memory.rewound = True
        for name in seen.op.lost & seen.before.keys():
            if ":job:" in name:
                self.records[name.encode()].lost = True

    def _slot(self, ask: Ask) -> Slot:
        return self._keyspace.of(ask.name, ask.id, ask.key)


def _is_known_to_be_over(claim: Claim, key: Hash | None, record: Hash | None) -> bool:
    """Tell whether a loss has left anything that tells of a claim's end."""
    token, fence = claim
    return any(
        one is not None
        and (
            superseding(one, token, fence)
            or one["st"] in ("done", "failed")
            or (one["tk"] == token and one["st"] in ("ended", "retry"))
        )
        for one in (key, record)
    )


def _must(holds: object, seen: Seen, rule: str) -> None:
    if not holds:
        raise Broken(f"{rule} ({seen.op.label} answered {seen.answer})")


def _hash(state: State, key: bytes) -> Hash | None:
    stored = state.get(key.decode())
    return stored.value if stored is not None and isinstance(stored.value, dict) else None


def _text(state: State, key: bytes) -> str | None:
    stored = state.get(key.decode())
    return stored.value if stored is not None and isinstance(stored.value, str) else None
