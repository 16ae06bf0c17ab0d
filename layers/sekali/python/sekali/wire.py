"""Carry one flush over one connection, without the detours of the client's own pipeline.

A pipeline of redis-py takes a connection from its pool for each flush, wraps the flush into retries
and measurements that nobody reads here, and packs and reads each command through five calls. Here a
client keeps one connection at hand; whoever finds it in use takes another one from the pool:

    t=0  A takes the connection at hand           sends and reads on it
    t=1  B finds it taken                         one of the pool, given back after its flush
    t=2  A is done                                it stays connected for the next flush
    t=3  somebody changed the time-outs (Waits)   the next one connects anew

A connection on which anything went wrong, a reply too many or too few included, is closed and never
read again. Before a flush it is looked at: one that the server has closed, or on which something
lies unread, is left. What the server refused stands in its reply's place, as with the pipeline.

On a cluster this way is taken where all commands belong to one node, as those of one key do; what
has to be sent on to another node is left to the caller.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from sekali.redis_py import WrappedPool, ours
from sekali.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.link import Arguments

MOST_ROUTED_COMMANDS: Final = 8
"""Above that the commands of a flush to a cluster hardly ever belong to one node."""
AWAY: Final = object()
"""Stands for a reply where nothing was sent."""
_LONG: Final = "XRANGE"
"""The command whose reply may have ten thousand parts. It goes first where it goes at all."""
_RUNS: Final = frozenset({"EVALSHA", "EVAL"})
_OWN: Final = "sekali.links.Server"
_ALONE: Final = frozenset({"redis.client.Redis", _OWN})
_CLUSTER: Final = "redis.cluster.RedisCluster"
_NO_MORE: Final[Iterator[Sequence[Arguments]]] = iter(())


class Talker(Protocol):
    """Be a connection: `Link`, or one of redis-py in its wrapping."""

    def is_sound(self, *, rested: bool = True) -> bool:
        """Tell whether it is open, with nothing unread on it."""
        ...

    def send(self, commands: Sequence[Arguments], /) -> None:
        """Send them all."""
        ...

    def ask(
        self,
        packed: bytes,
        meanwhile: Callable[[], object],
        within_seconds: float | None = None,
        /,
    ) -> Any:  # Any: as its reply
        """Send one packed command, call `meanwhile`, and return the reply."""
        ...

    def read(
        self, wanted: int, within_seconds: float | None = None, /
    ) -> list[Any]:  # Any: as the commands' replies
        """Return so many replies."""
        ...

    def disconnect(self) -> None:
        """Close it."""
        ...


class Seat:
    """The connection at hand to one server. `source` is the client's pool that it is made by."""

    __slots__ = ("_callbacks", "_connection", "_outdated", "_pool", "_taken", "source")

    def __init__(self, source: Any, pool: Any, callbacks: Any) -> None:
        """Take a pool, as it is and in its wrapping, and what reads replies (Any: redis-py's)."""
        self.source = source
        self._pool = pool
        # The log reads its entries itself: redis-py's form of them takes twice as long to read
        # (tests/benchmarks, "library: choices").
        self._callbacks = {name: read for name, read in callbacks.items() if name != _LONG}
        self._connection: Talker | None = None
        self._outdated = False
        self._taken = Lock()

    def exchange(
        self,
        commands: Sequence[Arguments],
        more: Iterator[Sequence[Arguments]] = _NO_MORE,
        within_seconds: float | None = None,
    ) -> list[Any]:  # Any: as the commands' replies
        """Send the commands, and return a reply or a refusal for each.

        Those of `more` are sent after them, part by part as it makes them, while the server works
        on what it has. Where it raises, the connection is closed.

        Raises:
            Disconnected: no connection, or no reply in time.
        """
        if not self._taken.acquire(blocking=False):
            connection = self._pool.get_connection()
            try:
                return self._talk(connection, commands, more, within_seconds)
            finally:
                self._pool.release(connection)
        try:
            at_hand = self._connection
            if at_hand is None or self._outdated or not at_hand.is_sound():
                at_hand = self._settle()
            return self._talk(at_hand, commands, more, within_seconds)
        except BaseException:
            self._leave()
            raise
        finally:
            self._taken.release()

    def ask(
        self,
        packed: bytes,
        meanwhile: Callable[[], object],
        within_seconds: float | None = None,
        *,
        rested: bool,
    ) -> Any:  # Any: as its reply
        """Send one packed command and return its reply or its refusal, as `exchange` does.

        `meanwhile` is called once it is sent: what need not come before is done while the server
        works. Where it raises, the connection is closed. Nothing is sent, and AWAY returned, where
        there is no sound connection at hand.

        One that has not `rested` is not looked at before: where the server closed it a moment ago
        it fails, and whoever asked sends again, as where it closes it a moment later.

        Raises:
            Disconnected: no reply in time.
        """
        if not self._taken.acquire(blocking=False):
            return AWAY
        try:
            at_hand = self._connection
            if at_hand is None or self._outdated or not at_hand.is_sound(rested=rested):
                return AWAY
            return at_hand.ask(packed, meanwhile, within_seconds)
        except BaseException:
            self._leave()
            raise
        finally:
            self._taken.release()

    def renew(self) -> None:
        """Let the next flush connect anew: the time-outs of the pool have changed."""
        self._outdated = True

    def _settle(self) -> Talker:
        """Have another connection at hand."""
        self._leave()
        self._outdated = False
        at_hand: Talker = self._pool.get_connection()
        self._connection = at_hand
        return at_hand

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self._pool.release(connection)

    def _talk(
        self,
        connection: Talker,
        commands: Sequence[Arguments],
        more: Iterator[Sequence[Arguments]],
        within_seconds: float | None,
    ) -> list[Any]:  # Any: as in exchange
        try:
            connection.send(commands)
            for part in more:
                connection.send(part)
                commands = [*commands, *part]
            if commands[0][0] == _LONG:
                with _collector_held():
                    replies = connection.read(len(commands), within_seconds)
            else:
                replies = connection.read(len(commands), within_seconds)
        except BaseException:
            connection.disconnect()  # half a conversation is nobody's
            raise
        callbacks = self._callbacks
        for at, args in enumerate(commands):
            if args[0] in callbacks and not isinstance(replies[at], Refused):
                replies[at] = callbacks[args[0]](replies[at])
        return replies


