"""A TCP proxy that does to a connection what networks do: delay, cut, half-open, swallow.

```python
with Proxy("127.0.0.1", 6379) as proxy:
    settings = Settings(cache_url=proxy.url, durable_mode="redis")
    ...
    proxy.delay(0.5)          # every chunk takes half a second, each way
    proxy.half_open()         # connections stay open and nothing comes through any more
    proxy.swallow_replies()   # requests arrive and are carried out, answers do not come back
    proxy.cut()               # connections are closed, new ones refused
    proxy.heal()              # as at the beginning, for old connections and new ones
```

It knows nothing of the protocol that it carries, so it serves for any server.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_CHUNK_BYTES: Final = 65_536
_POLL_SECONDS: Final = 0.02


class Proxy:
    """Stand between a client and the server at `host:port`, on a loopback port of its own.

    Every method takes effect at once, for connections that are open as well. `carried` counts the
    chunks that came through from the server.
    """

    def __init__(self, host: str, port: int) -> None:
        """Take the server's address; nothing listens before the block is entered."""
        self._upstream = (host, port)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._delay_seconds = 0.0
        self._half_open = False
        self._refusing = False
        self._swallows: Callable[[bytes], bool] | None = None
        self.port: int = 0
        self.carried: int = 0

    @property
    def url(self) -> str:
        """Return the address as a cache URL."""
        return f"redis://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close everything."""
        self._closed.set()
        if self._listener is not None:
            self._listener.close()
        self._close_all()

    # Faults.

    def delay(self, seconds: float) -> None:
        """Hold every chunk for `seconds`, in both directions."""
        self._delay_seconds = seconds

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self._refusing = True
        self._close_all()

    def half_open(self) -> None:
        """Keep connections open, take new ones, and let nothing through in either direction."""
        self._half_open = True

    def swallow_replies(self, which: Callable[[bytes], bool] = lambda _: True) -> None:
        """Let requests through and drop the chunks of answers that `which` picks."""
        self._swallows = which

    def heal(self) -> None:
        """Let everything through again, at once."""
        self._delay_seconds, self._half_open, self._refusing = 0.0, False, False
        self._swallows = None

    # Carrying.

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(self._upstream)
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            for source, target, replies in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._carry, args=(source, target, replies), daemon=True
                ).start()

    def _carry(self, source: socket.socket, target: socket.socket, replies: bool) -> None:  # noqa: FBT001 - a thread's argument
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                if self._delay_seconds:
                    time.sleep(self._delay_seconds)
                while self._half_open and not self._closed.is_set():
                    time.sleep(_POLL_SECONDS)
                if replies and self._swallows is not None and self._swallows(chunk):
                    continue
                self.carried += replies
                target.sendall(chunk)
        self._close(source, target)

    def _close(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._open -= set(sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _close_all(self) -> None:
        with self._lock:
            sockets = tuple(self._open)
        self._close(*sockets)
