"""Talk to the shared cache, through one guarded door.

Everything that is sent goes through `Shared.flush`: one pipeline, one wait. The door knows what a
long-lived client does not: that this process is frozen between invocations (a socket that idled is
closed, not trusted), that a script may be unknown to a node (its text is sent once), and that an
invocation has an end (time-outs are short, there is one retry, and none past the time given).

Several threads may flush at once: the body of a job and the heartbeat beside it do. A client is
made once, and one that failed a thread is closed when no other thread is in the middle of a flush
with it, because a socket that is closed under a reader does not fail in any orderly way.

When the cache is down every flush raises `SharedUnavailable`, most of them at once, because a
breaker lets one probe through per second; what happens then is the caller's policy.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sekali.breaker import Breaker
from sekali.clock import age_seconds, now, seconds_between
from sekali.connections import CacheSettings, Waits, close, connect, exchange, redirect
from sekali.errors import SharedUnavailable
from sekali.refusals import Disconnected, Refused
from sekali.scripts import Command
from sekali.telemetry.events import SharedFailed
from sekali.wire import AWAY, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.clock import Clock, Moment
    from sekali.link import Arguments

T = TypeVar("T")

__all__ = ["CacheSettings", "Command", "Shared", "connect"]

IDLE_SECONDS: Final = 60.0
"""A connection unused for this long is replaced: idle flows are dropped without a word."""

RESTED_SECONDS: Final = 0.05
"""A connection used less than this long ago, by both clocks, is not looked at before a claim."""

_ATTEMPTS: Final = 2
FIRST_PART: Final = 4
_NO_MORE: Final[Iterator[Any]] = iter(())  # Any: parts of nothing


class _Line:
    """One client, and how many flushes are under way with it."""

    __slots__ = ("client", "flushes", "waits", "wire")

    def __init__(self, client: Any) -> None:  # Any: links.Server, or a client of redis-py
        self.client = client
        self.flushes = 0
        self.waits = Waits()
        self.wire = Wire(client)


_GRAVE: Final = frozenset({"CLUSTERDOWN", "MASTERDOWN", "OOM", "READONLY"})
"""Codes of a server that answers and serves nobody who writes."""
_FULL: Final = "OOM"
_UNKNOWN: Final = "NOSCRIPT"
_PASSING: Final = _GRAVE | {"BUSY", "LOADING", "MISCONF", "NOREPLICAS", "TRYAGAIN"}


def _refused(replies: Sequence[Any]) -> list[int]:  # Any: as in Shared.flush
    """Return the places of what is no reply."""
    return [at for at, reply in enumerate(replies) if isinstance(reply, Exception)]


def in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut what is to be sent: a short part, so that the server begins soon, then longer ones.

    The server works on a part while the next is made. Each is twice as long as the one before, so
    five hundred claims go out in seven.
    """
    at, length = 0, FIRST_PART
    while at < len(items):
        yield items[at : at + length]
        at, length = at + length, 2 * length


def _noting(
    more: Iterator[Sequence[Command]], made: list[Command]
) -> Iterator[Sequence[Arguments]]:
    """Return the arguments of what `more` makes, part by part; note the commands in `made`."""
    for part in more:
        made += part
        yield [command.args for command in part]


def exhaust(parts: Iterator[object]) -> None:
    """Have all of `parts` made, without a use for them here."""
    for _ in parts:
        pass


def _code(refusal: object) -> str:
    return refusal.code if isinstance(refusal, Refused) else ""


def is_passing(reply: object) -> bool:
    """Tell whether a refusal is of the server's present state and not of the command.

    A primary that is being replaced, has no room or no replicas takes the same command later.
    """
    return isinstance(reply, Refused) and reply.code in _PASSING


