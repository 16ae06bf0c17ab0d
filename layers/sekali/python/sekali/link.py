"""Be one connection to a cache: a socket, and the C parser of hiredis.

This is what is left of redis-py's client between commands and the socket. A flush through
redis-py's connection and through this, in turns on loopback (tests/benchmarks, "library:
connection"):

    1 command       72 µs       65 µs
    10 commands     105 µs      76 µs
    100 commands    388 µs      186 µs

And there is less to import ("cold start", imports by INIT: redis): redis-py imports an asyncio
client, a thousand commands and what its metrics need, used or not.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, Final, cast

from hiredis import Reader, pack_command

from sekali.refusals import Disconnected, Late, Refused, broken, in_time, refusal

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    Arguments = tuple[bytes | str | int, ...]
    Waits = tuple[float | None, float | None]

_BUFFER_BYTES: Final = 65_536
_NOTHING: Final = object()
"""What the parser answers while a reply is not complete."""
_CLOSED: Final = "the server has closed the connection"
_PLAIN: Final = frozenset({bytes, int, type(None)})
_pack: Final = cast("Callable[[Arguments], bytes]", pack_command)


class Link:
    """One open connection. Not safe for threads: whoever took it from `Links` has it alone.

    `waits` are the time-outs that it was made with, in seconds.
    """

    __slots__ = (
        "_buffer",
        "_feed",
        "_gets",
        "_holds",
        "_poll",
        "_receive",
        "_send",
        "_socket",
        "is_open",
        "waits",
    )

    def __init__(self, connect: Callable[[], socket.socket], waits: Waits = (None, None)) -> None:
        """Connect.

        The collector finds this older than its socket and ends it first (see `__del__`).
        """
        self.waits = waits
        self.is_open = False
        self._socket = opened = connect()
        self.is_open = True
        reader = Reader(
            protocolError=Disconnected,
            replyError=refusal,
            notEnoughData=_NOTHING,
        )
        # Looked up once: a flush uses them all.
        self._receive = opened.recv_into
        # One that encrypts, or has no bound of the system's, is bounded by Python.
        bounded = waits[1] and not hasattr(opened, "pending")
        # Any: of the two, one returns how much it sent.
        self._send: Callable[[bytes], Any] = opened.send if bounded else opened.sendall
        # Any: its types know of no bytearray.
        self._feed: Callable[[Any, int, int], object] = reader.feed
        self._gets, self._holds = reader.gets, reader.has_data
        self._buffer = bytearray(_BUFFER_BYTES)
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        self._poll = poll.poll

    def is_sound(self, *, rested: bool = True) -> bool:
        """Tell whether it is open, as far as this side knows, with nothing unread on it.

        One that has not rested since it was read to the end is taken to be as it was left.
        """
        # A socket that was closed here may have left its number to another one.
        if not self.is_open or self._holds():
            return False
        if not rested:
            return True
        encrypted: Any = getattr(self._socket, "pending", None)  # Any: of a TLS socket
        if encrypted is None:
            return not self._poll(0)
        return not encrypted() and (not self._poll(0) or self._is_silent())

    def _is_silent(self) -> bool:
        """Tell whether what has come over TLS is no reply: a session's tickets, after a login."""
        from ssl import SSLWantReadError

        reply_seconds = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            self._receive(self._buffer, 1)
        except SSLWantReadError:
            return True
        except OSError:
            return False
        finally:
            self._socket.settimeout(reply_seconds)
        return False

    def send(self, commands: Sequence[Arguments]) -> None:
        """Send them all.

        Raises:
            Disconnected: not all of them went.
        """
        self.send_packed(b"".join(map(_pack, commands)))

    def send_packed(self, packed: bytes) -> None:
        """Send what is packed already.

        Raises:
            Disconnected: not all of it went.
        """
        try:
            sent = self._send(packed)
            if sent is not None and sent != len(packed):
                self._send_rest(packed[sent:])
        except OSError as error:
            raise broken(error) from error

    def ask(
        self,
        packed: bytes,
        meanwhile: Callable[[], object],
        within_seconds: float | None = None,
    ) -> Any:  # Any: as its reply
        """Send one packed command, call `meanwhile`, and return the reply, as `read` does.

        Raises:
            Disconnected: as both of them.
        """
        self.send_packed(packed)
        meanwhile()
        receive, gets, buffer, until = self._receive, self._gets, self._buffer, None
        try:
            while True:
                size = receive(buffer)
                if not size:
                    raise Disconnected(_CLOSED)
                self._feed(buffer, 0, size)
                reply = gets()
                if reply is not _NOTHING:
                    break
                until = in_time(until, within_seconds)
        except OSError as error:
            raise broken(error) from error
        of_all = reply[0] if type(reply) is list and reply else reply
        if isinstance(of_all, Disconnected):
            raise of_all
        return reply

    def _send_rest(self, packed: bytes) -> None:
        """Send what the time-out, or a signal, left of it: in one time-out more, or not at all.

        `sendall` would begin a new one for each piece that a slow server takes.
        """
        if self._send(packed) != len(packed):
            raise Late("not everything was sent in time")

    def read(
        self, wanted: int, within_seconds: float | None = None
    ) -> list[Any]:  # Any: as the commands' replies
        """Return so many replies; what the server refused stands in its reply's place.

        Each piece of them may take as long as the connection's time-out, and all of them
        `within_seconds` and one time-out: a server that dribbles is late in the end.

        Raises:
            Disconnected: not all of them came, or the server said that it serves nobody.
        """
        gets, pieces, until = self._gets, 0, None
        replies: list[Any] = []
        reply: Any = _NOTHING  # Any: as above
        try:
            while True:
                while reply is _NOTHING:
                    if pieces:
                        until = in_time(until, within_seconds)
                    pieces += 1
                    size = self._receive(self._buffer)
                    if not size:
                        raise Disconnected(_CLOSED)
                    self._feed(self._buffer, 0, size)
                    reply = gets()
                kind = type(reply)
                if kind is list:
                    if reply and isinstance(reply[0], Disconnected):
                        raise reply[0]
                elif kind not in _PLAIN and kind is not Refused and isinstance(reply, Disconnected):
                    raise reply
                replies.append(reply)
                if len(replies) == wanted:
                    return replies
                reply = gets()
        except OSError as error:
            raise broken(error) from error

    def disconnect(self) -> None:
        """Close it; it is not used again."""
        self.is_open = False
        self._socket.close()

    def __del__(self) -> None:
        """Close what nobody can reach any more: a dropped container's connections end with it."""
        if self.is_open:
            self._socket.close()
