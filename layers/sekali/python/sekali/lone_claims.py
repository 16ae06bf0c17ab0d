"""Claim and end records one at a time, outside a batch.

A claim and its end are two calls, between which somebody else's code runs. They find each other
through a context variable, and never by the record's id alone: with a token kept by id, a stale
holder would finish as the newer one.

    context A                          context B
    claim(r)   Acquired, fence 7
      frozen, lease ends               claim(r)   Acquired, fence 8
    finish(r)  ends *its own* claim    finish(r)  done
               of fence 7: LeaseLost

Inside a job the claims belong to the job's invocation: its deadline, its heartbeat. Elsewhere each
has an invocation and a heartbeat of its own.

While the shared cache is away, `claim` raises; `finish` tries for as long as the lease would last;
`give_back` leaves the lease to end by itself.

What is *not* guaranteed: that a holder which neither finishes nor gives back is noticed before its
invocation ends, for which 15 minutes stand where nobody said when that is; unless it gave a
`wanted` that tells.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sekali.answers import (
    LONGEST_INVOCATION_SECONDS,
    Acquired,
    Ask,
    End,
    Finished,
    FinishSuperseded,
    new_token,
)
from sekali.errors import LeaseLost, SharedUnavailable
from sekali.invocation import CURRENT
from sekali.lease_events import tell_claim, tell_end
from sekali.light_dataclass import dataclass
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import ClaimAnswer, Lease, Outcome, Seen, Terms
    from sekali.invocation import Invocation
    from sekali.scripts import Command
    from sekali.warm import Container

_log = logging.getLogger(__name__)

LAST_FLUSH_SECONDS: Final = 0.5
"""Time kept free before the deadline."""
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
"""Between two attempts to store a result while the shared cache is away."""
DEEPEST_NESTING: Final = 100
_UNLIMITED_ATTEMPTS: Final = 2**31


@dataclass(frozen=True, slots=True)
class _Open:
    """A claim of this context that was not ended yet. `lone`: its heartbeat serves nobody else."""

    lease: Lease
    invocation: Invocation
    lone: bool

    def close(self) -> None:
        """Let the heartbeat's thread end with its only lease."""
        if self.lone:
            self.invocation.heartbeat.stop()


_OPEN: ContextVar[tuple[_Open, ...]] = ContextVar("sekali_open_claims", default=())


