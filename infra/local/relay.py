"""Hand bytes between a client and a server unchanged, and let an observer see them pass.

One thread serves every door of the stack. It is where the stack is measured from outside: an
observer counts what waits for an answer, and neither side knows of it. It adds to each
round trip, so times are compared on direct connections, never through a relay.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Final, Protocol, cast

from infra.local.faults import Weather

_HIGH_WATER_BYTES: Final = 1 << 20
# For how long an observer may hold bytes back that go to a client.
_HOLD_SECONDS: Final = 0.0005
_HOLDS: Final = 40

Address = tuple[str, int]


class Observer(Protocol):
    """Sees one connection's bytes in the order in which they passed; called on the relay's thread.

    It must not raise: bytes that it cannot read are counted, never withheld.
    """

    def sent(self, data: bytes) -> None:
        """Client to server, before it is handed on."""

    def received(self, data: bytes) -> None:
        """Server to client, before it is handed on."""

    def settled(self, *, client: int) -> bool:
        """Whether what was received may be handed on now; asked again for 20 ms at most.

        `client` is the client socket's number.
        """


class Door:
    """A port that leads to one server."""

    def __init__(self, relay: "Relay", server: asyncio.Server, address: Address) -> None:
        self._relay = relay
        self._server = server
        self.address = address

    def close(self) -> None:
        """Let nobody in any more; connections end when either side ends them."""
        self._relay.call(self._server.close)


class Relay:
    """The thread that hands bytes on, from `start` to `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A side lives for as long as its connection does.
        self._sides: weakref.WeakSet[_Side] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()

    def open(
        self, upstream: Address, observe: Callable[[], Observer], *, weather: Weather | None = None
    ) -> Door:
        """Open a port that leads to `upstream`, with a fresh observer for each connection.

        `weather` decides what befalls what passes; without one, nothing does.
        """
        calm = weather or Weather()

        def welcome() -> _Client:
            client = _Client(upstream, observe(), calm)
            self._sides.add(client)
            return client

        async def listen() -> asyncio.Server:
            return await self._loop.create_server(welcome, "127.0.0.1", 0)

        server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result()
        host, port = server.sockets[0].getsockname()
        return Door(self, server, (host, port))

    def call(self, function: Callable[[], object]) -> None:
        """Run something on the relay's thread, if it still runs."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End every connection and the thread."""
        self.call(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        for side in tuple(self._sides):
            side.cut()
        # An end tells its peer in the next turn of the loop, and is gone in the one after.
        for _ in range(3):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class _Side(asyncio.Protocol):
    """One end of a connection; `peer` is the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _Side | None = None
        self._early = bytearray()
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        if self._early:
            self.transport.write(bytes(self._early))
            self._early.clear()
        if self._ended:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.peer is not None:
            self.peer.end()

    def give(self, data: bytes) -> None:
        """Send `data` to this end, or keep it until it is connected."""
        if self.transport is None:
            self._early += data
        else:
            self.transport.write(data)

    def end(self) -> None:
        """Close this end after what was given to it."""
        self._ended = True
        if self.transport is not None:
            self.transport.close()

    def cut(self) -> None:
        """Close both ends at once, whatever is still to be sent."""
        for side in (self, self.peer):
            if side is not None and side.transport is not None:
                side.transport.abort()

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()


class _Client(_Side):
    """The end that a function opened: connects to the server when it has come in."""

    def __init__(self, upstream: Address, observer: Observer, weather: Weather) -> None:
        super().__init__()
        self._weather = weather
        self.observer = observer
        self._upstream = upstream
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._weather.cut:
            self._abort()
            return
        self.peer = _Server(self)
        self._connecting = asyncio.ensure_future(self._connect(self.peer))

    def data_received(self, data: bytes) -> None:
        if self._weather.cut:
            self._abort()
            return
        self.observer.sent(data)
        if refusal := self._weather.refused(data):
            self.observer.received(refusal)
            self.give(refusal)
        elif (seconds := self._weather.delay(data)) > 0:
            asyncio.get_running_loop().call_later(seconds, self._forward, data)
        else:
            self._forward(data)

    def _forward(self, data: bytes) -> None:
        if self.peer is not None:
            self.peer.give(data)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def number(self) -> int:
        """Answer the socket's number."""
        return -1 if self.transport is None else self.transport.get_extra_info("socket").fileno()

    async def _connect(self, server: "_Server") -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: server, *self._upstream)
        except OSError:
            self.end()


class _Server(_Side):
    """The end that leads to the server."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self._client = client
        self._held = bytearray()
        self.peer = client

    def data_received(self, data: bytes) -> None:
        self._client.observer.received(data)
        waiting = bool(self._held)
        self._held += data
        if not waiting:
            self._hand_on(_HOLDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hand_on(0)
        super().connection_lost(exc)

    def _hand_on(self, holds: int) -> None:
        settled = self._client.observer.settled(client=self._client.number())
        if not settled and holds > 0:
            asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._hand_on, holds - 1)
        elif self._held:
            self._client.give(bytes(self._held))
            self._held.clear()
