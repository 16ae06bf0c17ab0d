"""Try what the library needs of the shared cache, so that a missing right is found before a job is.

Each step of the protocol is run once, on a lock and a tag of the probe's own, all of which end
within a minute. What the cache refuses is named with its error; the rest goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sekali.answers import Acquired, Ask, End, Lease, new_token
from sekali.invalidation import Log, new_mark
from sekali.keys import LOCK_NAME
from sekali.scripts import EPOCH, REVOKE, Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sekali.invocation import Invocation
    from sekali.warm import Container

PROBE_TTL_SECONDS: Final = 60.0
_TTL_MS: Final = int(PROBE_TTL_SECONDS * 1000)
_TAG: Final = "sekali-probe"
# By another name, because what stands in a command's place is what the functions' user may do: the
# state of the server is for whoever has rights of his own, and is left out for the others.
_ABOUT_SERVER: Final = "INFO"
_TOLD: Final = {
    "valkey_version": str,
    "redis_version": str,
    "maxmemory_policy": str,
    "maxmemory": int,
    "evicted_keys": int,
}


def probe(container: Container, invocation: Invocation) -> dict[str, Any]:  # Any: JSON
    """Run every step once; return what was refused, the clock's offset and the server's state.

    `clock_offset_seconds` is how far the server's clock is ahead of this process', as exactly as
    half a round trip. `server` is None where its state may not be asked for.

    Raises:
        SharedUnavailable: the cache did not answer.
    """
    tried = _Tried(container)
    _try_protocol(tried, container, invocation)
    offset, round_trip = _clock(tried, container)
    return {
        "refused": tried.refused,
        "round_trip_ms": round(round_trip * 1000, 3),
        "clock_offset_seconds": None if offset is None else round(offset, 3),
        "server": _server(container),
    }


class _Tried:
    """Send commands one by one and keep what was refused."""

    def __init__(self, container: Container) -> None:
        self._shared = container.shared
        self.refused: list[dict[str, str]] = []

    def send(self, step: str, command: Command) -> Any:  # Any: any reply
        [reply] = self._shared.flush([command], operation="probe")
        if isinstance(reply, Exception):
            self.refused.append({"step": step, "error": str(reply)[:300]})
            return None
        return reply


def _try_protocol(tried: _Tried, container: Container, invocation: Invocation) -> None:
    claims, token = invocation.claims, new_token()
    # The life of a bucket's memory is everybody's, so its TTL stays what it is.
    terms = replace(container.default_terms(), record_ttl_seconds=PROBE_TTL_SECONDS)
    ask = Ask(
        name=LOCK_NAME,
        id=f"probe-{token}",
        key=f"{_TAG}/{token}",
        payload_hash="probe",
        token=token,
        terms=replace(terms, lease_seconds=1.0),
    )
    reply = tried.send("claim", claims.claim(ask))
    answer = claims.read_claim(ask, reply, invocation.now()) if reply is not None else None
    if isinstance(answer, Acquired):
        _try_lease(tried, answer.lease, invocation)
    slot = container.keyspace.of(ask.name, ask.id, ask.key)
    revoke = Command.run(REVOKE, (slot.lease, slot.key, slot.active), ("nobody", 0, _TTL_MS))
    epoch = (container.keyspace.epoch(_TAG),)
    for step, command in (
        ("record", claims.peek(ask.name, ask.id, ask.key)),
        ("invalidate", claims.invalidate(ask.name, ask.key)),
        ("revoke", revoke),
        ("tag", Command.run(EPOCH, epoch, (new_mark(), _TTL_MS))),
        ("log", Log(container.keyspace).tail(None)),
        ("leases", Command(("ZRANGE", slot.active, 0, 0))),
        ("usual runs", Command(("HGETALL", container.keyspace.runs))),
    ):
        tried.send(step, command)


def _try_lease(tried: _Tried, lease: Lease, invocation: Invocation) -> None:
    claims = invocation.claims
    tried.send("renew", claims.renew(lease, lease_seconds=1.0, started=True))
    end = End(ask=lease.ask, token=lease.token, fence=lease.fence, outcome="W", recorded=False)
    tried.send("finish", claims.finish(end))


def _clock(tried: _Tried, container: Container) -> tuple[float | None, float]:
    """Return the offset of the server's clock, None where it cannot be read, and a round trip."""
    key, clock = container.keyspace.epoch(_TAG), container.clock
    sent = clock.wall()
    tried.send("clock", Command(("SET", key, new_mark(), "PX", _TTL_MS)))
    received = clock.wall()
    ends_ms = tried.send("clock", Command(("PEXPIRETIME", key)))
    if not isinstance(ends_ms, int):
        return None, received - sent
    return (ends_ms - _TTL_MS) / 1000 - (sent + received) / 2, received - sent


def _server(container: Container) -> dict[str, Any] | None:  # Any: JSON
    if container.settings.cache_cluster:
        return None  # There is no one server to ask.
    [about] = container.shared.flush([Command((_ABOUT_SERVER,))], operation="probe")
    if isinstance(about, Exception):
        return None
    return dict(_told(about if isinstance(about, dict) else _lines(about)))


def _lines(about: bytes | str) -> dict[str, str]:
    text = about.decode() if isinstance(about, bytes) else about
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _told(about: dict[str, Any]) -> Iterable[tuple[str, Any]]:  # Any: JSON
    for name, kind in _TOLD.items():
        if name in about:
            yield name, kind(about[name])
