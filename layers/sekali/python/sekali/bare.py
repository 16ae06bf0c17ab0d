"""Send and read on a connection of redis-py without the calls that it wraps around each reply.

redis-py makes the connection: it resolves, connects, encrypts, logs in, and closes it. In between,
bytes go through its socket and its parser directly. Measured in turns on loopback, medians:

    commands in a flush     through redis-py     directly
    1                       62 µs, 58 calls      58 µs, 21 calls
    10                      73 µs                66 µs
    100                     284 µs               90 µs

Both are private to redis-py. Where a release keeps them elsewhere, or parses without the C
extension, `bare_of` says so, and redis-py's own calls are made; a test tells whether the pinned
release still has them (tests/valkey/test_bare.py).

The parser stays redis-py's, so that each side sees what the other one left unread.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Arguments = tuple[bytes | str | int, ...]

_BUFFER_BYTES: Final = 65_536
_PLAIN: Final = frozenset({bytes, int, type(None), float, bool, dict, set})
_SOCKET: Final = ("sendall", "recv_into", "fileno")
_READER: Final = ("feed", "gets", "has_data")


class Bare:
    """The socket and the parser of one connection."""

    __slots__ = (
        "_buffer",
        "_connection",
        "_feed",
        "_gets",
        "_holds",
        "_late",
        "_lost",
        "_nothing",
        "_poll",
        "_receive",
        "_send",
        "_socket",
    )

    def __init__(self, connection: Any, socket: Any, reader: Any) -> None:  # Any: redis-py's
        from redis.exceptions import ConnectionError as Lost
        from redis.exceptions import TimeoutError as Late

        self._lost, self._late = Lost, Late
        self._connection, self._socket = connection, socket
        # Looked up once: a flush uses them all.
        self._send, self._receive = socket.sendall, socket.recv_into
        self._feed, self._gets, self._holds = reader.feed, reader.gets, reader.has_data
        self._nothing: object = reader.gets()  # what it says while a reply is not complete
        self._buffer = bytearray(_BUFFER_BYTES)
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        self._poll = poll.poll

    def is_sound(self) -> bool:
        """Tell whether it is open, as far as this side knows, with nothing unread on it."""
        # A socket that was closed here may have left its number to another one.
        if self._connection._sock is not self._socket or self._holds():  # noqa: SLF001 see above
            return False
        if self._poll(0):
            return False
        encrypted = getattr(self._socket, "pending", None)
        return encrypted is None or not encrypted()

    def send(self, packed: bytes) -> None:
        """Send it all.

        Raises:
            ConnectionError: of redis-py, or its TimeoutError.
        """
        try:
            self._send(packed)
        except OSError as error:
            raise self._meant(error) from error

    def read(self, wanted: int) -> list[Any]:  # Any: as the commands' replies
        """Return so many replies; what the server refused stands in its reply's place.

        Raises:
            ConnectionError: of redis-py, or its TimeoutError: not all of them came, or the server
                said that it serves nobody.
        """
        gets, nothing = self._gets, self._nothing
        replies: list[Any] = []
        reply: Any = nothing  # Any: as above
        try:
            while True:
                while reply is nothing:
                    size = self._receive(self._buffer)
                    if not size:
                        raise self._lost("the server has closed the connection")
                    self._feed(self._buffer, 0, size)
                    reply = gets()
                kind = type(reply)
                if kind is list:
                    if reply and isinstance(reply[0], self._lost):
                        raise reply[0]
                elif kind not in _PLAIN and self._is_push(reply):
                    reply = gets()
                    continue
                replies.append(reply)
                if len(replies) == wanted:
                    return replies
                reply = gets()
        except OSError as error:
            raise self._meant(error) from error

    def _is_push(self, reply: object) -> bool:
        """Tell what the server says unasked from a reply.

        Raises:
            ConnectionError: of redis-py: the server serves nobody.
        """
        if isinstance(reply, self._lost):
            raise reply
        return isinstance(reply, list)

    def _meant(self, error: OSError) -> Exception:
        late = isinstance(error, TimeoutError)
        kind: Callable[[str], Exception] = self._late if late else self._lost
        return kind(f"the connection failed: {error}")


def bare_of(connection: Any) -> Bare | None:  # Any: a connection of redis-py
    """Take out a connection's socket and parser; None where they cannot be used directly."""
    socket: Any = getattr(connection, "_sock", None)  # Any: redis-py's, both
    reader: Any = getattr(getattr(connection, "_parser", None), "_reader", None)
    usable = (
        hasattr(select, "poll")
        and all(hasattr(socket, name) for name in _SOCKET)
        and all(hasattr(reader, name) for name in _READER)
    )
    return Bare(connection, socket, reader) if usable and not reader.has_data() else None


def packer() -> Callable[[Sequence[Arguments]], bytes] | None:
    """Return what writes commands, with the C extension; None where that is not installed."""
    try:
        from hiredis import pack_command
    except ImportError:
        return None
    pack = cast("Callable[[Arguments], bytes]", pack_command)
    return lambda commands: b"".join(map(pack, commands))