class Wire:
    """The seats of one client: one for each server that it talks to alone."""

    __slots__ = ("_client", "_kind", "_seats", "only")

    @property
    def routed(self) -> bool:
        """Tell whether a server may answer that the key is another one's."""
        return self._kind == _CLUSTER

    @property
    def alone(self) -> bool:
        """Tell whether there is one server, which takes whatever comes."""
        return self._kind in _ALONE

    def __init__(self, client: Any) -> None:  # Any: `links.Server`, one of redis-py, a stand-in
        """Find out what it is: one of a class of its own keeps its own way."""
        self._client = client
        self._kind = f"{type(client).__module__}.{type(client).__qualname__}"
        self._seats: dict[str, Seat] = {}
        self.only: Seat | None = None
        """The seat of every command, where there is one server and it was spoken with."""

    def seat(self, commands: Sequence[Arguments]) -> Seat | None:
        """Return the seat that all commands can be sent from; None where there is no such.

        Each command names a key, as the library's do.

        Raises:
            Disconnected: a cluster of which no node is known for the key.
        """
        if self._kind in _ALONE:
            self.only = self._sit("", self._client)
            return self.only
        if self._kind != _CLUSTER or len(commands) > MOST_ROUTED_COMMANDS:
            return None
        from redis.crc import key_slot

        keys = [args[3 if args[0] in _RUNS else 1] for args in commands]
        slots = {key_slot(key if isinstance(key, bytes) else str(key).encode()) for key in keys}
        with ours():
            nodes = [self._client.nodes_manager.get_node_from_slot(slot) for slot in slots]
            if any(node is not nodes[0] for node in nodes):
                return None
            return self._sit(nodes[0].name, self._client.get_redis_connection(nodes[0]))

    def renew(self) -> None:
        """Let every seat connect anew: the time-outs have changed."""
        for seat in tuple(self._seats.values()):
            seat.renew()

    def _sit(self, name: str, client: Any) -> Seat:  # Any: a client of one server
        seat = self._seats.get(name)
        source = client.connection_pool
        if seat is None or seat.source is not source:  # a node may be replaced
            pool = source if self._kind == _OWN else WrappedPool(source)
            seat = self._seats[name] = Seat(source, pool, client.response_callbacks)
        return seat


@contextmanager
def _collector_held() -> Iterator[None]:
    """Let no garbage be looked for while a long reply is read.

    Twenty thousand lists in a row make the collector search the whole heap, to no avail: a tenth of
    the time or two where that is small (tests/benchmarks, "library: choices").
    """
    held = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if held:
            gc.enable()
