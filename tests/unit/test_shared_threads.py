"""Several threads flush through one door: the body of a job, and the heartbeat beside it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import ConnectionError as Disconnected

from sekali.clock import SystemClock
from sekali.errors import SharedUnavailable
from sekali.shared import Command, Shared

if TYPE_CHECKING:
    from collections.abc import Callable

PING = Command(("PING",))
HANG = Command(("HANG",))
BREAK = Command(("BREAK",))
DEADLINE_SECONDS = 60.0


@dataclass
class Pool:
    """Stand for its pool, whose time-outs are left as they are."""

    connection_kwargs: dict[str, float] = field(default_factory=dict)

    def disconnect(self, *, inuse_connections: bool = True) -> None:
        """Close nothing: the client below tells whether it was closed."""


@dataclass
class Client:
    """Stand for redis-py's client: it hangs, breaks or answers, as the command says."""

    hanging: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    closed: bool = False
    connection_pool: Pool = field(default_factory=Pool)

    def pipeline(self, *, transaction: bool) -> Pipeline:
        assert not transaction
        return Pipeline(self)

    def close(self) -> None:
        self.closed = True


class Pipeline:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._commands: list[str] = []

    def execute_command(self, command: str) -> None:
        self._commands.append(command)

    def execute(self, *, raise_on_error: bool) -> list[bytes]:
        assert not raise_on_error
        if "BREAK" in self._commands:
            raise Disconnected
        if "HANG" in self._commands:
            self._client.hanging.set()
            assert self._client.go_on.wait(DEADLINE_SECONDS)
        return [b"PONG" for _ in self._commands]


def shared(connect: Callable[[], Client]) -> Shared:
    return Shared(connect, clock=SystemClock())


def test_threads_that_come_first_share_one_client() -> None:
    """Each made its own; the one that was dropped closed its socket under its reader."""
    clients: list[Client] = []
    start = threading.Barrier(4)

    def connect() -> Client:
        time.sleep(0.01)
        clients.append(Client())
        return clients[-1]

    door = shared(connect)

    def flush() -> list[object]:
        start.wait(DEADLINE_SECONDS)
        return door.flush([PING])

    with ThreadPoolExecutor(4) as pool:
        replies = [future.result() for future in [pool.submit(flush) for _ in range(4)]]

    assert replies == [[b"PONG"]] * 4
    assert len(clients) == 1


def test_client_that_failed_one_thread_is_closed_after_the_others_are_done() -> None:
    """A heartbeat died of `ValueError: I/O operation on closed file` when a flush failed."""
    clients = [Client(), Client(), Client()]
    unused = iter(clients)
    door = shared(lambda: next(unused))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(door.flush, [HANG])
        assert clients[0].hanging.wait(DEADLINE_SECONDS)
        with pytest.raises(SharedUnavailable):
            door.flush([BREAK])
        closed_under_reader = clients[0].closed
        clients[0].go_on.set()

        assert reading.result(DEADLINE_SECONDS) == [b"PONG"]
    assert not closed_under_reader
    assert [client.closed for client in clients] == [True, True, False]


def test_client_that_is_in_use_is_closed_when_it_is_let_go() -> None:
    client = Client()
    door = shared(lambda: client)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(door.flush, [HANG])
        assert client.hanging.wait(DEADLINE_SECONDS)
        door.close()
        closed_under_reader = client.closed
        client.go_on.set()
        reading.result(DEADLINE_SECONDS)

    assert (closed_under_reader, client.closed) == (False, True)
