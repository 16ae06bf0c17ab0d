"""Do for an operator what only somebody inside the cache's network can.

The cache of a deployed stack is reachable from its functions only. So the recovery function takes
an operator's requests beside its schedule, and the `sekali` command sends them by invoking it::

    {"sekali": {"operation": "steal", "arguments": {...}, "by": "arn:aws:iam::…:user/eve"}}

Where the cache is reachable (the stack on this machine, a tunnel) the command does the same in its
own process. Looking changes nothing. What changes something is told to the log with who asked, and
is made of the protocol's own steps, so that no order of an operator and a worker is a new race:

    steal        a revocation: the fence grows in the step that checks who holds the lease
    invalidate   the key first, the log second
    cancel       a finish that tells the failure which the table recorded

Nobody who may not invoke this function can do any of it; who may, is the account's to say.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from dataclasses import asdict
from inspect import signature
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sekali.answers import LONGEST_INVOCATION_SECONDS, Ask, End
from sekali.errors import SettingInvalid, SharedUnavailable
from sekali.keys import CACHE_NAME
from sekali.packing import Packing
from sekali.probing import probe
from sekali.scripts import Command
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sekali.answers import FinishAnswer
    from sekali.invocation import Invocation
    from sekali.keys import Slot
    from sekali.leaks import Holding
    from sekali.warm import Container

_log = logging.getLogger(__name__)

FIELD: Final = "sekali"
"""Field of an event that is an operator's request."""
MOST_LISTED: Final = 1_000
"""Leases that one answer lists; the counts are of all."""
_PER_FLUSH: Final = 500
_RECORD: Final = ("st", "f", "tk", "ph", "at", "pre", "su", "owner", "started", "error")

Json = dict[str, Any]
"""What one operation answers; Any: JSON."""


class AnyPacking(Packing):
    """Read the envelope of a value, whichever codec its body was packed with."""

    __slots__ = ()

    def unpack(self, stored: bytes, packing: str) -> bytes:  # noqa: ARG002 - nothing is unpacked
        """Leave the body as it is."""
        return stored

    def decode(self, body: bytes) -> None:
        """Read nothing of it."""


class _Found(NamedTuple):
    """The record of an id, and in which slot it is."""

    slot: Slot
    fields: Mapping[str, bytes]


