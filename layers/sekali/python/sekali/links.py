"""Hold the connections to a cache that is one server, and open new ones.

A cache in cluster mode keeps redis-py's client, whose map of the slots is worth its import.
"""

from __future__ import annotations

import socket
import struct
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from sekali.link import Link
from sekali.refusals import Disconnected, broken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    from sekali.link import Waits


class Credentials(Protocol):
    """Say who logs in, for each connection anew."""

    def get_credentials(self) -> tuple[str, str]:
        """Return a user and a password."""
        ...


class Links:
    """The connections to one server: those at rest, and those in somebody's hands.

    `connection_kwargs` holds the time-outs of new ones, in seconds, by redis-py's names.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: Callable[[], SSLContext] | None = None,
        credentials: Credentials | None = None,
        socket_connect_timeout: float | None = None,
        socket_timeout: float | None = None,
    ) -> None:
        """Connect nothing yet. `tls` makes what verifies the server; None is no encryption."""
        self._address = (host, port)
        self._tls = tls
        self._credentials = credentials
        self._context: SSLContext | None = None
        self.connection_kwargs: dict[str, float | None] = {
            "socket_connect_timeout": socket_connect_timeout,
            "socket_timeout": socket_timeout,
        }
        self._lock = Lock()
        self._resting: list[Link] = []
        self._taken: set[Link] = set()

    @property
    def taken(self) -> int:
        """Return how many are in somebody's hands."""
        return len(self._taken)

    def get_connection(self) -> Link:
        """Return a sound connection, the caller's alone until it is released.

        Raises:
            Disconnected: nobody answers there, or not in time, or the login is refused.
        """
        link = self._rested() or self._connected()
        with self._lock:
            self._taken.add(link)
        return link

    def release(self, link: Link) -> None:
        """Take a connection back; one with other time-outs than a new one would have is closed."""
        with self._lock:
            self._taken.discard(link)
            if link.is_open and link.waits == self._waits():
                self._resting.append(link)
                return
        link.disconnect()

    def disconnect(self, *, inuse_connections: bool = True) -> None:
        """Close those at rest, and by default the others too."""
        with self._lock:
            closing = [*self._resting, *(self._taken if inuse_connections else ())]
            self._resting.clear()
        for link in closing:
            link.disconnect()

    def _waits(self) -> Waits:
        wanted = self.connection_kwargs
        return wanted["socket_connect_timeout"], wanted["socket_timeout"]

    def _rested(self) -> Link | None:
        while True:
            with self._lock:
                link = self._resting.pop() if self._resting else None
            # The time-outs may have been cut since it came to rest, by another thread.
            if link is None or (link.waits == self._waits() and link.is_sound()):
                return link
            link.disconnect()

    def _connected(self) -> Link:
        waits = self._waits()
        try:
            link = Link(lambda: self._opened(*waits), waits)
        except OSError as error:
            raise broken(error) from error
        except UnicodeError as error:  # a name that no server can have, as of a label too long
            raise Disconnected(f"{self._address[0]}: {error}", cause="UnicodeError") from error
        try:
            self._log_in(link)
        except BaseException:
            link.disconnect()
            raise
        return link

    def _opened(self, connect_seconds: float | None, reply_seconds: float | None) -> socket.socket:
        opened = socket.create_connection(self._address, timeout=connect_seconds)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                # Reading the system's authorities takes longer than all the rest.
                self._context = self._context or self._tls()
                opened = self._context.wrap_socket(opened, server_hostname=self._address[0])
            _bound(opened, reply_seconds)
        except BaseException:
            opened.close()
            raise
        return opened

    def _log_in(self, link: Link) -> None:
        if self._credentials is None:
            return
        link.send([("AUTH", *self._credentials.get_credentials())])
        (reply,) = link.read(1)
        if isinstance(reply, Exception):
            raise Disconnected(str(reply), cause="AuthenticationError") from reply


def _bound(opened: socket.socket, seconds: float | None) -> None:
    """Let no send and no read wait for longer.

    The system counts the time, where it can: Python looks whether a socket with a time-out is ready
    before each call, two calls of the system where one does. What is late raises BlockingIOError
    then. A socket that encrypts has to count by itself.

    Not guaranteed: an end, where signals come more often than that, as of an interval timer whose
    handler returns: after each the system counts anew.
    """
    if not seconds or hasattr(opened, "pending"):
        opened.settimeout(seconds)
        return
    whole = int(seconds)
    bound = struct.pack("@ll", whole, max(int((seconds - whole) * 1e6), 0 if whole else 1))
    opened.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        opened.setsockopt(socket.SOL_SOCKET, option, bound)


class Server:
    """Be to the rest of the library what redis-py's client of one server would be."""

    def __init__(self, links: Links) -> None:
        """Take the connections; the first one is made when it is needed."""
        self.connection_pool = links
        self.response_callbacks: dict[str, Callable[[Any], Any]] = {  # Any: as the replies
            "HGETALL": _pairs,
            "SET": _is_ok,
        }

    def close(self) -> None:
        """Close every connection."""
        self.connection_pool.disconnect()


def _is_ok(reply: bytes | None) -> bool | None:
    return None if reply is None else reply == b"OK"


def _pairs(reply: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(reply[::2], reply[1::2], strict=True))
