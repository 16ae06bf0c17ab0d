"""Renew the leases of one invocation, all in one pipeline per beat.

    t=0    claims sent, leases of 12 s
    t=3    a cold start has imported what it needs; what is left counts, not when this began
    t=6    beat: one pipeline renews every lease that is still open   (a third of 9 s, jittered)
    t=10   beat fails: the cache does not answer                      tried again every 0.4 s
    t=11   beat: fine again, nothing was lost
    t=23   a lease whose renewals failed until it ran out is marked lost, and its holder is told

One heartbeat belongs to one invocation. It is stopped at its end, where a beat under way is waited
for, so nothing beats while the container is frozen; should a thaw happen in the middle all the
same, every lease that ran out by `now` is lost without a word to the server, because somebody else
may hold it by then. That is for leases under which somebody works: one whose body has not started
is left to the start, which asks the server first.

What is *not* guaranteed: that a lease is still held when the next line of the body runs. The fence
in every write is what protects the others.
"""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING

from sekali.answers import Lost
from sekali.clock import jitter
from sekali.errors import SharedUnavailable
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sekali.answers import Lease
    from sekali.claims import Claims
    from sekali.pulse import Pulse
    from sekali.shared import Shared

_log = logging.getLogger(__name__)

KILL_SLOP_SECONDS = 2.0
"""A timed-out function was seen alive 0.7 s after its deadline: leases outlive it by this much."""
BEATS_PER_LEASE = 3.0
RETRIES_PER_LEASE = 30.0
MIN_WAIT_SECONDS = 0.05


