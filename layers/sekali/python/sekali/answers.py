"""Name what the protocol is asked for, and each thing it can answer.

Every step has its own closed set of answers; mypy checks that a `match` over one of them is
complete.
"""

from __future__ import annotations

import os
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sekali.keys import CACHE_NAME
from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from sekali.keys import Slot

Outcome = Literal["D", "S", "X", "T", "W", "U"]
"""Own body's result, settled with another's, failed for good, try again, given back after and
before the body started."""

LostReason = Literal["done", "failed", "held", "superseded", "ended"]

LONGEST_INVOCATION_SECONDS: Final = 900.0
"""Lambda ends every invocation by then."""

TOKEN_DIGITS: Final = 32
"""Hexadecimal digits of a token."""


def new_token() -> str:
    """Mint the 128 random bits that tell one claim from every other.

    Call it once per claim and never at import: a snapshot of this process would clone them.
    """
    return os.urandom(16).hex()


def new_tokens(count: int) -> list[str]:
    """Mint a token for each of so many claims, with one question to the system for all of them."""
    digits = os.urandom(16 * count).hex()
    return [digits[at : at + 32] for at in range(0, 32 * count, 32)]


class TermsInMs(NamedTuple):
    """Hold lengths in whole milliseconds; `key_ttl` is how long a key's record outlives its use."""

    lease: int
    record_ttl: int
    key_ttl: int
    born_ttl: int
    cooling_base: int
    cooling_cap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Hold the lengths and bounds under which a job's claims are made.

    `record_ttl_seconds` covers the queue's retention wherever the guarantee rests on the record.
    `born_ttl_seconds` covers the longest record. `longest_invocation_seconds` is how long a holder
    can outlive its lease.
    """

    lease_seconds: float
    record_ttl_seconds: float
    max_attempts: int
    cooling_base_seconds: float
    cooling_cap_seconds: float
    born_ttl_seconds: float
    longest_invocation_seconds: float = LONGEST_INVOCATION_SECONDS
    ms: TermsInMs = field(init=False, repr=False, compare=False)
    """The same as the server takes them, worked out once for all the claims under them."""

    def __post_init__(self) -> None:
        in_ms = TermsInMs(
            lease=milliseconds(self.lease_seconds),
            record_ttl=milliseconds(self.record_ttl_seconds),
            key_ttl=milliseconds(self.longest_invocation_seconds + self.lease_seconds),
            born_ttl=milliseconds(self.born_ttl_seconds),
            cooling_base=milliseconds(self.cooling_base_seconds),
            cooling_cap=milliseconds(self.cooling_cap_seconds),
        )
        object.__setattr__(self, "ms", in_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Ask for the lease of `key` on behalf of job `id`.

    `refuse` is the fence of a value that the caller holds to be stale, `rearm` the greatest fence
    named by a redriven dead letter; 0 is none. With `want_stale` Busy brings the refused value
    along. `slot` holds the names of the keys, where the caller has them.
    """

    name: str
    id: str
    key: str
    payload_hash: str
    token: str
    terms: Terms
    refuse: int = 0
    rearm: int = 0
    want_stale: bool = False
    slot: Slot | None = field(default=None, repr=False, compare=False)


@lru_cache(maxsize=16)
def terms_of_loads(terms: Terms) -> Terms:
    """Return the terms of loads: their record serves only the repeat of a lost reply."""
    return replace(terms, max_attempts=2**31, record_ttl_seconds=terms.lease_seconds)


def load_of(key: str, token: str, terms: Terms, refuse: int = 0) -> Ask:
    """Return what a load asks for; its id is made with its token, so it never comes again."""
    return Ask(
        name=CACHE_NAME,
        id=f"load-{token}",
        key=key,
        payload_hash="",
        token=token,
        terms=terms,
        refuse=refuse,
    )


@dataclass(slots=True, kw_only=True)
class Lease:
    """Hold the right to compute one key until `expires_at`, by the monotonic clock.

    `claimed_at` is the time before the claim was sent. `expires_at`, `lost` and `started` change
    while the lease is held; the others are those of its claim.
    """

    ask: Ask
    fence: int
    expires_at: float
    lost: bool = False
    started: bool = False
    claimed_at: float = 0.0

    @property
    def token(self) -> str:
        """Return the token of the claim."""
        return self.ask.token

    @property
    def key(self) -> str:
        """Return the key that is held."""
        return self.ask.key


@dataclass(frozen=True, slots=True)
class Done:
    """The id finished before; this is its result."""

    result: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """The id failed for good under this fence."""

    error: bytes
    fence: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The id was claimed with another payload; its result is not for this one."""


@dataclass(frozen=True, slots=True)
class Served:
    """The key has a value that is not refused: nothing to compute.

    `remaining_seconds` is what was left of its life on the server when it was read: no copy of it
    may live longer, counted from before the claim was sent.
    """

    value: bytes
    remaining_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody holds the lease, or the key is cooling after a failure."""

    remaining_seconds: float
    owner: str
    age_seconds: float
    cooling: bool
    stale: bytes | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """The id has used up its attempts; `error` is that of the last one which reported any."""

    attempts: int
    error: bytes
    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class Acquired:
    """The lease is held.

    `suspect`: a claim of this id was abandoned; run it alone, marked as started. `fresh`: the id
    had no record. `takeover`: its last claim was abandoned. `older`: the key has a value, which was
    refused. `abandoned_owner`: who held the key's last lease and never let go, else empty.
    `born_ms`: since when the memory of this bucket reaches back, by the server's clock.
    """

    lease: Lease
    attempt: int
    suspect: bool
    fresh: bool
    takeover: bool
    older: bool
    abandoned_owner: str
    born_ms: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the record of an id says to somebody who only looks; `result` is that of a done one."""

    status: str
    payload_hash: str
    result: bytes


ClaimAnswer = Done | Failed | Mismatch | Served | Busy | Quarantined | Acquired


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease goes on; `invalidated` says that its value may not be stored any more."""

    invalidated: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone, for one of five reasons; `owner` is the last one known."""

    status: LostReason
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End a claim, or settle an id without one.

    `token` and `fence` are those of the lease; for a value that was served the token is empty, for
    a follower they are its leader's. `recorded` says that the durable table holds exactly this
    outcome and result. `result` is the result, or the error for X and T. `header` goes before the
    result in the key's value; empty, or a TTL of 0, stores no value.
    """

    ask: Ask
    token: str
    fence: int
    outcome: Outcome
    recorded: bool
    result: bytes = b""
    header: bytes = b""
    value_ttl_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The id is done with `result`, which may be another's; `filled` says the value was stored."""

    result: bytes
    filled: bool


@dataclass(frozen=True, slots=True)
class FinishFailed:
    """The id has failed for good."""

    error: bytes


@dataclass(frozen=True, slots=True)
class FinishSuperseded:
    """A newer claim exists: nothing was written."""


@dataclass(frozen=True, slots=True)
class FinishMismatch:
    """The id was claimed with another payload: nothing was written."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The id waits to be claimed again; its key cools for this long (0: not at all)."""

    cooling_seconds: float


FinishAnswer = Finished | FinishFailed | FinishSuperseded | FinishMismatch | GivenBack


def milliseconds(seconds: float) -> int:
    """Return a length of time as the server takes it: whole, and never 0."""
    return max(1, round(seconds * 1000))
