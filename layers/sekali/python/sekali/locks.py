"""Give leases without a job: a lock across all containers, on the same scripts.

::

    with lease("ledger/2026-11", wait_seconds=5) as held:
        read_ledger()
        held.ensure(10)
        table.put_item(Item=row | held.stamp(), **held.condition())

A holder that dies blocks the key for the length of a lease and no longer. One that was stopped for
longer than its lease finds it lost; only the resource itself can refuse what it writes then, by the
fence (see `leases`). While the shared cache is away there is no lock: the call raises.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sekali.answers import Acquired, Ask, Busy, End, new_token
from sekali.clock import jitter
from sekali.errors import LeaseBusy, SharedUnavailable
from sekali.keys import LOCK_NAME
from sekali.lease_events import tell_claim, tell_end
from sekali.leases import HeldLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.answers import ClaimAnswer, Lease, Terms
    from sekali.invocation import Invocation
    from sekali.shared import Shared
    from sekali.telemetry.events import Hook

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.1
"""No waiter asks more often than ten times a second."""
LONGEST_PAUSE_SECONDS: Final = 2.0


class Locksmith:
    """Acquire and release leases that belong to no job."""

    def __init__(
        self,
        invocation: Invocation,
        shared: Shared,
        terms: Terms,
        *,
        emit: Hook,
        uniform: Callable[[float, float], float] = jitter,
    ) -> None:
        """Keep the invocation whose time bounds every wait."""
        self._invocation = invocation
        self._shared = shared
        self._emit = emit
        # The record of a lock serves only the repeat of a lost reply.
        self._terms = replace(terms, max_attempts=2**31, record_ttl_seconds=terms.lease_seconds)
        self._uniform = uniform

    @contextmanager
    def hold(
        self, key: str, *, wait_seconds: float = 0.0, lease_seconds: float | None = None
    ) -> Iterator[HeldLease]:
        """Hold the lock `key` for the block.

        Args:
            key: what is locked, for every container of the namespace.
            wait_seconds: how long to wait for another holder, cut at the end of the invocation.
            lease_seconds: how long a dead holder would block the key; None as set.

        Raises:
            LeaseBusy: somebody else still holds it.
            SharedUnavailable: the shared cache did not answer: nothing is held.
        """
        lease = self._acquire(key, wait_seconds, lease_seconds)
        heartbeat = self._invocation.heartbeat
        lease.started = True
        heartbeat.watch(lease)
        heartbeat.start()
        try:
            yield HeldLease(lease, self._invocation, self._shared)
        finally:
            heartbeat.unwatch(lease)
            self._release(lease)

    def _acquire(self, key: str, wait_seconds: float, lease_seconds: float | None) -> Lease:
        seconds = self._invocation.bounded_lease_seconds(lease_seconds or self._terms.lease_seconds)
        token = new_token()
        ask = Ask(
            name=LOCK_NAME,
            id=f"lock-{token}",
            key=key,
            payload_hash="",
            token=token,
            terms=replace(self._terms, lease_seconds=seconds),
        )
        bound = min(wait_seconds, self._invocation.remaining_seconds())
        until, pause = self._invocation.now() + bound, FIRST_PAUSE_SECONDS
        contended = False
        while True:
            answer = self._claim(ask)
            if isinstance(answer, Acquired) or not contended:
                tell_claim(self._emit, ask, answer)
            if isinstance(answer, Acquired):
                return answer.lease
            contended = True
            left = until - self._invocation.now()
            holder = answer if isinstance(answer, Busy) else None
            if left <= 0:
                raise LeaseBusy(key, holder.owner if holder else None, wait_seconds)
            until_free = max(holder.remaining_seconds, FIRST_PAUSE_SECONDS) if holder else pause
            chosen = min(pause * self._uniform(1.0, 1.3), until_free, left)
            self._invocation.pause(chosen)
            pause = min(pause * 1.6, LONGEST_PAUSE_SECONDS)

    def _claim(self, ask: Ask) -> ClaimAnswer:
        claims, sent_at = self._invocation.claims, self._invocation.now()
        (reply,) = self._shared.flush([claims.claim(ask)], operation="claim")
        if isinstance(reply, Exception):
            raise SharedUnavailable("claim", str(reply)) from reply
        return claims.read_claim(ask, reply, sent_at)

    def _release(self, lease: Lease) -> None:
        """Give the lock back; a failure is logged, because the work is done and the lease ends."""
        tell_end(self._emit, lease, self._invocation.now())
        end = End(ask=lease.ask, token=lease.token, fence=lease.fence, outcome="W", recorded=False)
        try:
            self._shared.flush([self._invocation.claims.finish(end)], operation="finish")
        except SharedUnavailable as error:
            _log.warning("the lock of %s is not released but ends by itself: %s", lease.key, error)
