"""One connection: what is read, what is refused, and when it is not spoken on any more."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sekali.link import Link
from sekali.refusals import Disconnected, Late, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_SECONDS = 20
PING = b"*1\r\n$4\r\nPING\r\n"
LONG_REPLY = b"$1000\r\n%b\r\n" % (b"x" * 1_000)
ONE_REPLY = [
    pytest.param(lambda link: link.read(1)[0], id="read"),
    pytest.param(lambda link: link.ask(PING, list), id="ask"),
]


class Pair:
    """A connection, and the other end of its socket."""

    def __init__(self) -> None:
        self.client, self.server = socket.socketpair()
        self.client.settimeout(DEADLINE_SECONDS)
        self.link = Link(lambda: self.client)

    def close(self) -> None:
        self.link.disconnect()
        self.server.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def _as_sent(reply: object) -> bytes:
    """Write a reply as a server does."""
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case list():
            return b"*%d\r\n%b" % (len(reply), b"".join(map(_as_sent, reply)))
    raise TypeError(type(reply).__name__)


@pytest.mark.parametrize("most", [1, 5, 100])
def test_replies_are_read_in_whatever_pieces_they_come(pair: Pair, most: int) -> None:
    in_pieces: Any = SimpleNamespace(  # Any: what a link needs of a socket
        fileno=pair.client.fileno,
        sendall=pair.client.sendall,
        recv_into=lambda buffer: pair.client.recv_into(buffer, most),
        close=pair.client.close,
    )
    pair.server.sendall(b"$3\r\nabc\r\n:7\r\n*2\r\n$1\r\na\r\n$-1\r\n$-1\r\n")

    assert Link(lambda: in_pieces).read(4) == [b"abc", 7, [b"a", None], None]


def test_commands_are_written_as_the_server_reads_them(pair: Pair) -> None:
    pair.link.send([("SET", "k", 1), ("GET", b"k")])

    written = pair.server.recv(1_000)

    assert written == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"


def test_refusal_is_a_reply_with_the_servers_code(pair: Pair) -> None:
    pair.server.sendall(b"-OOM no room\r\n+OK\r\n")

    refused, still = pair.link.read(2)

    assert isinstance(refused, Refused)
    assert (refused.code, str(refused)) == ("OOM", "OOM no room")
    assert still == b"OK"


@pytest.mark.parametrize("one", ONE_REPLY)
@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (b"-LOADING\r\n", "LOADING"),
        (b"*2\r\n-LOADING\r\n:1\r\n", "LOADING"),
        (b"-NOAUTH Authentication required.\r\n", "NOAUTH"),
        (b"-ERR max number of clients reached\r\n", "ERR"),
    ],
)
def test_server_that_serves_nobody_is_a_lost_connection(
    pair: Pair, sent: bytes, cause: str, one: Callable[[Link], Any]
) -> None:
    pair.server.sendall(sent)

    with pytest.raises(Disconnected) as lost:
        one(pair.link)

    assert lost.value.cause == cause


def test_end_of_the_connection_is_told(pair: Pair) -> None:
    pair.server.sendall(b":1\r\n")
    pair.server.close()

    with pytest.raises(Disconnected):
        pair.link.read(2)
    with pytest.raises(Disconnected):
        pair.link.send([("PING",)])


@pytest.mark.parametrize("one", ONE_REPLY)
def test_bytes_that_are_no_reply_are_a_lost_connection(
    pair: Pair, one: Callable[[Link], Any]
) -> None:
    pair.server.sendall(b"HTTP/1.1 400 Bad Request\r\n")

    with pytest.raises(Disconnected):
        one(pair.link)


@pytest.mark.parametrize("one", ONE_REPLY)
def test_missing_reply_is_late(pair: Pair, one: Callable[[Link], Any]) -> None:
    pair.client.settimeout(0.01)

    with pytest.raises(Late):
        one(pair.link)


@pytest.mark.parametrize("reply", [[], [b"a", 1, None], b"x" * 200_000, b"", 7, None, [[b"b"]]])
def test_reply_to_a_question_is_what_was_sent_in_pieces(pair: Pair, reply: object) -> None:
    sent = _as_sent(reply)

    def answer() -> None:
        pair.server.sendall(sent[:2])
        rest.start()

    rest = threading.Thread(target=pair.server.sendall, args=(sent[2:],))

    assert pair.link.ask(PING, answer) == reply
    rest.join(DEADLINE_SECONDS)
    assert pair.link.is_sound()


def test_refusal_of_a_question_is_its_reply(pair: Pair) -> None:
    refused = pair.link.ask(PING, lambda: pair.server.sendall(b"-OOM no room\r\n"))

    assert isinstance(refused, Refused)
    assert refused.code == "OOM"


def test_end_of_the_connection_is_told_to_who_asks(pair: Pair) -> None:
    with pytest.raises(Disconnected):
        pair.link.ask(PING, pair.server.close)


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        pytest.param(LONG_REPLY, lambda link: link.read(1, 0.02), id="one reply"),
        pytest.param(LONG_REPLY, lambda link: link.ask(PING, list, 0.02), id="ask"),
        pytest.param(b":1\r\n" * 250, lambda link: link.read(250, 0.02), id="many replies"),
    ],
)
def test_server_that_dribbles_is_late_in_the_end(
    pair: Pair, reply: bytes, read: Callable[[Link], Any]
) -> None:
    """Each piece is in time: only a bound of all of them has an end."""
    over = threading.Event()

    def dribble() -> None:
        for at in range(0, len(reply), 4):
            if over.wait(0.002):
                return
            pair.server.sendall(reply[at : at + 4])

    slow = threading.Thread(target=dribble)
    slow.start()

    with pytest.raises(Late, match="in time"):
        read(pair.link)

    over.set()
    slow.join(DEADLINE_SECONDS)


def test_replies_in_one_piece_are_in_time_whatever_is_left(pair: Pair) -> None:
    pair.server.sendall(b":1\r\n:2\r\n")

    assert pair.link.read(2, -1.0) == [1, 2]


def test_server_that_takes_a_piece_per_time_out_is_late() -> None:
    """The system begins its time-out anew with each call that sends."""
    calls = 0

    def piece(packed: bytes) -> int:
        nonlocal calls
        calls += 1
        return min(len(packed), 10)

    client, server = socket.socketpair()
    with client, server:
        slow: Any = SimpleNamespace(  # Any: what a link needs of a socket
            fileno=client.fileno,
            send=piece,
            sendall=lambda packed: [piece(packed[at:]) for at in range(0, len(packed), 10)],
            recv_into=client.recv_into,
            close=client.close,
        )
        link = Link(lambda: slow, (1.0, 1.0))

        with pytest.raises(Late):
            link.send_packed(b"x" * 100)

        assert calls == 2
        link.send_packed(b"x" * 15)  # a signal's interruption: the rest goes at once
        link.disconnect()


@pytest.mark.parametrize("what", ["unread", "half read", "closed there", "closed here"])
def test_connection_is_not_sound_where_anything_is_odd(pair: Pair, what: str) -> None:
    assert pair.link.is_sound()

    match what:
        case "unread":
            pair.server.sendall(b":1\r\n")
        case "half read":
            pair.server.sendall(b":1\r\n:2\r\n")
            pair.link.read(1)
        case "closed there":
            pair.server.close()
        case _:
            pair.link.disconnect()

    until = time.monotonic() + DEADLINE_SECONDS
    while pair.link.is_sound() and time.monotonic() < until:
        time.sleep(0.001)
    assert not pair.link.is_sound()


def test_encrypted_bytes_that_lie_decrypted_are_seen() -> None:
    class Encrypted(socket.socket):
        """Hold what was decrypted above the system's socket, as TLS does."""

        def pending(self) -> int:
            return 1

    client, server = socket.socketpair()
    with server:
        link = Link(lambda: Encrypted(fileno=client.detach()))

        assert not link.is_sound()

        link.disconnect()