class Operator:
    """Answer an operator's requests, in the container of whoever runs this."""

    def __init__(self, container: Container, *, owner: str, by: str = "") -> None:
        """Keep the container; `by` is who asks, for the audit."""
        self._container = container
        self._by = by
        self._invocation: Invocation = container.invocation(
            owner=owner, remaining_seconds=LONGEST_INVOCATION_SECONDS
        )

    def answer(self, request: Mapping[str, Any]) -> Json:  # Any: JSON
        """Do what `request` asks for.

        Raises:
            SettingInvalid: there is no such operation, or it takes other arguments.
            KeyInvalid: a name, an id or a key cannot be used.
            SharedUnavailable: the shared cache did not answer.
        """
        operation = str(request.get("operation"))
        if operation not in _OPERATIONS:
            rule = f"must be one of {', '.join(sorted(_OPERATIONS))}"
            raise SettingInvalid("operation", rule, operation)
        method = getattr(self, operation)
        try:
            bound = signature(method).bind(**(request.get("arguments") or {}))
        except TypeError as error:
            raise SettingInvalid(f"arguments of {operation}", str(error), None) from error
        answered: Json = method(*bound.args, **bound.kwargs)
        return answered

    def jobs(self) -> Json:
        """Return the jobs that ran lately, with the seconds that each usually takes."""
        return {"jobs": self._container.leaks.runs()}

    def leases(self, *, name: str | None = None, key: str | None = None) -> Json:
        """List the leases that are held or overdue, the oldest first, and count their states."""
        found = [
            one
            for one in self._look()
            if (name is None or one.name == name) and (key is None or one.key == key)
        ]
        counts = {
            state: sum(one.state == state for one in found)
            for state in ("live", "long", "overdue", "endless")
        }
        return {**counts, "leases": [entry_of(one) for one in found[:MOST_LISTED]]}

    def steal(self, *, name: str, key: str, reason: str = "") -> Json:
        """Take the lease of a key away from its holder, whoever that is now.

        The holder learns it at its next heartbeat, and nothing that it stores counts.
        """
        settings, clock = self._container.settings, self._container.clock
        holding = self._container.leaks.look_at(
            name, key, now=clock.wall(), lease_seconds=settings.lease_seconds
        )
        if holding is None:
            return {"stolen": False, "fence": 0, "lease": None}
        fence = self._container.leaks.revoke(holding)
        told = {**entry_of(holding), "revoked_by_fence": fence, "by": self._by, "reason": reason}
        if fence:
            _log.warning("an operator took a lease away: %s", told)
            self._container.emit(events.LeaseRevoked(name=holding.name, key=holding.key))
        return {"stolen": bool(fence), "fence": fence, "lease": entry_of(holding)}

    def explain(self, *, key: str, name: str = CACHE_NAME) -> Json:
        """Tell what the shared tier and this container's own hold of a key, and who computes it."""
        tiers = self._container.tiered(self._invocation)
        explained = tiers.explain(key, packing=AnyPacking(), job=name).as_dict()
        if explained["unavailable"]:
            raise SharedUnavailable("explain", str(explained["unavailable"]))
        return {"name": name, **explained}

    def invalidate(
        self, *, keys: Sequence[str] = (), tags: Sequence[str] = (), name: str = CACHE_NAME
    ) -> Json:
        """Drop keys and everything that carries one of the tags, in every container."""
        self._container.tiered(self._invocation).invalidate(keys, tags=tags, job=name)
        told = {"name": name, "keys": list(keys), "tags": list(tags)}
        _log.warning("an operator invalidated: %s", {**told, "by": self._by})
        return told

    def status(self, *, name: str, id: str) -> Json:  # noqa: A002  the protocol's own word
        """Return what the cache holds of an id: its record, and leases that are held for it."""
        found = self._find(name, id)
        held = [one for one in self._look() if one.name == name and one.id == id]
        return {
            "record": None if found is None else _record_of(found.fields),
            "leases": [entry_of(one) for one in held],
        }

    def cancel(
        self,
        *,
        name: str,
        id: str,  # noqa: A002  the protocol's own word
        payload_hash: str,
        fence: int,
        error: str,
        key: str | None = None,
    ) -> Json:
        """Tell the cache that an id failed for good; where there is a table, it says so already.

        A body that runs learns it at its next heartbeat. `error` is base64 of the encoded error.
        Without `key` the record is looked for in every bucket, and is that of a job without a key
        of its own where it is in none.
        """
        found = self._find(name, id) if key is None else None
        ask = Ask(
            name=name,
            id=id,
            key=key or id,
            payload_hash=payload_hash,
            token="",
            terms=self._container.default_terms(),
        )
        end = End(
            ask=ask, token="", fence=fence, outcome="X", recorded=True, result=b64decode(error)
        )
        claims = self._invocation.claims
        [reply] = self._flush([claims.finish(end, slot=found.slot if found else None)])
        answer: FinishAnswer = claims.read_finish(end, reply)
        _log.warning("an operator cancelled %s/%s: %s", name, id, {"by": self._by})
        return {"answer": type(answer).__name__}

    def probe(self) -> Json:
        """Try what the library needs of the cache, on keys of its own that end in a minute."""
        return probe(self._container, self._invocation)

    def _look(self) -> list[Holding]:
        settings, clock = self._container.settings, self._container.clock
        return self._container.leaks.look(now=clock.wall(), lease_seconds=settings.lease_seconds)

    def _find(self, name: str, job_id: str) -> _Found | None:
        slots = iter(self._container.keyspace.wherever(name, job_id))
        while chunk := list(islice(slots, _PER_FLUSH)):
            replies = self._flush(Command(("HMGET", slot.record, *_RECORD)) for slot in chunk)
            for slot, values in zip(chunk, replies, strict=True):
                fields = {
                    field: value
                    for field, value in zip(_RECORD, values, strict=True)
                    if value is not None
                }
                if fields:
                    return _Found(slot, fields)
        return None

    def _flush(self, commands: Iterable[Command]) -> list[Any]:  # Any: as `Shared.flush`
        replies = self._container.shared.flush(list(commands), operation="operate")
        for reply in replies:
            if isinstance(reply, Exception):
                raise SharedUnavailable("operate", str(reply)) from reply
        return replies


_OPERATIONS: Final = frozenset(
    {"cancel", "explain", "invalidate", "jobs", "leases", "probe", "status", "steal"}
)


def entry_of(holding: Holding) -> Json:
    """Return what an operator needs; the token is a secret of its holder and stays here."""
    entry = asdict(holding)
    del entry["token"], entry["record"]
    return entry


def _record_of(fields: Mapping[str, bytes]) -> Json:
    """Return the record in words; see PROTOCOL §1 for the short ones."""
    texts = {name: value.decode("utf-8", "replace") for name, value in fields.items()}
    return {
        "status": texts["st"],
        "fence": int(texts.get("f", 0)),
        "payload_hash": texts.get("ph", ""),
        "attempts": int(float(texts.get("at", 0))),
        "start_confirmed": texts.get("pre") == "sure",
        "abandoned_before": texts.get("su") == "1",
        "owner": texts.get("owner", ""),
        "started": int(texts["started"]) / 1000 if "started" in texts else None,
        "error": texts.get("error", ""),
    }
