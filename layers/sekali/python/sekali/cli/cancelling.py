"""Cancel a job: record that it failed, as the first outcome, which is final.

    t=0   a body runs
    t=1   cancel: the table records `failed`, then the cache's record does
    t=4   the holder's heartbeat is told that its lease is lost: `job.lease.check()` says so
    t=9   the body ends all the same: the table refuses its result, its message is a dead letter

What waits in the queue becomes a dead letter when it is delivered, with the reason `cancelled`, and
a redrive runs it after all. A job that is done stays done. Effects that a body had before are *not*
undone.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from sekali.cli.door import operate
from sekali.cli.faults import Exit, Fault
from sekali.cli.standing import standing, store_of
from sekali.clock import SystemClock
from sekali.codec import encode, payload_hash
from sekali.store_rows import Accepted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekali.cli.place import Json, Place

REASON = "cancelled"


class _Known(NamedTuple):
    """What a refusal must name: the payload's hash, and a fence that is not below any known one."""

    payload_hash: str
    fence: int


def cancel(
    place: Place,
    *,
    name: str,
    job_id: str,
    key: str | None,
    payload: Mapping[str, Any] | None,  # Any: JSON
    text: str,
) -> Json:
    """Record the failure in the table, then in the cache; return how the id stood and stands.

    Raises:
        Fault: it has ended already, or nothing is known of it and no payload was given.
    """
    before = standing(place, name, job_id)
    if before["status"] in {"done", "failed"}:
        raise Fault(Exit.NO, f"{name}/{job_id} has ended already: {before['status']}", kind="ended")
    known = _known(before, payload)
    error = encode({"reason": REASON, "text": text} if text else {"reason": REASON})
    _record(place, name, job_id, known, error)
    told = operate(
        place,
        "cancel",
        name=name,
        id=job_id,
        payload_hash=known.payload_hash,
        fence=known.fence,
        error=base64.b64encode(error).decode(),
        key=key,
    )
    if told["answer"] != "FinishFailed":
        # Without a table the cache's record is the first outcome, and it may have come before.
        text = f"{name}/{job_id} ended in this moment: the cache says {told['answer']}"
        raise Fault(Exit.NO, text, kind="ended")
    return {"job": name, "id": job_id, "before": before["status"], "status": "failed"}


def _known(found: Json, payload: Mapping[str, Any] | None) -> _Known:  # Any: JSON
    recorded = [one for one in (found["durable"], found["record"]) if one is not None]
    if payload is not None:
        said = payload_hash(payload)
    elif recorded:
        said = recorded[0]["payload_hash"]
    else:
        text = (
            f"nothing is known of {found['job']}/{found['id']} yet; give its payload with"
            " --payload, by which the worker will know it"
        )
        raise Fault(Exit.UNKNOWN, text)
    if any(one["payload_hash"] != said for one in recorded):
        text = f"{found['job']}/{found['id']} is known with another payload than the given one"
        raise Fault(Exit.NO, text, kind="payload_mismatch")
    fences = [one["fence"] + 1 for one in recorded]
    return _Known(said, max(fences, default=int(SystemClock().wall() * 1_000) * 1_000))


def _record(place: Place, name: str, job_id: str, known: _Known, error: bytes) -> None:
    """Write the outcome down; whoever recorded another one first has won."""
    store = store_of(place)
    if store is None:
        return
    answer = store.record(
        name,
        job_id,
        outcome="failed",
        payload_hash=known.payload_hash,
        fence=known.fence,
        token="",
        ttl_seconds=place.settings.record_ttl_seconds,
        error=error,
    )
    if not isinstance(answer, Accepted):
        text = f"{name}/{job_id} ended in this moment: {answer.row.status}"
        raise Fault(Exit.NO, text, kind="ended")
