"""Tell everything that is known of one key, for the person who asks why it is (not) served.

Two flushes at most: value and lease, then the marks of the value's tags. Nothing is changed by
it, and nothing is kept.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sekali import codec
from sekali.errors import SharedUnavailable, ValueUnreadable
from sekali.light_dataclass import dataclass
from sekali.scripts import Command
from sekali.steps import Flush

if TYPE_CHECKING:
    from collections.abc import Generator

    from sekali.calls import Call, Tiers
    from sekali.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One tier's copy. Tags that are not current are the reason why a value is not served."""

    fence: int
    age_seconds: float
    left_seconds: float
    bytes: int | None
    tags: tuple[str, ...]
    outdated_tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a key now.

    `unreadable` is why the shared value cannot be used, `holder` who computes the key, with the
    seconds left of its lease; a key that cools after a failed load has a lease and no holder.
    `invalidated` says that the load under way will not be stored.
    """

    key: str
    local: Copy | None
    shared: Copy | None
    unreadable: str = ""
    unavailable: str = ""
    holder: str = ""
    lease_seconds: float = 0.0
    invalidated: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return it as plain data, for a log line."""
        return asdict(self)


def explain(tiers: Tiers, call: Call) -> Generator[Step, Any, Explanation]:
    """Yield the steps; returns the explanation."""
    name = call.scoped.partition("/")[0]
    slot = tiers.invocation.claims.keyspace.of(name, call.key, call.key)
    seen = tiers.local.look(call.scoped)
    local = None
    if seen is not None:
        local = Copy(
            fence=seen.fence,
            age_seconds=seen.age_seconds,
            left_seconds=seen.left_seconds,
            bytes=None,
            tags=tuple(seen.epochs),
            outdated_tags=tuple(tiers.coherence.doubtful(seen.epochs)),
        )
    try:
        left_ms, value, lease, lease_ms, about = yield Flush(
            [
                Command(("PTTL", slot.value)),
                Command(("GET", slot.value)),
                Command(("GET", slot.lease)),
                Command(("PTTL", slot.lease)),
                Command(("HMGET", slot.key, "owner", "st", "inv")),
            ],
            "explain",
        )
        owner, status, invalidated = (part.decode() if part else "" for part in about)
        shared, unreadable = yield from _shared(tiers, call, value, left_ms)
    except SharedUnavailable as error:
        return Explanation(key=call.key, local=local, shared=None, unavailable=str(error))
    held = lease is not None
    return Explanation(
        key=call.key,
        local=local,
        shared=shared,
        unreadable=unreadable,
        holder=owner if held and lease != b"!" else "",
        lease_seconds=max(lease_ms, 0) / 1000,
        invalidated=status == "running" and invalidated == "1",
    )


def _shared(
    tiers: Tiers, call: Call, value: bytes | Exception | None, left_ms: int
) -> Generator[Step, Any, tuple[Copy | None, str]]:
    if value is None:
        return None, ""
    if isinstance(value, Exception):  # the key is no string: not ours
        return None, "garbage"
    try:
        opened = codec.read(value, key=call.scoped)
        call.packing.decode(call.packing.unpack(opened.body, opened.packing))
    except ValueUnreadable as error:
        return None, error.reason
    tags = tuple(opened.epochs)
    asked = [tiers.coherence.peek_mark(tag) for tag in tags]
    marks = yield Flush(asked, "marks")
    left = left_ms / 1000 - opened.stale_seconds
    return (
        Copy(
            fence=opened.fence,
            age_seconds=max(opened.ttl_seconds - left, 0.0),
            left_seconds=left,
            bytes=len(value),
            tags=tags,
            outdated_tags=tuple(
                tag
                for tag, mark in zip(tags, marks, strict=True)
                if mark != opened.epochs[tag].encode()
            ),
        ),
        "",
    )
