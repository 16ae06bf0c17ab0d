"""A wire between a client and a server, on which replies get lost."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Fault = Literal["none", "refuse", "hang", "lose the reply"]
"""What happens to one connection: closed at once, never answered, or cut behind its request."""


@dataclass(slots=True)
class Proxy:
    """Pass connections on to a server; the first ones have the faults, the others none.

    `connections` counts what was accepted.
    """

    server_port: int
    faults: list[Fault]
    port: int = 0
    connections: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        """Accept until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.connections += 1
                self._open.append(client)
                fault = self.faults.pop(0) if self.faults else "none"
                threading.Thread(target=self._pass_on, args=(client, fault), daemon=True).start()

    def close(self) -> None:
        """Close every connection."""
        for one in self._open:
            one.close()

    def _pass_on(self, client: socket.socket, fault: Fault) -> None:
        if fault == "refuse":
            client.close()
            return
        if fault == "hang":
            return
        server = socket.create_connection(("127.0.0.1", self.server_port))
        self._open.append(server)
        losing = threading.Event()
        threading.Thread(target=_copy, args=(server, client, losing), daemon=True).start()
        with suppress(OSError):
            while data := client.recv(65_536):
                if fault == "lose the reply" and b"EVALSHA" in data:
                    losing.set()
                server.sendall(data)
        _shut(client, server)


def _copy(source: socket.socket, target: socket.socket, losing: threading.Event) -> None:
    """Copy replies until a side closes, or until one is to be lost: its command has run."""
    with suppress(OSError):
        while (data := source.recv(65_536)) and not losing.is_set():
            target.sendall(data)
    _shut(source, target)


def _shut(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(server_port: int, *faults: Fault) -> Iterator[Proxy]:
    """Run a proxy in front of a server."""
    proxy = Proxy(server_port, list(faults))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.port = listener.getsockname()[1]
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # else a blocked accept would take one more
            proxy.close()
