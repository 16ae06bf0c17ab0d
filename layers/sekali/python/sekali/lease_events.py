"""Tell of leases alike, whoever claims them: jobs, loads, locks and lone claims."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sekali.answers import Acquired, Busy
from sekali.telemetry import events

if TYPE_CHECKING:
    from sekali.answers import Ask, ClaimAnswer, Lease
    from sekali.telemetry.events import Hook

_log = logging.getLogger(__name__)

UNKNOWN = "unknown"


def tell_claim(emit: Hook, ask: Ask, answer: ClaimAnswer) -> None:
    """Tell what a claim found: a holder, or a lease that is ours now, perhaps a dead holder's.

    Somebody who waits claims again and again, and tells of the first holder only.
    """
    if isinstance(answer, Busy):
        emit(events.LeaseContended(name=ask.name, key=ask.key, owner=answer.owner))
    elif isinstance(answer, Acquired):
        emit(events.LeaseAcquired(name=ask.name, key=ask.key, fence=answer.lease.fence))
        if answer.takeover or answer.abandoned_owner:
            owner = answer.abandoned_owner or UNKNOWN
            emit(events.LeaseTakenOver(name=ask.name, key=ask.key, dead_owner=owner))
            _log.warning("took %s/%s over from %s, which never ended it", ask.name, ask.key, owner)


def tell_end(emit: Hook, lease: Lease, now: float) -> None:
    """Tell how long a lease was held that its holder ends, at `now` of the invocation's time."""
    held = max(now - lease.claimed_at, 0.0)
    emit(events.LeaseHeld(name=lease.ask.name, seconds=held))
