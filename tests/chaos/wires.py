"""Stand between the functions and their servers, hand bytes on, and fail as a network fails.

    function ──> front ──(script looks at each parcel)──> back ──> server

A parcel is what the script decides about: whatever arrived at once from a client of the cache, one
whole request of an HTTP client. What the server answers is observed before anything is done to it,
so the history holds what really happened, whatever the client got to see.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.local.relay import Address

How = Literal["forward", "drop", "delay", "refuse", "half_open", "swallow", "cut", "cut_reply"]

# A client that died has sent its request all the same: the answer is waited for, to be observed.
_LINGER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What to do with a parcel and its connection; `then` is called when the server answers."""

    how: How = "forward"
    seconds: float = 0.0
    answer: bytes = b""
    then: Callable[[], None] | None = None


FORWARD: Final = Deed()


class Tap(Protocol):
    """Reads one connection. `cut` splits what was sent; the others see what was handed on."""

    def cut(self, data: bytes) -> list[bytes]:
        """Take bytes of the client; answer the parcels that became complete."""

    def windows(self, parcel: bytes) -> tuple[str, ...]:
        """Name the steps of the protocol that a parcel takes."""

    def sent(self, parcel: bytes) -> None:
        """See a parcel go to the server."""

    def received(self, data: bytes) -> None:
        """See bytes come from the server."""

    @property
    def unanswered(self) -> bool:
        """Whether the server owes an answer."""


class Script(Protocol):
    """Decides what happens to a parcel; called on the wires' thread, must not block."""

    def meet(self, windows: tuple[str, ...], line: Line) -> Deed:
        """Answer what to do."""


@dataclass(slots=True)
class Upstream:
    """Where a server is now, and everything that is connected to it."""

    address: Address
    lines: set[Line] = field(default_factory=set)


class Wires:
    """The thread that all connections run on."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A line lives for as long as one of its connections does.
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._serve, name="wires", daemon=True)
        self._thread.start()

    def open(
        self, upstream: Upstream, *, tap: Callable[[], Tap], script: Script, owner: object
    ) -> tuple[Address, Callable[[], None]]:
        """Open a port that leads to `upstream`; answer its address and how to close it."""

        def welcome() -> Line:
            line = Line(upstream, tap(), script, owner)
            self._lines.add(line)
            return line

        async def listen() -> asyncio.Server:
            return await self._loop.create_server(welcome, "127.0.0.1", 0)

        server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result()
        host, port = server.sockets[0].getsockname()
        return (host, port), lambda: self.call(server.close)

    def call(self, function: Callable[[], object]) -> None:
        """Run something on the wires' thread, if it still runs."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def move(self, upstream: Upstream, address: Address) -> None:
        """Let new connections lead elsewhere, and cut those that there are."""

        def moving() -> None:
            upstream.address = address
            for line in list(upstream.lines):
                line.cut()

        self.call(moving)

    def close(self) -> None:
        """End the thread with everything on it."""
        self.call(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        for line in tuple(self._lines):
            line.cut()
        # An end tells its peer in the next turn of the loop, and is gone in the one after.
        for _ in range(3):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class Line(asyncio.Protocol):
    """One connection of a function: the front, with its back to the server."""

    def __init__(self, upstream: Upstream, tap: Tap, script: Script, owner: object) -> None:
        self.owner = owner
        self.tap = tap
        self._upstream = upstream
        self._script = script
        self._front: asyncio.Transport | None = None
        self._back = _Back(self)
        self._queue: list[bytes] = []
        self._held = False
        self._dead = False
        self._swallowing = False
        self._next: Deed | None = None
        self._then: Callable[[], None] | None = None
        self._cut_at_reply = False
        self._task: asyncio.Task[Any] | None = None  # Any: asyncio's own pair

    # The front.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._front = cast("asyncio.Transport", transport)
        self._upstream.lines.add(self)
        self._task = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self._back, *self._upstream.address)
        except OSError:
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._upstream.lines.discard(self)
        self._front = None
        if self._held or self.tap.unanswered:
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._back.close)
        else:
            self._back.close()

    def data_received(self, data: bytes) -> None:
        self._queue += self.tap.cut(data)
        self._go_on()

    def _go_on(self) -> None:
        while self._queue and not self._held:
            parcel = self._queue.pop(0)
            deed = self._next or self._script.meet(self.tap.windows(parcel), self)
            self._next = None
            self._do(deed, parcel)

    def _do(self, deed: Deed, parcel: bytes) -> None:
        if deed is not FORWARD or not self.tap.unanswered:
            # A pipeline may come in several parcels: what befell the first befalls its answer.
            self._swallowing = deed.how == "swallow"
            self._cut_at_reply = deed.how == "cut_reply"
            self._then = deed.then
        match deed.how:
            case "cut":
                self.cut()
            case "half_open":
                self._dead = True
            case "refuse":
                self.give(deed.answer)
            case "delay":
                self._held = True
                loop = asyncio.get_running_loop()
                loop.call_later(deed.seconds, self._release, parcel)
            case "drop":
                pass
            case _:
                self._forward(parcel)

    def _release(self, parcel: bytes) -> None:
        self._held = False
        self._forward(parcel)
        self._go_on()

    def _forward(self, parcel: bytes) -> None:
        if not self._dead:
            self.tap.sent(parcel)
            self._back.give(parcel)

    # What a script may do to a line at any moment, on the wires' thread.

    def cut(self) -> None:
        """Close both ends."""
        if self._front is not None:
            self._front.abort()
        self._back.close()

    def at_next(self, deed: Deed) -> None:
        """Do this to the next parcel, whatever it is."""
        self._next = deed

    # The back.

    def answered(self, data: bytes) -> None:
        """Take what the server said."""
        self.tap.received(data)
        then, self._then = self._then, None
        if then is not None:
            then()
        if self._cut_at_reply:
            self.cut()
        elif not (self._dead or self._swallowing):
            self.give(data)

    def give(self, data: bytes) -> None:
        """Send bytes to the function."""
        if self._front is not None:
            self._front.write(data)

    def ended(self) -> None:
        """Hear that the server is gone; a half-open line does not tell."""
        if self._front is not None and not self._dead:
            self._front.close()


class _Back(asyncio.Protocol):
    """The end of a line that leads to the server."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._early:
            self._transport.write(bytes(self._early))
        if self._closed:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._line.ended()

    def data_received(self, data: bytes) -> None:
        self._line.answered(data)

    def give(self, data: bytes) -> None:
        """Send bytes to the server, or keep them until it is connected."""
        if self._transport is None:
            self._early += data
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close this end after what was given to it."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()
