"""Claim, renew and finish: build the commands and read the answers.

This module is pure: it sends nothing. The worker puts the commands of a whole batch into one flush
of the shared cache and reads each reply here. What the steps compare, and in which order, stands in
the scripts; what they are for::

    t=0    A claims key k           Acquired, fence 100, valid until 12
    t=1    B claims key k           Busy, 11 s left, held by A
    t=3    A is frozen
    t=12   the lease ends
    t=13   C claims key k           Acquired, fence 200; A is named as the owner that was abandoned
    t=14   A wakes up and finishes  Superseded: nothing of C's is touched
    t=15   C finishes               Finished, the value is stored with fence 200

A lease counts from *before* its claim was sent, by the sender's monotonic clock, so it ends here
never later than on the server. Each command may be sent again after a lost reply and gets the same
answer.

Not guaranteed: that a body never starts twice. A holder that is cut off may still run while its
successor does; what it stores does not count.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sekali.answers import (
    Acquired,
    Ask,
    Busy,
    ClaimAnswer,
    Done,
    End,
    Failed,
    FinishAnswer,
    Finished,
    FinishFailed,
    FinishMismatch,
    FinishSuperseded,
    GivenBack,
    Lease,
    Lost,
    LostReason,
    Mismatch,
    Outcome,
    Quarantined,
    Renewed,
    Seen,
    Served,
    Terms,
    load_of,
    milliseconds,
    new_token,
)
from sekali.clock import Clock, SystemClock
from sekali.keys import Keyspace
from sekali.light_dataclass import dataclass
from sekali.load_claims import LoadClaims
from sekali.scripts import CLAIM, EPOCH, FINISH, INVALIDATE, LOAD, RENEW, Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekali.keys import Slot

__all__ = [
    "Acquired",
    "Ask",
    "Busy",
    "ClaimAnswer",
    "Claims",
    "Command",
    "Done",
    "End",
    "Failed",
    "FinishAnswer",
    "FinishFailed",
    "FinishMismatch",
    "FinishSuperseded",
    "Finished",
    "GivenBack",
    "Lease",
    "Lost",
    "LostReason",
    "Mismatch",
    "Outcome",
    "Quarantined",
    "Renewed",
    "Seen",
    "Served",
    "Terms",
    "new_token",
]

Reply = list[bytes | int | None]
"""What a script answers, as the client hands it over."""

_LOST_REASONS: Final[dict[bytes, LostReason]] = {
    b"done": "done",
    b"failed": "failed",
    b"held": "held",
    b"superseded": "superseded",
    b"ended": "ended",
}

# An invalidation knows no terms, so it keeps the key's record for the longest of them.
_LONGEST_USE_SECONDS: Final = 900.0 + 900.0


@dataclass(frozen=True, slots=True)
class Claims:
    """Build the protocol's commands for one owner, and read their replies."""

    keyspace: Keyspace
    owner: str
    clock: Clock = field(default_factory=SystemClock, kw_only=True)

    def claim(self, ask: Ask) -> Command:
        """Return the command that asks for the lease.

        Raises:
            KeyInvalid: The name, the id or the key cannot be used.
        """
        terms = ask.terms
        lengths = terms.ms
        return Command.run(
            CLAIM,
            self._slot(ask),
            (
                ask.token,
                ask.payload_hash,
                lengths.lease,
                lengths.record_ttl,
                lengths.key_ttl,
                lengths.born_ttl,
                terms.max_attempts,
                ask.refuse,
                ask.rearm,
                int(ask.want_stale),
                self.owner,
                ask.id,
                self._wall_ms(),
            ),
        )

    def load(self, ask: Ask) -> Command:
        """Return the same command for a load, whose id never comes again (see `load_of`)."""
        return Command(("EVALSHA", LOAD.sha, *self.claim(ask).args[2:]), LOAD)

    def loads(self, terms: Terms) -> LoadClaims:
        """Return what writes the claims of loads under `terms`."""
        return LoadClaims(self, terms, _pattern(terms))

    def bind(self, ask: Ask) -> Command:
        """Return the command that binds the id to its payload, for a job with a key of its own.

        The record of an id lies in the slot of its key. An id that comes again with another payload
        may derive another key, in another slot, whose records know nothing of it; the binding does.
        It travels in the pipeline of the claim.
        """
        key = self.keyspace.binding(ask.name, ask.id)
        ttl_ms = ask.terms.ms.record_ttl
        # The script that gets or creates: the client makes a boolean of what `SET … GET` answers.
        return Command.run(EPOCH, (key,), (ask.payload_hash, ttl_ms))

    def read_bind(self, ask: Ask, reply: bytes) -> bool:
        """Tell whether the id is bound to this payload, from the reply to `bind`."""
        return reply == ask.payload_hash.encode()

    def read_claim(self, ask: Ask, reply: Reply, sent_at: float) -> ClaimAnswer:
        """Read the reply to `claim`; `sent_at` is the monotonic time *before* it was sent."""
        match reply:
            case [b"acquired", int(fence), int(attempt), int(suspect), bytes(first), int(born_ms)]:
                return Acquired(
                    lease=Lease(
                        ask=ask,
                        fence=fence,
                        expires_at=sent_at + ask.terms.lease_seconds,
                        claimed_at=sent_at,
                    ),
                    attempt=attempt,
                    suspect=bool(suspect),
                    fresh=first[0:1] == b"1",
                    takeover=first[1:2] == b"1",
                    older=first[2:3] == b"1",
                    abandoned_owner=first[3:].decode(),
                    born_ms=born_ms,
                )
            case [b"served", bytes(value), int(left_ms)]:
                return Served(value, max(left_ms, 0) / 1000)
            case [b"done", bytes(result)]:
                return Done(result)
            case [b"failed", bytes(error), int(fence)]:
                return Failed(error, fence)
            case [b"mismatch"]:
                return Mismatch()
            case [b"busy", int(left_ms), bytes(owner), int(age_ms), int(cooling), stale]:
                return Busy(
                    remaining_seconds=left_ms / 1000,
                    owner=owner.decode(),
                    age_seconds=age_ms / 1000,
                    cooling=bool(cooling),
                    stale=stale if isinstance(stale, bytes) else None,
                )
            case [b"quarantined", int(attempts), bytes(error), bytes(owner), int(fence)]:
                return Quarantined(attempts, error, owner.decode(), fence)
        raise _unexpected("claim", reply)

    def look(self, ask: Ask) -> Command:
        """Return the command that looks at the id's record, for a caller who knows the value."""
        return Command(("HMGET", self._slot(ask).record, "st", "ph", "f", "error"))

    def read_look(self, ask: Ask, reply: Sequence[bytes | None]) -> Done | Failed | Mismatch | None:
        """Read the reply to `look` as the first three rows of a claim; None if none of them is met.

        The result of a done id is not brought along.
        """
        status, payload_hash, fence, error = reply
        if status is None:
            return None
        if payload_hash != ask.payload_hash.encode():
            return Mismatch()
        if status == b"done":
            return Done(b"")
        if status == b"failed" and int(fence or 0) > ask.rearm:
            return Failed(error or b"", int(fence or 0))
        return None

    def renew(self, lease: Lease, *, lease_seconds: float, started: bool) -> Command:
        """Return the command that extends the lease to `lease_seconds` from now.

        With `started` it also marks that the body has started, which counts the attempt of a
        suspect; repeated marks count once. Do not send a length that is not positive.
        """
        ask = lease.ask
        return Command.run(
            RENEW,
            self._slot(ask)[:5],
            (
                lease.token,
                lease.fence,
                ask.payload_hash,
                milliseconds(lease_seconds),
                ask.terms.ms.record_ttl,
                ask.terms.ms.key_ttl,
                int(started),
                self.owner,
                ask.id,
                self._wall_ms(),
            ),
        )

    def read_renew(self, lease: Lease, reply: Reply, sent_at: float) -> Renewed | Lost:
        """Read the reply to `renew` and bring the lease up to date with it."""
        match reply:
            case [b"renewed", int(invalidated), int(lease_ms), int(started)]:
                lease.expires_at = sent_at + lease_ms / 1000
                lease.started = lease.started or bool(started)
                return Renewed(bool(invalidated))
            case [b"lost", bytes(reason), bytes(owner)] if reason in _LOST_REASONS:
                lease.lost = True
                return Lost(_LOST_REASONS[reason], owner.decode())
        raise _unexpected("renew", reply)

    def finish(self, end: End, *, slot: Slot | None = None) -> Command:
        """Return the command that settles the id, fills the value and lets the lease go.

        `slot` is where the record was found by somebody who does not know the id's key.
        """
        ask = end.ask
        lengths = ask.terms.ms
        return Command.run(
            FINISH,
            (slot or self._slot(ask))[:5],
            (
                end.token,
                end.fence,
                ask.payload_hash,
                end.outcome,
                int(end.recorded),
                end.result,
                end.header,
                lengths.record_ttl,
                lengths.key_ttl,
                milliseconds(end.value_ttl_seconds) if end.value_ttl_seconds > 0 else 0,
                lengths.cooling_base,
                lengths.cooling_cap,
            ),
        )

    def read_finish(self, end: End, reply: Reply) -> FinishAnswer:
        """Read the reply to `finish`."""
        match reply:
            case [b"finished", int(filled)]:
                return Finished(end.result, bool(filled))
            case [b"done", bytes(result)]:
                return Finished(result, filled=False)
            case [b"failed", error]:
                return FinishFailed(error if isinstance(error, bytes) else end.result)
            case [b"superseded"]:
                return FinishSuperseded()
            case [b"mismatch"]:
                return FinishMismatch()
            case [b"ok", int(cooling_ms)]:
                return GivenBack(cooling_ms / 1000)
        raise _unexpected("finish", reply)

    def invalidate(self, name: str, key: str) -> Command:
        """Return the command that drops the key's value and refuses the fill under way.

        The invalidation log comes after it; if one of the two fails, repeat both.
        """
        slot = self.keyspace.of(name, key, key)
        longest_ms = milliseconds(_LONGEST_USE_SECONDS)
        return Command.run(INVALIDATE, (slot.value, slot.key), (longest_ms,))

    def read_invalidate(self, reply: int) -> bool:
        """Tell whether the key had a record, that is, whether a load may have been refused."""
        return reply == 1

    def peek(self, name: str, id: str, key: str) -> Command:  # noqa: A002 the protocol's own word
        """Return the command that reads all of a finished record, and claims nothing."""
        record = self.keyspace.of(name, id, key).record
        return Command(("HMGET", record, "st", "ph", "result"))

    def read_peek(self, reply: Reply) -> Seen | None:
        """Read the reply to `peek`; None where the id has no record."""
        match reply:
            case [None, *_]:
                return None
            case [bytes(status), bytes(payload_hash), result]:
                body = result if isinstance(result, bytes) else b""
                return Seen(status.decode(), payload_hash.decode(), body)
        raise _unexpected("peek", reply)

    def _slot(self, ask: Ask) -> Slot:
        return ask.slot or self.keyspace.of(ask.name, ask.id, ask.key)

    def _wall_ms(self) -> int:
        return int(self.clock.wall() * 1000)


@lru_cache(maxsize=16)
def _pattern(terms: Terms) -> tuple[bytes | str | int, ...]:
    """Return the claim of a load by nobody, for nothing."""
    return Claims(Keyspace("nowhere", 1), "").load(load_of("-", "-", terms)).args


def _unexpected(script: str, reply: object) -> TypeError:
    shape = [type(part).__name__ for part in reply] if isinstance(reply, list) else type(reply)
    return TypeError(f"{script} answered with an unknown shape: {shape}")
