"""Put together what is known of one id: cache, table, leases and log."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from sekali.cli.door import operate
from sekali.cli.output import duration, moment, table, title, word
from sekali.clock import SystemClock
from sekali.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.place import Json, Place
    from sekali.store_rows import Row

_HISTORY: Final = ("time", "outcome", "reason", "source", "attempt", "run", "latency")


def store_of(place: Place) -> Store | None:
    """Return the table of results, with the caller's own rights; None in mode `redis`."""
    settings = place.settings
    if settings.table_name is None or settings.durable_mode == "redis":
        return None
    return Store(
        settings.table_name,
        clock=SystemClock(),
        bucket=settings.results_bucket,
        client_factory=place.clients,
    )


def row_of(place: Place, name: str, job_id: str) -> Row | None:
    """Return the durable record of an id, None where there is none.

    Raises:
        StoreUnavailable: the table could not be read.
    """
    store = store_of(place)
    return None if store is None else store.get_many([(name, job_id)]).get((name, job_id))


def standing(place: Place, name: str, job_id: str) -> Json:
    """Return the record, the leases and the durable record of an id, and one word for it all."""
    seen = operate(place, "status", name=name, id=job_id)
    row = row_of(place, name, job_id)
    record, leases = seen["record"], seen["leases"]
    return {
        "job": name,
        "id": job_id,
        "status": _word(record, leases, row),
        "record": record,
        "leases": leases,
        "durable": None if row is None else described(row),
    }


def described(row: Row) -> Json:
    """Return a durable record as plain data, without the result itself."""
    return {
        "status": row.status,
        "fence": row.fence,
        "payload_hash": row.payload_hash,
        "result_bytes": len(row.stored) if not row.points else None,
        "result_object": row.stored.decode() if row.points else None,
        "error": _error(row.error),
        "deadline": row.deadline or None,
        "expires": row.expires,
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:  # Any: JSON
    """Write it for people."""
    yield f"{title(found['job'] + '/' + found['id'])}  {word(found['status'])}"
    durable, record = found["durable"], found["record"]
    if durable is None:
        yield "durable  nothing is recorded"
    else:
        kept = moment(durable["expires"])
        yield f"durable  {durable['status']}, {_outcome(durable)}, kept until {kept}"
    if record is None:
        yield "record   the cache has none"
    else:
        owner = f", owner {record['owner']}" if record["owner"] else ""
        yield f"record   {record['status']}, attempts {record['attempts']}{owner}"
    for lease in found["leases"]:
        left, age = duration(lease["remaining_seconds"]), duration(lease["age_seconds"])
        yield f"lease    {lease['state']} for {age}, {left} left, held by {lease['owner']}"
    if not found["leases"]:
        yield "lease    none"
    if "history" in found:
        yield from _history(found["history"])


def _history(entries: list[Json]) -> Iterator[str]:
    if not entries:
        yield "history  nothing in the log"
        return
    yield "history"
    rows = [
        (
            moment(one["at"]),
            one["outcome"],
            one["reason"] or "",
            one["source"] or "",
            one["attempt"] or "",
            f"{one['run_ms']} ms" if one["run_ms"] else "",
            f"{one['latency_ms']} ms" if one["latency_ms"] else "",
        )
        for one in entries
    ]
    for line in table(_HISTORY, rows):
        yield f"  {line}"


def _word(record: Json | None, leases: list[Json], row: Row | None) -> str:
    """Say in one word how it stands; the table goes before, because it is final."""
    if row is not None and row.is_final():
        return row.status
    if record is not None:
        if record["status"] in {"done", "failed"}:
            return str(record["status"])
        if record["status"] == "retry":
            return "waiting"
        held = any(lease["remaining_seconds"] > 0 for lease in leases)
        return "running" if held else "abandoned"
    return "unknown" if row is None else row.status


def _outcome(durable: Mapping[str, Any]) -> str:  # Any: JSON
    if durable["status"] == "failed":
        error = durable["error"] or {}
        return ": ".join(str(part) for part in error.values()) or "no error kept"
    if durable["result_object"]:
        return f"result in {durable['result_object']}"
    return f"result of {durable['result_bytes']} bytes"


def _error(error: bytes) -> Json | str | None:
    from sekali import codec
    from sekali.errors import ValueUnreadable

    if not error:
        return None
    try:
        found: Json | str = codec.decode(error)
    except ValueUnreadable:
        return base64.b64encode(error).decode()
    return found