class Heartbeat:
    """Keep leases alive from the thread of `pulse`, from `start` on and not before.

    `deadline` is when the function will be killed, on the line of `now`: no lease is renewed past
    it by more than the slop.
    """

    def __init__(
        self,
        *,
        shared: Shared,
        claims: Claims,
        now: Callable[[], float],
        pulse: Pulse,
        emit: Callable[[events.Event], None],
        enabled: bool = True,
        uniform: Callable[[float, float], float] = jitter,
    ) -> None:
        """Keep what a beat needs; one that is not enabled never starts."""
        self.enabled = enabled
        self._shared = shared
        self._claims = claims
        self._now = now
        self.deadline: float = math.inf
        self._emit = emit
        self._uniform = uniform
        self._leases: dict[str, Lease] = {}
        self._wanted: dict[str, Callable[[], bool]] = {}
        self._callbacks: dict[str, list[Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._pulse = pulse
        self._due_at = math.inf
        self._started = self._stopped = False

    def watch(self, lease: Lease, *, wanted: Callable[[], bool] | None = None) -> None:
        """Renew `lease` from the next beat on, for as long as `wanted` does not say no."""
        with self._lock:
            self._leases[lease.token] = lease
            if wanted is not None:
                self._wanted[lease.token] = wanted
            sooner = self._started and self._is_due_sooner(lease)
        if sooner:
            self._wait()

    def watch_all(self, leases: Iterable[Lease]) -> None:
        """Renew each of `leases` from the next beat on."""
        with self._lock:
            running = self._started
            if not running:
                self._leases.update((lease.token, lease) for lease in leases)
        if running:
            for lease in leases:
                self.watch(lease)

    def unwatch(self, *leases: Lease) -> None:
        """Renew `leases` no more; a renewal under way is refused by the server if it comes late."""
        with self._lock:
            for lease in leases:
                self._leases.pop(lease.token, None)
                if self._wanted:
                    self._wanted.pop(lease.token, None)
                if self._callbacks:
                    self._callbacks.pop(lease.token, None)

    def on_lost(self, lease: Lease, callback: Callable[[], None]) -> None:
        """Call `callback` once when `lease` is found lost; at once, if it is lost already."""
        with self._lock:
            watched = lease.token in self._leases and not lease.lost
            if watched:
                self._callbacks.setdefault(lease.token, []).append(callback)
        if not watched and lease.lost:
            _call(callback)

    def lose(self, lease: Lease) -> None:
        """Mark `lease` as lost and tell its holder."""
        with self._lock:
            self._leases.pop(lease.token, None)
            self._wanted.pop(lease.token, None)
            callbacks = self._callbacks.pop(lease.token, [])
        lease.lost = True
        self._emit(events.LeaseLost(name=lease.ask.name, key=lease.ask.key))
        _log.warning("the lease of %s is lost", lease.ask.key)
        for callback in callbacks:
            _call(callback)

    def start(self) -> None:
        """Start beating, once."""
        if self.enabled and not self._started:
            self._started = True
            self._wait()

    def stop(self) -> None:
        """Stop, once a beat under way is over. Whatever is still watched is not renewed."""
        self._stopped = True
        if self._started:
            self._pulse.remove(self._tick)

    def beat(self) -> bool:
        """Renew every watched lease once; False if the cache did not answer."""
        with self._lock:
            leases = list(self._leases.values())
        alive = [lease for lease in leases if self._still_alive(lease)]
        if not alive or self._stopped:
            return True
        sent_at, left = self._now(), self._left()
        if left <= 0:
            return True
        commands = [
            self._claims.renew(
                lease,
                lease_seconds=min(lease.ask.terms.lease_seconds, left),
                started=lease.started,
            )
            for lease in alive
        ]
        try:
            replies = self._shared.flush(commands, operation="renew")
        except SharedUnavailable as error:
            _log.warning("a heartbeat failed and is tried again: %s", error)
            return False
        for lease, reply in zip(alive, replies, strict=True):
            if isinstance(reply, Exception):
                _log.warning("renewing %s failed: %s", lease.ask.key, reply)
            elif isinstance(self._claims.read_renew(lease, reply, sent_at), Lost):
                self._lose_if_watched(lease)
        return True

    def _lose_if_watched(self, lease: Lease) -> None:
        """Lose a lease, unless its own finish overtook this beat."""
        with self._lock:
            watched = lease.token in self._leases
        if watched:
            self.lose(lease)

    def _still_alive(self, lease: Lease) -> bool:
        if lease.lost:
            return False
        wanted = self._wanted.get(lease.token)
        if wanted is not None and not wanted():
            self.unwatch(lease)
            return False
        if self._now() < lease.expires_at:
            return True
        if lease.started:
            self.lose(lease)
        return False

    def _tick(self) -> float:
        """Beat, and return the seconds until the next one."""
        beats = BEATS_PER_LEASE if self.beat() else RETRIES_PER_LEASE
        # The end of its invocation stops a heartbeat that nobody else does.
        return self._next_pause(beats) if self._left() > 0 else math.inf

    def _left(self) -> float:
        """Return the seconds for which renewing makes sense."""
        return self.deadline + KILL_SLOP_SECONDS - self._now()

    def _wait(self) -> None:
        self._pulse.add(self._tick, after_seconds=self._next_pause(BEATS_PER_LEASE))

    def _next_pause(self, beats: float) -> float:
        """Return the seconds until the lease that needs it first is due; inf for none."""
        with self._lock:
            now = self._now()
            lengths = [_length(lease, now) for lease in self._leases.values()]
            # One draw: what is jittered is the beat, which all of them share.
            pause = self._part(min(lengths), beats) if lengths else math.inf
            self._due_at = now + pause
        return pause

    def _is_due_sooner(self, lease: Lease) -> bool:
        now = self._now()
        return now + self._part(_length(lease, now)) < self._due_at

    def _part(self, seconds: float, beats: float = BEATS_PER_LEASE) -> float:
        return max(seconds / beats * self._uniform(0.8, 1.0), MIN_WAIT_SECONDS)


def _length(lease: Lease, now: float) -> float:
    """Return what is left of `lease`, or, where more is left, its usual length."""
    seconds, left = lease.ask.terms.lease_seconds, lease.expires_at - now
    # One that ran out before its body started is renewed by the start, which asks the server.
    return min(seconds, left) if left > 0 else seconds


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except BaseException:  # noqa: BLE001
        # A hook of the user's: it must not keep the others from being renewed, not by `sys.exit`.
        _log.exception("on_lost %r failed", callback)
