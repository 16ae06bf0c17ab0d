"""Measure what a cold batch cannot do without, taken out of the worker: the floors of its time.

The scripts' floor is the batch's own commands, written before, on a socket that does nothing else:
what is left is the server and the way there and back. Powertools' floor is its batch utility and
its idempotency utility around bodies that do nothing, as the worker drives them.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from hiredis import Reader, pack_command

from sekali.answers import Acquired, End
from sekali.idempotency import PreparedLayer
from sekali.items import Item
from sekali.powertools_idempotency import idempotent_function
from sekali.running import run_records
from tests.benchmarks.bench_server import RESULT, Desk

if TYPE_CHECKING:
    from sekali.scripts import Command
    from tests.benchmarks.loads import Event, Load


class ScriptsAlone:
    """Claim and finish a batch of jobs that nobody asked for before."""

    def __init__(self, desk: Desk) -> None:
        """Let the server know the scripts, and open a connection of one's own."""
        self._desk = desk
        desk.finish(desk.claim([desk.ask()]))
        desk.shared.flush([desk.claims.bind(desk.ask())])
        port = desk.client.get_connection_kwargs()["port"]
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = Reader()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def measure(self, size: int) -> float:
        """Return the seconds per record that both pipelines took, what lies between left out."""
        claims, asks = self._desk.claims, [self._desk.ask() for _ in range(size)]
        replies, claiming = self._sent([*map(claims.claim, asks), *map(claims.bind, asks)])
        answers = [
            claims.read_claim(ask, reply, 0.0) for ask, reply in zip(asks, replies, strict=False)
        ]
        ends = [
            End(
                ask=answer.lease.ask,
                token=answer.lease.token,
                fence=answer.lease.fence,
                outcome="D",
                recorded=False,
                result=RESULT,
                header=b"%016d|" % answer.lease.fence,
                value_ttl_seconds=60.0,
            )
            for answer in answers
            if isinstance(answer, Acquired)
        ]
        _, finishing = self._sent([*map(claims.finish, ends)])
        return (claiming + finishing) / size

    def _sent(self, commands: list[Command]) -> tuple[list[Any], float]:  # Any: as they are read
        pack: Any = pack_command  # Any: its types know of no tuple of any length
        packed = b"".join([pack(command.args) for command in commands])
        replies: list[Any] = []
        began = time.perf_counter()
        self._socket.sendall(packed)
        while len(replies) < len(commands):
            self._reader.feed(self._socket.recv(65_536))
            while (reply := self._reader.gets()) is not False:
                replies.append(reply)
        return replies, time.perf_counter() - began


class PowertoolsAlone:
    """Take batches through Powertools around bodies that do nothing."""

    def __init__(self, load: Load) -> None:
        """Decorate the body as the worker does."""
        self._load = load
        self._once = idempotent_function(
            _nothing, data_keyword_argument="running", persistence_store=PreparedLayer()
        )

    def measure(self, size: int) -> float:
        """Return the seconds per record."""
        event: Event = self._load.batch(size)
        items = [Item(raw=raw, message_id=raw["messageId"]) for raw in event["Records"]]
        ready = _Ready()
        began = time.perf_counter()
        run_records(items, lambda _: self._once(running=ready), concurrency=1)
        return (time.perf_counter() - began) / size


class _Ready:
    """A record whose claim was answered, and whose outcome nobody keeps."""

    def __deepcopy__(self, _: dict[int, Any]) -> _Ready:  # Any: what was copied so far
        return self

    def known(self) -> bool:
        return False

    def succeed(self, result: object) -> None:
        """Forget it."""

    def fail(self, error: Exception) -> None:
        """Forget it."""


def _nothing(*, running: _Ready) -> bytes:
    del running
    return b"{}"
