"""The socket and the parser of a connection: what is read, what is refused, and who has them."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import hiredis
import pytest
from redis.exceptions import BusyLoadingError, ResponseError
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import TimeoutError as Late

from sekali.bare import Bare, bare_of, packer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

DEADLINE_SECONDS = 20


class Pair:
    """A connection as redis-py keeps it, and the other end of its socket."""

    def __init__(self) -> None:
        self.client, self.server = socket.socketpair()
        self.client.settimeout(DEADLINE_SECONDS)
        self.reader = hiredis.Reader(replyError=_error)
        self.parser = SimpleNamespace(_reader=self.reader)
        self.connection = SimpleNamespace(_sock=self.client, _parser=self.parser)
        bare = bare_of(self.connection)
        assert bare is not None
        self.bare: Bare = bare

    def put(self, socket: Any) -> None:  # Any: whatever stands for one
        """Let redis-py hold another socket."""
        vars(self.connection).update(_sock=socket)

    def close(self) -> None:
        self.client.close()
        self.server.close()


def _error(text: str) -> Exception:
    """Return what redis-py makes of a refusal."""
    return BusyLoadingError(text) if text.startswith("LOADING") else ResponseError(text)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def test_pinned_redis_py_keeps_them_where_they_are_looked_for(valkey: Redis) -> None:
    connection = valkey.connection_pool.get_connection()
    pack = packer()

    bare = bare_of(connection)

    assert bare is not None
    assert pack is not None
    assert bare.is_sound()
    bare.send(pack([("ECHO", "a"), ("ECHO", b"b")]))
    assert bare.read(2) == [b"a", b"b"]
    valkey.connection_pool.release(connection)


@pytest.mark.parametrize("missing", ["_sock", "_parser", "_reader", "unread"])
def test_connection_without_one_of_them_is_left_to_redis_py(pair: Pair, missing: str) -> None:
    match missing:
        case "unread":
            pair.reader.feed(b"+OK\r\n")
        case "_reader":
            vars(pair.parser).clear()
        case name:
            del vars(pair.connection)[name]

    assert bare_of(pair.connection) is None


@pytest.mark.parametrize("most", [1, 5, 100])
def test_replies_are_read_in_whatever_pieces_they_come(pair: Pair, most: int) -> None:
    pair.put(
        SimpleNamespace(
            fileno=pair.client.fileno,
            sendall=pair.client.sendall,
            recv_into=lambda buffer: pair.client.recv_into(buffer, most),
        )
    )
    pair.server.sendall(b"$3\r\nabc\r\n:7\r\n*2\r\n$1\r\na\r\n$-1\r\n$-1\r\n")

    bare = bare_of(pair.connection)

    assert bare is not None
    assert bare.read(4) == [b"abc", 7, [b"a", None], None]


def test_refusal_is_a_reply_and_a_push_is_none(pair: Pair) -> None:
    pair.server.sendall(b"-ERR no\r\n>2\r\n$7\r\nmessage\r\n$1\r\nx\r\n+OK\r\n")

    refused, still = pair.bare.read(2)

    assert isinstance(refused, ResponseError)
    assert still == b"OK"


@pytest.mark.parametrize("sent", [b"-LOADING\r\n", b"*2\r\n-LOADING\r\n:1\r\n"])
def test_server_that_serves_nobody_is_a_lost_connection(pair: Pair, sent: bytes) -> None:
    pair.server.sendall(sent)

    with pytest.raises(Lost):
        pair.bare.read(1)


def test_end_of_the_connection_is_told_as_redis_py_tells_it(pair: Pair) -> None:
    pair.server.sendall(b":1\r\n")
    pair.server.close()

    with pytest.raises(Lost):
        pair.bare.read(2)
    with pytest.raises(Lost):
        pair.bare.send(b"PING\r\n")


def test_missing_reply_is_told_as_redis_py_tells_it(pair: Pair) -> None:
    pair.client.settimeout(0.01)

    with pytest.raises(Late):
        pair.bare.read(1)


@pytest.mark.parametrize("what", ["unread", "half read", "closed there", "closed here", "another"])
def test_connection_is_not_sound_where_anything_is_odd(pair: Pair, what: str) -> None:
    assert pair.bare.is_sound()

    match what:
        case "unread":
            pair.server.sendall(b":1\r\n")
        case "half read":
            pair.server.sendall(b":1\r\n:2\r\n")
            pair.bare.read(1)
        case "closed there":
            pair.server.close()
        case "closed here":
            pair.put(None)
        case _:
            pair.put(pair.server)

    until = time.monotonic() + DEADLINE_SECONDS
    while pair.bare.is_sound() and time.monotonic() < until:
        time.sleep(0.001)
    assert not pair.bare.is_sound()


def test_encrypted_bytes_that_lie_decrypted_are_seen(pair: Pair) -> None:
    class Encrypted(socket.socket):
        """Hold what was decrypted above the system's socket, as TLS does."""

        def pending(self) -> int:
            return 1

    with Encrypted(fileno=pair.client.detach()) as encrypted:
        pair.put(encrypted)
        bare = bare_of(pair.connection)

        assert bare is not None
        assert not bare.is_sound()
