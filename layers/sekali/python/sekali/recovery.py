"""Watch for leaks, on a schedule and when the leak alarm rings; be the handler of that function.

    recovery = Recovery("flight-reports")
    handler = recovery.handler

It reports overdue leases with their dead owners, holders that last too long, and jobs that have
been pending for too long. It revokes, only where SEKALI_REVOKE_ENDLESS is true, a lease whose
holder has renewed it for longer than an invocation can last; each revocation is logged with
everything that an audit needs. Unasked it never touches a lease within its bounds, and it deletes
nothing. An operator's request, which the `sekali` command sends, is answered too: see `operating`.

Leases are told by the cache, pending jobs by the table. While one of them is away the other is
looked at all the same, and the report says what is missing: jobs wait *because* the cache is away.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, get_args

from sekali import warm
from sekali.errors import SharedUnavailable, StoreUnavailable
from sekali.leaks import Leaks, State
from sekali.operating import FIELD, Operator, entry_of
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sekali.leaks import Holding
    from sekali.settings import Settings
    from sekali.telemetry.events import Hook
    from sekali.warm import Container

_log = logging.getLogger(__name__)

PENDING_SECONDS: Final = 600.0
"""A job that waited for the shared cache this long is worth a look."""
REPORTED: Final = 100
"""Leases and jobs that one report lists; the counts are of all."""


class Recovery:
    """The function that looks after leases and pending jobs. Building it reads no environment."""

    def __init__(
        self,
        service: str,
        *,
        pending_seconds: float = PENDING_SECONDS,
        hooks: Sequence[Hook] | None = None,
    ) -> None:
        """Name the service; `hooks` replace Powertools' metrics and logs."""
        self.service = service
        self._pending_seconds = pending_seconds
        self._hooks = hooks

    def handler(self, event: object, context: object) -> dict[str, Any]:
        """Look once and return the report: counts, and the leases and jobs behind them.

        Where `leases_unread` is true the cache did not answer, and no lease is in the report; where
        `pending_unread` is, the table did not, or has more. The schedule looks again.

        An event with the field `sekali` is an operator's request and gets its own answer.

        Raises:
            SharedUnavailable: an operator asks what only the shared cache knows, and it is away.
        """
        container = warm.container(self._observers)
        if isinstance(event, dict) and isinstance(event.get(FIELD), dict):
            return self._operate(container, event[FIELD], context)
        leaks = Leaks(container.keyspace, container.shared)
        found = self._leases(container, leaks)
        held = found or []
        revoked = self._revoke(container, leaks, held) if container.settings.revoke_endless else []
        for holding in held:
            self._tell(container, holding)
        pending, unread = self._pending(container)
        counts = _counted(found)
        container.emit(
            events.Recovered(
                live=counts["live"],
                overdue=counts["overdue"],
                long=counts["long"],
                endless=counts["endless"],
                pending=None if unread and not pending else len(pending),
            )
        )
        container.emit(events.InvocationEnded())
        return {
            "live": counts["live"] or 0,
            "overdue": _listed(held, "overdue"),
            "long": _listed(held, "long"),
            "endless": _listed(held, "endless"),
            "leases_unread": found is None,
            "revoked": revoked,
            "pending": pending[:REPORTED],
            "pending_count": len(pending),
            "pending_unread": unread,
        }

    def _operate(
        self, container: Container, request: dict[str, Any], context: object
    ) -> dict[str, Any]:
        owner = warm.owner_name(str(getattr(context, "aws_request_id", "-")))
        try:
            operator = Operator(container, owner=owner, by=str(request.get("by", "")))
            return operator.answer(request)
        finally:
            container.cache = None
            container.emit(events.InvocationEnded())

    def _observers(self, settings: Settings) -> Sequence[Hook]:
        if self._hooks is not None:
            return self._hooks
        from sekali.telemetry.observing import observers

        return observers(settings, self.service)

    def _leases(self, container: Container, leaks: Leaks) -> list[Holding] | None:
        """Return every lease that is held or overdue, None where the cache did not answer."""
        lease_seconds = container.settings.lease_seconds
        try:
            return leaks.look(now=container.clock.wall(), lease_seconds=lease_seconds)
        except SharedUnavailable as error:
            _log.warning("leases could not be read: %s", error)
            return None

    def _revoke(
        self, container: Container, leaks: Leaks, found: Sequence[Holding]
    ) -> list[dict[str, Any]]:
        revoked = []
        for holding in found:
            if holding.state != "endless":
                continue
            try:
                fence = leaks.revoke(holding)
            except SharedUnavailable as error:
                # What it held is still endless at the next look, or revoked by this one.
                _log.warning("an endless lease could not be revoked: %s", error)
                break
            if not fence:
                continue
            entry = entry_of(holding) | {"revoked_by_fence": fence}
            _log.warning("revoked an endless lease: %s", entry)
            container.emit(events.LeaseRevoked(name=holding.name, key=holding.key))
            revoked.append(entry)
        return revoked

    def _tell(self, container: Container, holding: Holding) -> None:
        if holding.state == "live":
            return
        _log.warning("%s lease: %s", holding.state, entry_of(holding))
        container.emit(
            events.LeaseLeaked(
                name=holding.name,
                key=holding.key,
                owner=holding.owner,
                state=holding.state,
                age_seconds=holding.age_seconds,
            )
        )

    def _pending(self, container: Container) -> tuple[list[dict[str, Any]], bool]:
        if container.store is None:
            return [], False
        before = container.clock.wall() - self._pending_seconds
        try:
            rows, complete = container.store.pending(before=before)
        except StoreUnavailable as error:
            _log.warning("pending jobs could not be read: %s", error)
            return [], True
        for name, job_id, since in rows:
            _log.warning("job %s/%s is pending since %.0f", name, job_id, since)
        return [
            {"name": name, "id": job_id, "since": since} for name, job_id, since in rows
        ], not complete


def _counted(found: Sequence[Holding] | None) -> Mapping[State, int | None]:
    """Count leases by their state; None where nothing is known of them."""
    states: tuple[State, ...] = get_args(State)
    if found is None:
        return dict.fromkeys(states)
    counts = Counter(one.state for one in found)
    return {state: counts[state] for state in states}


def _listed(found: Sequence[Holding], state: str) -> list[dict[str, Any]]:
    return [entry_of(one) for one in found if one.state == state][:REPORTED]
