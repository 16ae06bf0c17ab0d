"""Check the shared cache: reachable, willing, keeping, and of one mind about the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sekali.cli.checks_functions import unknown
from sekali.cli.examining import Finding, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.examining import Examined

MOST_OFFSET_SECONDS: Final = 30.0
"""Clocks of AWS are milliseconds apart; a fence follows the clock, a TTL does not."""
SLOW_MS: Final = 50.0
_KEEPING: Final = ("noeviction", "volatile-")


def cache(stack: Examined) -> Iterator[Finding]:
    """Check that it answers, and does each step of the protocol."""
    found = stack.cache
    if isinstance(found, Unread):
        if found.denied:
            yield unknown("cache", found)
            return
        yield Finding(
            check="cache",
            state="wrong",
            found=f"the shared cache does not answer: {found.text}",
            remedy="look at SEKALI_CACHE_URL, the security groups and the cache's own state; jobs"
            " are deferred meanwhile (docs/degraded.md)",
        )
        return
    for refused in found["refused"]:
        yield Finding(
            check="cache commands",
            state="wrong",
            found=f"{refused['step']} is refused: {refused['error']}",
            remedy="give the cache's user the access string of infra/cache_access.py, and use"
            " Valkey 7.2 or newer",
        )
    yield from _clock(found["clock_offset_seconds"])
    if found["round_trip_ms"] > SLOW_MS and not stack.place.cache_url:
        yield Finding(
            check="cache latency",
            state="warning",
            found=f"one round trip takes {found['round_trip_ms']:g} ms",
            remedy="keep cache and functions in the same zones; a batch waits for two of these",
        )


def keeping(stack: Examined) -> Iterator[Finding]:
    """Check that it does not evict leases for the sake of values."""
    found = stack.cache
    if isinstance(found, Unread):
        return
    server: Mapping[str, Any] | None = found["server"]  # Any: JSON
    if server is None or "maxmemory_policy" not in server:
        yield Finding(
            check="eviction",
            state="unknown",
            found="the cache does not tell its eviction policy to the functions' user",
            remedy="look at maxmemory-policy of its parameter group: noeviction or volatile-lru",
        )
        return
    policy = str(server["maxmemory_policy"])
    if not policy.startswith(_KEEPING):
        yield Finding(
            check="eviction",
            state="wrong",
            found=f"maxmemory-policy is {policy}: it may evict leases, fences and tags",
            remedy="set it to noeviction (leases only) or volatile-lru (values too)",
        )
    if server.get("evicted_keys"):
        yield Finding(
            check="eviction",
            state="warning",
            found=f"{server['evicted_keys']} keys were evicted, leases perhaps among them",
            remedy="give the cache more memory, or values shorter TTLs",
        )


def leases(stack: Examined) -> Iterator[Finding]:
    """Check that nobody holds a key for longer than an invocation can last."""
    found = stack.leases
    if isinstance(found, Unread):
        return
    if found["endless"]:
        yield Finding(
            check="leases",
            state="wrong",
            found=f"{found['endless']} leases were renewed for longer than an invocation can last",
            remedy="sekali leases --state endless, then sekali steal KEY; or let recovery do it"
            " with SEKALI_REVOKE_ENDLESS=true",
        )
    if found["overdue"]:
        yield Finding(
            check="leases",
            state="warning",
            found=f"{found['overdue']} holders died and nobody has claimed their keys since",
            remedy="sekali leases --state overdue; the next claim takes over by itself",
        )


def _clock(offset_seconds: float | None) -> Iterator[Finding]:
    if offset_seconds is None:
        yield Finding(
            check="clock",
            state="unknown",
            found="the cache's clock cannot be read: PEXPIRETIME is refused",
            remedy="nothing: scripts fall back to the caller's clock",
        )
    elif abs(offset_seconds) > MOST_OFFSET_SECONDS:
        ahead = "ahead of" if offset_seconds > 0 else "behind"
        yield Finding(
            check="clock",
            state="wrong",
            found=f"the cache's clock is {abs(offset_seconds):.0f} s {ahead} that of who asked it",
            remedy="set the clocks: fences and ages are told by them",
        )
