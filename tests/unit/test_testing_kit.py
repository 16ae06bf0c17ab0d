"""The kit that ships behaves as its page says."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sekali.testing import FakeLoader, FrozenClock, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def echo() -> Iterator[int]:
    """Run a server that sends back what it gets, and return its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=repeat, args=(connection,), daemon=True).start()

    def repeat(connection: socket.socket) -> None:
        with connection:
            while chunk := connection.recv(1_024):
                connection.sendall(chunk)

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def test_proxy_carries_both_ways(echo: int) -> None:
    with Proxy("127.0.0.1", echo) as proxy, connected(proxy) as client:
        client.sendall(b"hello")

        assert client.recv(10) == b"hello"
        assert proxy.carried == 1


def test_delayed_proxy_holds_each_chunk(echo: int) -> None:
    with Proxy("127.0.0.1", echo) as proxy, connected(proxy) as client:
        proxy.delay(0.03)
        began = time.monotonic()
        client.sendall(b"hello")

        assert client.recv(10) == b"hello"
        assert time.monotonic() - began >= 0.06


@pytest.mark.parametrize("fault", ["half_open", "swallow_replies"])
def test_silent_proxy_keeps_the_connection_and_says_nothing(echo: int, fault: str) -> None:
    with Proxy("127.0.0.1", echo) as proxy, connected(proxy) as client:
        getattr(proxy, fault)()
        client.sendall(b"hello")
        client.settimeout(0.1)

        with pytest.raises(TimeoutError):
            client.recv(10)


def test_half_open_proxy_delivers_once_it_is_healed(echo: int) -> None:
    with Proxy("127.0.0.1", echo) as proxy, connected(proxy) as client:
        proxy.half_open()
        client.sendall(b"hello")
        proxy.heal()

        assert client.recv(10) == b"hello"


def test_cut_proxy_closes_and_refuses_until_it_is_healed(echo: int) -> None:
    with Proxy("127.0.0.1", echo) as proxy, connected(proxy) as client:
        client.sendall(b"hello")
        client.recv(10)
        proxy.cut()

        assert client.recv(10) == b""
        with connected(proxy) as refused:
            assert refused.recv(10) == b""
        proxy.heal()
        with connected(proxy) as again:
            again.sendall(b"again")
            assert again.recv(10) == b"again"


def test_clock_freezes_steps_and_is_restored() -> None:
    clock = FrozenClock(wall=100.0, monotonic=10.0)
    readings = []
    moves: list[Callable[[], None]] = [
        lambda: clock.sleep(1),
        lambda: clock.freeze(60),
        lambda: clock.step(-30),
        lambda: clock.restore(1_000, monotonic=3.0),
    ]
    for move in moves:
        move()
        readings.append((clock.wall(), clock.monotonic()))

    assert readings == [(101, 11), (161, 11), (131, 11), (1_131, 3)]


def test_loader_returns_raises_counts_and_sees_overlaps() -> None:
    together = threading.Barrier(3)
    load = FakeLoader("a", OSError("b"), "c", during=lambda: together.wait(30) if racing else None)
    racing = False

    first = load()
    with pytest.raises(OSError, match="b"):
        load()
    racing = True
    with ThreadPoolExecutor(3) as pool:
        rest = [future.result() for future in [pool.submit(load) for _ in range(3)]]

    assert (first, rest) == ("a", ["c"] * 3)
    assert load.calls == 5
    assert load.most_at_once == 3


def test_loader_needs_something_to_return() -> None:
    with pytest.raises(ValueError, match="needs a value"):
        FakeLoader()
