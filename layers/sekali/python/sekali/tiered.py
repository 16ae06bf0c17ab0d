"""Read through two tiers: local, then shared or lease in one step, then the loader.

    t=0.000  A: local miss → claim: Acquired → its loader runs
    t=0.010  B: local miss → claim: Busy → B waits, asking again at most ten times a second
    t=0.900  A: finish: the value is stored in the shared tier, then in A's local one
    t=0.950  B: claim: Served → stored in B's local tier; the loader ran once

Values are filled only after a loader succeeded and the finish step said that its lease was still
live and the key not invalidated meanwhile. `None`, `False`, `0` and `""` are values.

What is *not* guaranteed: that a loader runs once. A waiter at its bound loads without the lease
(or raises, by `on_timeout`), and while the shared cache is away every container loads for itself.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from sekali import codec
from sekali.answers import Acquired, Ask, Busy, End, Finished, Served, new_token
from sekali.errors import (
    LoadTimeout,
    ResultUnencodable,
    SettingInvalid,
    SharedUnavailable,
    ValueUnreadable,
)
from sekali.keys import CACHE_NAME
from sekali.local import MISSING
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import ClaimAnswer, Lease, Outcome, Terms
    from sekali.flights import Flights
    from sekali.invocation import Invocation
    from sekali.local import Local
    from sekali.shared import Shared

_log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
"""No waiter asks more often than ten times a second."""
LONGEST_PAUSE_SECONDS = 2.0
TTL_JITTER = 0.1
"""Part of a TTL that is taken off at random, so that what was filled together ends apart."""
WAIT_SHARE = 0.5
"""Part of the invocation's remaining time that a wait may use, unless the call says otherwise."""


