"""Carry one flush over one connection, without the detours of the client's own pipeline.

A pipeline of redis-py takes a connection from its pool for each flush, wraps the flush into retries
and measurements that nobody reads here, and packs and reads each command through five calls. Here a
client keeps one connection at hand; whoever finds it in use takes another one from the pool:

    t=0  A takes the connection at hand           sends and reads on it
    t=1  B finds it taken                         one of the pool, given back after its flush
    t=2  A is done                                it stays connected for the next flush
    t=3  somebody changed the time-outs (Waits)   the next one connects anew

A connection on which anything went wrong, a reply too many or too few included, is closed and never
read again. What the server refused stands in its reply's place, as with the pipeline.

On a cluster this way is taken where all commands belong to one node, as those of one key do; what
has to be sent on to another node is left to the caller.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Arguments = tuple[bytes | str | int, ...]

MOST_ROUTED_COMMANDS: Final = 8
"""Above that the commands of a flush to a cluster hardly ever belong to one node."""
_LONG: Final = frozenset({"XRANGE"})
"""Commands whose reply may have ten thousand parts."""
_RUNS: Final = frozenset({"EVALSHA", "EVAL"})
_ALONE: Final = "redis.client.Redis"
_CLUSTER: Final = "redis.cluster.RedisCluster"


class Seat:
    """The connection at hand to one server."""

    __slots__ = (
        "_callbacks",
        "_connection",
        "_lost",
        "_outdated",
        "_pack",
        "_refusal",
        "_taken",
        "pool",
    )

    def __init__(self, pool: Any, callbacks: Any) -> None:  # Any: redis-py's pool and callbacks
        from redis.exceptions import ConnectionError as Disconnected
        from redis.exceptions import ResponseError

        self.pool = pool
        # The log reads its entries itself: the client's own form of them costs ten times as much.
        self._callbacks = {name: read for name, read in callbacks.items() if name != "XRANGE"}
        self._refusal, self._lost = ResponseError, Disconnected
        self._pack = _packer()
        self._connection: Any = None  # Any: a connection of redis-py
        self._outdated = False
        self._taken = Lock()

    def exchange(self, commands: Sequence[Arguments]) -> list[Any]:  # Any: as the commands' replies
        """Send the commands, and return a reply or a refusal for each.

        Raises:
            ConnectionError: of redis-py, or its TimeoutError: no connection, or no reply in time.
        """
        if not self._taken.acquire(blocking=False):
            connection = self.pool.get_connection()
            try:
                return self._talk(connection, commands)
            finally:
                self.pool.release(connection)
        try:
            return self._talk(self._sound(), commands)
        except BaseException:
            self._leave()
            raise
        finally:
            self._taken.release()

    def renew(self) -> None:
        """Let the next flush connect anew: the time-outs of the pool have changed."""
        self._outdated = True

    def _sound(self) -> Any:  # Any: a connection of redis-py
        """Return the connection at hand, or another one where it was closed from outside."""
        connection = self._connection
        if connection is not None and not self._outdated:
            try:
                if not connection.can_read():
                    return connection
            except (self._lost, OSError):  # the server has closed it
                pass
        self._leave()
        self._outdated = False
        self._connection = self.pool.get_connection()
        return self._connection

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self.pool.release(connection)

    def _talk(self, connection: Any, commands: Sequence[Arguments]) -> list[Any]:  # Any: see above
        pack = self._pack
        callbacks, refusal = self._callbacks, self._refusal
        replies: list[Any] = []
        try:
            packed = (
                connection.pack_commands(commands)
                if pack is None
                else [b"".join([pack(args) for args in commands])]
            )
            connection.send_packed_command(packed, check_health=False)
            for args in commands:
                name = args[0]
                try:
                    if name in _LONG:
                        with _collector_held():
                            reply = connection.read_response()
                    else:
                        reply = connection.read_response()
                except refusal as error:
                    replies.append(error)
                    continue
                callback = callbacks.get(name)
                replies.append(reply if callback is None else callback(reply))
        except BaseException:
            connection.disconnect()  # half a conversation is nobody's
            raise
        return replies


class Wire:
    """The seats of one client: one for each server that it talks to alone."""

    __slots__ = ("_client", "_kind", "_seats")

    @property
    def routed(self) -> bool:
        """Tell whether a server may answer that the key is another one's."""
        return self._kind == _CLUSTER

    def __init__(self, client: Any) -> None:  # Any: a client of redis-py, or a stand-in for one
        """Find out what it is: one of a class of its own keeps its own way."""
        self._client = client
        self._kind = f"{type(client).__module__}.{type(client).__qualname__}"
        self._seats: dict[str, Seat] = {}

    def seat(self, commands: Sequence[Arguments]) -> Seat | None:
        """Return the seat that all commands can be sent from; None where there is no such.

        Each command names a key, as the library's do.
        """
        if self._kind == _ALONE:
            return self._seats.get("") or self._sit("", self._client)
        if self._kind != _CLUSTER or len(commands) > MOST_ROUTED_COMMANDS:
            return None
        from redis.crc import key_slot

        keys = [args[3 if args[0] in _RUNS else 1] for args in commands]
        slots = {key_slot(key if isinstance(key, bytes) else str(key).encode()) for key in keys}
        nodes = [self._client.nodes_manager.get_node_from_slot(slot) for slot in slots]
        if any(node is not nodes[0] for node in nodes):
            return None
        return self._sit(nodes[0].name, self._client.get_redis_connection(nodes[0]))

    def renew(self) -> None:
        """Let every seat connect anew: the time-outs have changed."""
        for seat in tuple(self._seats.values()):
            seat.renew()

    def _sit(self, name: str, client: Any) -> Seat:  # Any: a standalone client of redis-py
        seat = self._seats.get(name)
        if seat is None or seat.pool is not client.connection_pool:  # a node may be replaced
            seat = self._seats[name] = Seat(client.connection_pool, client.response_callbacks)
        return seat


@contextmanager
def _collector_held() -> Iterator[None]:
    """Let no garbage be looked for while a long reply is read.

    Twenty thousand lists in a row make the collector search the whole heap: measured on a small
    one, 35 ms beside 16 for everything else. They are gone before it would have its next turn.
    """
    held = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if held:
            gc.enable()


def _packer() -> Callable[[Arguments], bytes] | None:
    """Return the function of the C extension that writes a command, where it is installed."""
    try:
        from hiredis import pack_command
    except ImportError:
        return None
    return cast("Callable[[Arguments], bytes]", pack_command)