class LoneClaims:
    """The claims under one name. Safe to use from several threads: it keeps nothing itself."""

    def __init__(self, name: str, container: Callable[[], Container] | None = None) -> None:
        """Claim in `container`; None is the warm one, which is then built at the first claim."""
        self._name = name
        self._own_container = container

    def claim(
        self,
        record_id: str,
        *,
        payload_hash: str,
        record_ttl_seconds: float,
        ends_at: float | None,
        request_id: str,
        wanted: Callable[[], bool] | None = None,
    ) -> ClaimAnswer:
        """Claim a record that is its own key; if it is acquired, it stays open in this context.

        Args:
            record_id: whose record.
            payload_hash: what the record is bound to as long as it lives.
            record_ttl_seconds: how long it lives.
            ends_at: wall clock of the invocation's end, None if nobody knows it.
            request_id: names the owner for whoever finds the lease.
            wanted: asked before each renewal; once it says no, the lease is left to end.

        Raises:
            SharedUnavailable: nothing is claimed, or nobody knows; a lease ends by itself.
        """
        container = self._container()
        invocation, lone = self._invocation(container, ends_at, request_id)
        ask = Ask(
            name=self._name,
            id=record_id,
            key=record_id,
            payload_hash=payload_hash,
            token=new_token(),
            terms=_terms(container.default_terms(), invocation, record_ttl_seconds),
        )
        sent_at = invocation.now()
        reply = _send(container, invocation.claims.claim(ask), "claim")
        answer = invocation.claims.read_claim(ask, reply, sent_at)
        tell_claim(container.emit, ask, answer)
        if isinstance(answer, Acquired):
            _keep(_Open(answer.lease, invocation, lone), wanted)
        return answer

    def finish(self, record_id: str, body: bytes) -> None:
        """Settle the record that this context claimed with `body`, and let its lease go.

        Raises:
            LeaseLost: this context has no such claim, or another result or claim is newer.
            SharedUnavailable: it could not be stored within the time of the lease.
        """
        opened = self._take(record_id)
        if opened is None:
            raise LeaseLost(record_id)
        claims, container = opened.invocation.claims, self._container()
        end = _end(opened.lease, "D", body)
        try:
            answer = claims.read_finish(end, _store(container, opened, claims.finish(end)))
        finally:
            opened.close()
            tell_end(container.emit, opened.lease, opened.invocation.now())
        if isinstance(answer, FinishSuperseded):
            container.emit(events.Superseded(name=self._name, key=record_id, fence=end.fence))
        # Done with another result: whoever asks again gets that one, so this one must not get out.
        if not isinstance(answer, Finished) or answer.result != body:
            raise LeaseLost(record_id)

    def give_back(self, record_id: str) -> None:
        """Let the next claim have the record; do nothing if this context does not hold it."""
        opened = self._take(record_id)
        if opened is None:
            return
        container = self._container()
        command = opened.invocation.claims.finish(_end(opened.lease, "W"))
        try:
            _send(container, command, "finish")
        except SharedUnavailable as error:
            _log.warning("%s is not given back but ends by itself: %s", record_id, error)
        finally:
            opened.close()
            tell_end(container.emit, opened.lease, opened.invocation.now())

    def peek(self, record_id: str) -> Seen | None:
        """Return what the record says now, without a claim; None if there is none.

        Raises:
            SharedUnavailable: nobody knows.
        """
        container = self._container()
        claims = self._invocation(container, None, "-")[0].claims
        command = claims.peek(self._name, record_id, record_id)
        return claims.read_peek(_send(container, command, "peek"))

    def _container(self) -> Container:
        if self._own_container is not None:
            return self._own_container()
        from sekali import warm

        return warm.container()

    def _invocation(
        self, container: Container, ends_at: float | None, request_id: str
    ) -> tuple[Invocation, bool]:
        """Return the invocation a claim belongs to, and whether it serves this claim alone."""
        current = CURRENT.get()
        if current is not None and self._own_container is None:
            return current, False
        from sekali.warm import owner_name

        remaining_seconds = LONGEST_INVOCATION_SECONDS
        if ends_at is not None:
            remaining_seconds = ends_at - container.clock.wall()
        owner = owner_name(request_id)
        return container.invocation(owner=owner, remaining_seconds=remaining_seconds), True

    def _take(self, record_id: str) -> _Open | None:
        """Take the innermost open claim of a record out of this context."""
        wanted = (self._name, record_id)
        mine = [one for one in _OPEN.get() if (one.lease.ask.name, one.lease.ask.id) == wanted]
        if not mine:
            return None
        taken = mine[-1]
        _OPEN.set(tuple(one for one in _OPEN.get() if one is not taken))
        taken.invocation.heartbeat.unwatch(taken.lease)
        return taken


def _keep(opened: _Open, wanted: Callable[[], bool] | None) -> None:
    def is_wanted() -> bool:
        if wanted is None or wanted():
            return True
        _log.warning("%s was left without an end: its lease ends by itself", opened.lease.key)
        opened.close()
        return False

    # Nothing is nested deeper: what lies further down was left without an end.
    _OPEN.set((*_OPEN.get()[1 - DEEPEST_NESTING :], opened))
    opened.lease.started = True
    opened.invocation.heartbeat.watch(opened.lease, wanted=is_wanted)
    opened.invocation.heartbeat.start()


def _terms(terms: Terms, invocation: Invocation, record_ttl_seconds: float) -> Terms:
    """Return the terms of a lone claim, for which no attempt is the last."""
    return replace(
        terms,
        lease_seconds=invocation.bounded_lease_seconds(terms.lease_seconds),
        max_attempts=_UNLIMITED_ATTEMPTS,
        record_ttl_seconds=record_ttl_seconds,
        born_ttl_seconds=max(terms.born_ttl_seconds, record_ttl_seconds),
    )


def _end(lease: Lease, outcome: Outcome, result: bytes = b"") -> End:
    return End(
        ask=lease.ask,
        token=lease.token,
        fence=lease.fence,
        outcome=outcome,
        recorded=False,
        result=result,
    )


def _store(container: Container, opened: _Open, command: Command) -> Any:  # Any: as `_send`
    """Send a finish, repeatedly while the cache is away, for as long as a lease would last."""
    invocation, pause = opened.invocation, FIRST_PAUSE_SECONDS
    until = invocation.now() + min(
        opened.lease.ask.terms.lease_seconds,
        invocation.remaining_seconds() - LAST_FLUSH_SECONDS,
    )
    while True:
        try:
            return _send(container, command, "finish")
        except SharedUnavailable as error:
            if invocation.now() + pause > until:
                raise
            _log.warning("a result could not be stored and is sent again: %s", error)
        invocation.pause(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _send(container: Container, command: Command, operation: str) -> Any:  # Any: a reply
    (reply,) = container.shared.flush([command], operation=operation)
    if isinstance(reply, Exception):
        raise SharedUnavailable(operation, str(reply)) from reply
    return reply