class Tiered:
    """The two tiers, as one invocation sees them."""

    def __init__(
        self,
        *,
        local: Local,
        shared: Shared,
        flights: Flights,
        invocation: Invocation,
        terms: Terms,
        wall: Callable[[], float],
        emit: Callable[[events.Event], None],
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Keep the tiers and the invocation whose time every wait is cut from."""
        self._local = local
        self._shared = shared
        self._flights = flights
        self._invocation = invocation
        # The record of a load serves only the repeat of a lost reply.
        self._terms = replace(terms, max_attempts=2**31, record_ttl_seconds=terms.lease_seconds)
        self._wall = wall
        self._emit = emit
        self._uniform = uniform

    def get_or_load(
        self,
        key: str,
        loader: Callable[[], T],
        *,
        ttl_seconds: float,
        local_ttl_seconds: float | None = None,
        wait_seconds: float | None = None,
        on_timeout: Literal["load", "raise"] = "load",
    ) -> T:
        """Return the value of `key`, computing it with `loader` where neither tier has it.

        Args:
            key: the cache key, shared by all jobs of the namespace.
            loader: called without arguments; its result must be JSON to be stored.
            ttl_seconds: hard TTL of both tiers, in seconds; 0 does not store.
            local_ttl_seconds: shorter life in this container, None for the same.
            wait_seconds: bound of the wait for another holder, None for half the remaining time.
            on_timeout: at that bound, load without the lease, or raise.

        Raises:
            SettingInvalid: a TTL is negative.
            LoadTimeout: the bound was reached and `on_timeout` is `raise`.
            Exception: whatever the loader raised; nothing is stored then.
        """
        _refuse_negative("ttl_seconds", ttl_seconds)
        _refuse_negative("local_ttl_seconds", local_ttl_seconds or 0.0)
        found = self._local.get(_scoped(key))
        if found is not MISSING:
            self._emit(events.CacheRead(source="local", name=CACHE_NAME, key=key))
            return cast("T", found)
        call = _Call(key, loader, ttl_seconds, local_ttl_seconds, wait_seconds, on_timeout)
        if self._flights.entered(key):
            return loader()
        bound = call.bound(self._invocation.remaining_seconds())
        with self._flights.hold(key, wait_seconds=bound):
            found = self._local.get(_scoped(key))
            if found is not MISSING:
                self._emit(events.CacheRead(source="local", name=CACHE_NAME, key=key))
                return cast("T", found)
            return cast("T", self._from_shared(call))

    def _from_shared(self, call: _Call) -> object:
        token = new_token()
        ask = Ask(
            name=CACHE_NAME,
            id=f"load-{token}",
            key=call.key,
            payload_hash="",
            token=token,
            terms=self._terms,
        )
        until = self._invocation.now() + call.bound(self._invocation.remaining_seconds())
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = self._claim(ask)
            except SharedUnavailable as error:
                _log.warning("loading %s without the shared tier: %s", call.key, error)
                return call.loader()
            if isinstance(answer, Served):
                try:
                    return self._serve(call, answer.value)
                except ValueUnreadable as error:
                    self._emit(events.UnreadableValue(name=CACHE_NAME, reason=error.reason))
                    ask = replace(ask, refuse=codec.fence_of(answer.value))
                    continue
            if isinstance(answer, Acquired):
                return self._load(call, answer.lease)
            if self._invocation.now() >= until:
                return self._at_bound(call, until)
            pause = self._wait(answer, pause, until)

    def _claim(self, ask: Ask) -> ClaimAnswer:
        claims = self._invocation.claims
        sent_at = self._invocation.now()
        (reply,) = self._shared.flush([claims.claim(ask)])
        if isinstance(reply, Exception):
            raise SharedUnavailable("claim", str(reply)) from reply
        return claims.read_claim(ask, reply, sent_at)

    def _wait(self, answer: ClaimAnswer, pause: float, until: float) -> float:
        left = answer.remaining_seconds if isinstance(answer, Busy) else LONGEST_PAUSE_SECONDS
        # A lease about to end is looked at when it ends; a long one by growing pauses.
        chosen = max(min(pause, left), FIRST_PAUSE_SECONDS) * self._uniform(1.0, 1.3)
        self._invocation.pause(max(min(chosen, until - self._invocation.now()), 0.0))
        return min(pause * 1.6, LONGEST_PAUSE_SECONDS)

    def _at_bound(self, call: _Call, until: float) -> object:
        waited = call.bound(self._invocation.remaining_seconds())
        self._emit(events.LoadTimedOut(name=CACHE_NAME, key=call.key, policy=call.on_timeout))
        if call.on_timeout == "raise":
            raise LoadTimeout(call.key, max(waited, self._invocation.now() - until))
        return call.loader()

    def _serve(self, call: _Call, value: bytes) -> object:
        opened = codec.read(value, key=_scoped(call.key))
        result = codec.decode(opened.body)
        self._emit(events.CacheRead(source="shared", name=CACHE_NAME, key=call.key))
        left = opened.created + opened.ttl_seconds - self._wall()
        self._keep(call, result, opened.body, opened.fence, min(left, opened.ttl_seconds))
        return result

    def _load(self, call: _Call, lease: Lease) -> object:
        heartbeat = self._invocation.heartbeat
        lease.started = True
        heartbeat.watch(lease)
        heartbeat.start()
        began = self._invocation.now()
        try:
            value = call.loader()
        except BaseException:
            self._end(lease, "W", b"", b"", 0.0)
            raise
        finally:
            heartbeat.unwatch(lease)
        seconds = self._invocation.now() - began
        self._emit(
            events.CacheRead(source="loaded", name=CACHE_NAME, key=call.key, load_seconds=seconds)
        )
        self._store(call, lease, value)
        return value

    def _store(self, call: _Call, lease: Lease, value: object) -> None:
        try:
            body = codec.encode(value)
        except ResultUnencodable as error:
            _log.warning("the value of %s is returned but not cached: %s", call.key, error)
            self._end(lease, "D", b"", b"", 0.0)
            return
        ttl = call.ttl_seconds * self._uniform(1.0 - TTL_JITTER, 1.0)
        header = b""
        if ttl > 0:
            header = codec.header(
                lease.fence,
                key=_scoped(call.key),
                created=self._wall(),
                ttl_seconds=ttl,
                epochs={},
                body=body,
            )
        if self._end(lease, "D", body if header else b"", header, ttl):
            self._keep(call, value, body, lease.fence, ttl)

    def _end(
        self, lease: Lease, outcome: Outcome, result: bytes, header: bytes, ttl: float
    ) -> bool:
        """Finish the load; True if the shared tier took the value."""
        claims = self._invocation.claims
        end = End(
            ask=lease.ask,
            token=lease.token,
            fence=lease.fence,
            outcome=outcome,
            recorded=False,
            result=result,
            header=header,
            value_ttl_seconds=ttl,
        )
        try:
            (reply,) = self._shared.flush([claims.finish(end)])
        except SharedUnavailable as error:
            _log.warning("the value of %s was not stored: %s", lease.key, error)
            return False
        if isinstance(reply, Exception):
            _log.warning("the value of %s was refused: %s", lease.key, reply)
            return False
        answer = claims.read_finish(end, reply)
        return isinstance(answer, Finished) and answer.filled

    def _keep(
        self, call: _Call, value: object, body: bytes, fence: int, ttl_seconds: float
    ) -> None:
        seconds = ttl_seconds
        if call.local_ttl_seconds is not None:
            seconds = min(seconds, call.local_ttl_seconds)
        if seconds > 0:
            self._local.put(
                _scoped(call.key), value, encoded=body, ttl_seconds=seconds, fence=fence
            )


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of `get_or_load`, with its options."""

    key: str
    loader: Callable[[], object]
    ttl_seconds: float
    local_ttl_seconds: float | None
    wait_seconds: float | None
    on_timeout: Literal["load", "raise"]

    def bound(self, remaining_seconds: float) -> float:
        """Return how long this call may wait, in seconds."""
        share = max(remaining_seconds, 0.0) * WAIT_SHARE
        return share if self.wait_seconds is None else min(self.wait_seconds, remaining_seconds)


def _scoped(key: str) -> str:
    return f"{CACHE_NAME}/{key}"


def _refuse_negative(name: str, seconds: float) -> None:
    if seconds < 0:
        raise SettingInvalid(name, "must be 0 (do not store) or more", str(seconds))