class Shared:
    """Send pipelines to the shared cache.

    `connect` makes the client (see the function of that name) and is called at the first flush.
    `flushes` counts the pipelines that waited for a reply, resends included.
    """

    def __init__(
        self,
        connect: Callable[[], Any],  # Any: links.Server, or a client of redis-py
        *,
        clock: Clock,
        on_event: Callable[[Any], None] | None = None,  # Any: a hook takes every event
    ) -> None:
        """Connect nothing yet."""
        self._connect = connect
        self._clock = clock
        self._on_event = on_event
        self._line: _Line | None = None
        self._lock = threading.Lock()
        self._used: Moment | None = None
        self.breaker: Breaker = Breaker(clock)
        self.flushes: int = 0

    def flush(
        self,
        commands: Sequence[Command],
        *,
        operation: str = "flush",
        within_seconds: float | None = None,
        more: Iterator[Sequence[Command]] = _NO_MORE,
        began: Moment | None = None,
    ) -> list[Any]:  # Any: replies have as many types as commands
        """Send the commands in one pipeline and return a reply for each, in their order.

        What `more` makes belongs to the same pipeline: each part goes out as soon as it is made,
        while the server works on those before, and nothing is waited for in between. Where nothing
        can be sent, it is not asked for all of them.

        A command that the server refused has a `Refused` in place of a reply; the others are not
        touched by that. Scripts that a node did not know are sent again with their text, and only
        those, in a second flush.

        If the connection fails, everything is sent once more on a new one: each of our commands may
        be repeated, so it does not matter how far the first attempt came. With `within_seconds` the
        time-outs are cut so that it is kept, and nothing is sent once it is over. A caller that has
        just read the clocks gives them as `began`.

        Raises:
            SharedUnavailable: No connection, no reply in time, or not for every command.
        """
        if not commands:
            return []
        if within_seconds is not None and within_seconds <= 0:
            raise SharedUnavailable(operation, "NoTimeLeft")
        if not self.breaker.closed and not self.breaker.allows():
            raise SharedUnavailable(operation, "BreakerOpen")
        began = began or now(self._clock)
        until = None if within_seconds is None else began.monotonic + within_seconds
        made = list(commands)
        with self._told(operation, began):
            replies, refused = self._send(made, operation, began, until, _noting(more, made))
            return self._settled(made, replies, refused, operation, began=began, until=until)

    def claim(
        self,
        packed: bytes,
        command: Callable[[], Command],
        within_seconds: float,
        began: Moment,
        meanwhile: Callable[[], object],
    ) -> Any:  # Any: as in flush
        """Send one packed claim and return its reply, as `flush` does, in fewer steps.

        That is the straight way: to the only server, on the connection at hand, which nobody uses,
        with time enough and the breaker closed. Where it is not open, `command` makes what is
        flushed; so it does where the first attempt failed, or the server did not know the script.
        `meanwhile` is called while the server works, on this way only. It must not fail.

        Raises:
            SharedUnavailable: as `flush`.
        """
        used, reply, tried = self._used, AWAY, ""
        rested = math.inf if used is None else seconds_between(used, began)
        line = self._straight(within_seconds) if rested <= IDLE_SECONDS else None
        if line is not None and line.wire.only is not None:
            failed = True
            try:
                reply = line.wire.only.ask(
                    packed, meanwhile, within_seconds, rested=rested > RESTED_SECONDS
                )
                failed = False
            except Disconnected as error:
                tried = error.cause
            finally:
                self._return(line, failed=failed, flushes=int(failed or reply is not AWAY))
        if reply is AWAY and not tried:
            return self.flush(
                [command()], operation="claim", within_seconds=within_seconds, began=began
            )[0]
        if not tried:
            self._used = began
            if not isinstance(reply, Exception):
                return reply
        made, until = [command()], began.monotonic + within_seconds
        with self._told("claim", began):
            if tried:
                replies, refused = self._send(made, "claim", began, until, tried=tried)
            else:
                replies, refused = [reply], [0]
            return self._settled(made, replies, refused, "claim", began=began, until=until)[0]

    def _straight(self, within_seconds: float) -> _Line | None:
        """Borrow the line if its straight way is open."""
        if not self.breaker.closed:
            return None
        with self._lock:
            line = self._line
            # Borrowed is what will be given back: a cluster has no only seat.
            if (
                line is None
                or line.wire.only is None
                or within_seconds <= line.waits.plenty_seconds
            ):
                return None
            line.flushes += 1
            return line

    @contextmanager
    def _told(self, operation: str, began: Moment) -> Iterator[None]:
        """Open the breaker, and tell, where the block finds the cache away."""
        try:
            yield
        except SharedUnavailable as error:
            self.breaker.failed(age_seconds(began, self._clock))
            self._tell(SharedFailed(operation=operation, error=error.cause))
            raise

    def _settled(
        self,
        made: Sequence[Command],
        replies: list[Any],  # Any: as in flush
        refused: Sequence[int],
        operation: str,
        *,
        began: Moment,
        until: float | None,
    ) -> list[Any]:  # Any: as in flush
        """Send scripts again that the server did not know, watch what it refused, close up."""
        if refused:
            unknown = [at for at in refused if _code(replies[at]) == _UNKNOWN]
            texts = [Command(made[at].with_text()) for at in unknown]
            again, _ = self._send(texts, operation, began, until) if texts else ([], [])
            for at, reply in zip(unknown, again, strict=True):
                replies[at] = reply
            refused = _refused(replies)
        if refused:
            self._watch([replies[at] for at in refused], operation)
        elif not self.breaker.closed:
            self.breaker.succeeded()
        return replies

    def _watch(self, refusals: Sequence[Exception], operation: str) -> None:
        """Close the breaker, or, where the server answers but refuses, look for another server."""
        graver = [code for code in map(_code, refusals) if code in _GRAVE]
        if not graver:
            self.breaker.succeeded()
            return
        self._tell(SharedFailed(operation=operation, error=graver[0]))
        if graver[0] != _FULL:
            self.close()  # its name may lead to the new primary by now

    def _tell(self, event: SharedFailed) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def close(self) -> None:
        """Close every connection; the next flush makes new ones."""
        with self._lock:
            line, self._line, self._used = self._line, None, None
            idle = line is not None and line.flushes == 0
        if line is not None and idle:
            close(line.client)

    def forget_parent(self) -> None:
        """Begin anew in a forked process: sockets, and who holds which lock, are the parent's.

        What is dropped here is closed on this side only; the parent goes on speaking.
        """
        self._lock = threading.Lock()
        self._line = self._used = None
        self.breaker = Breaker(self._clock)

    def _send(
        self,
        commands: Sequence[Command],
        operation: str,
        began: Moment,
        until: float | None,
        more: Iterator[Sequence[Arguments]] = _NO_MORE,
        *,
        tried: str = "",
    ) -> tuple[list[Any], list[int]]:  # Any: as in flush
        """Return the replies, and the places of those that are refusals.

        `tried` is why the same was sent once in vain already, if it was.
        """
        used = self._used
        if used is not None and seconds_between(used, began) > IDLE_SECONDS:
            self.close()
        cause = tried or "NoTimeLeft"
        for _ in range(_ATTEMPTS - bool(tried)):
            left = None if until is None else until - self._clock.monotonic()
            if left is not None and left <= 0:
                break
            try:
                found = self._exchange([command.args for command in commands], left, more)
            except Disconnected as error:
                cause = error.cause
                exhaust(more)  # the next attempt sends all of them
            else:
                self._used = began
                return found
        raise SharedUnavailable(operation, cause)

    def _exchange(
        self,
        commands: Sequence[Arguments],
        left_seconds: float | None,
        more: Iterator[Sequence[Arguments]],
    ) -> tuple[list[Any], list[int]]:  # Any: as in flush
        line = self._borrow()
        failed = True
        try:
            if line.waits.fit(line.client, left_seconds):
                line.wire.renew()
            if not line.wire.alone:  # who takes them depends on all of them
                commands = [*commands, *chain.from_iterable(more)]
            seat = line.wire.seat(commands)
            if seat is None:
                replies, redirected = exchange(line.client, commands)
            else:
                replies, redirected = seat.exchange(commands, more, left_seconds), 0
            refused = _refused(replies)
            if refused:
                for at in refused:  # a cluster client hands back in place what others raise
                    if isinstance(replies[at], Disconnected):
                        raise replies[at]
                if seat is not None and line.wire.routed:
                    redirected = redirect(line.client, commands, replies)
                    refused = _refused(replies)
            if redirected:
                with self._lock:
                    self.flushes += redirected
            failed = False
            return replies, refused
        finally:
            self._return(line, failed=failed)

    def _borrow(self) -> _Line:
        with self._lock:
            if self._line is None:
                self._line = _Line(self._connect())
            self._line.flushes += 1
            self.flushes += 1
            return self._line

    def _return(self, line: _Line, *, failed: bool, flushes: int = 0) -> None:
        """Let a client go; the last one to do so closes what is not in use any more.

        `flushes` were not counted yet.
        """
        with self._lock:
            self.flushes += flushes
            line.flushes -= 1
            if failed and self._line is line:
                self._line = self._used = None
            over = self._line is not line and line.flushes == 0
        if over:
            close(line.client)
