"""Make clients of the shared cache that fail quickly, and bound how long they wait.

redis-py's defaults are not for a function with a deadline: ten retries of five seconds each. Here a
client retries nothing by itself, waits for the configured time, and for less where less is left.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from sekali.clock import SystemClock
from sekali.redis_py import meant, ours
from sekali.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    from sekali.clock import Clock
    from sekali.iam import IamCredentials

_CONNECT: Final = "socket_connect_timeout"
_REPLY: Final = "socket_timeout"
_ELSEWHERE: Final = frozenset({"ASK", "MOVED", "TRYAGAIN"})


class CacheSettings(Protocol):
    """Say which settings a connection needs; `Settings` has them."""

    @property
    def cache_url(self) -> str:
        """Return `valkey://host:port`, or `valkeys://` for TLS."""
        ...

    @property
    def cache_cluster(self) -> bool:
        """Tell whether the cache runs in cluster mode."""
        ...

    @property
    def cache_iam_user(self) -> str | None:
        """Return the user that the function's role logs in as, None for no authentication."""
        ...

    @property
    def cache_name(self) -> str | None:
        """Return the name of the cache, which is signed."""
        ...

    @property
    def cache_serverless(self) -> bool | None:
        """Tell whether the named cache is a serverless one, which is signed too."""
        ...

    @property
    def cache_connect_timeout_seconds(self) -> float:
        """Return how long one connection attempt may take."""
        ...

    @property
    def cache_timeout_seconds(self) -> float:
        """Return how long one reply may take."""
        ...


def connect(
    settings: CacheSettings, *, clock: Clock | None = None
) -> Callable[[], Any]:  # Any: `links.Server`, or a client of redis-py
    """Return the function that makes the client; it imports and connects when it is called.

    A cache that is one server is spoken to without redis-py, which takes long to import. With an
    IAM user each new connection logs in with a password signed for it.
    """
    clock = clock or SystemClock()

    def client() -> Any:  # Any: as above
        make = _maker(settings, _credentials(settings, clock))
        return make()

    return client


def ready(
    settings: CacheSettings, *, clock: Clock | None = None
) -> Callable[[], Any]:  # Any: as above
    """Import and sign whatever a client needs, and return the function that makes it.

    What that function does is no more than to wait for the network, so a thread may: two threads
    that import packages whose modules import each other may find one of them half done.
    """
    credentials = _credentials(settings, clock or SystemClock())
    if credentials is not None:
        credentials.get_credentials()
    return _maker(settings, credentials)


def full_client(
    settings: CacheSettings, *, clock: Clock | None = None
) -> Callable[[], Any]:  # Any: a client of redis-py, standalone or cluster
    """Return the function that makes a client of redis-py, which knows every command.

    The client retries nothing by itself: its default is ten retries of five seconds each.
    """
    clock = clock or SystemClock()

    def client() -> Any:  # Any: as above
        make = _full_maker(settings, _credentials(settings, clock))
        return make()

    return client


def _maker(
    settings: CacheSettings, credentials: IamCredentials | None
) -> Callable[[], Any]:  # Any: as above
    if settings.cache_cluster or find_spec("hiredis") is None:
        return _full_maker(settings, credentials)
    from sekali.links import Links, Server

    host, port, tls = _address(settings)
    return lambda: Server(
        Links(
            host,
            port,
            tls=_verifying if tls else None,
            credentials=credentials,
            socket_connect_timeout=settings.cache_connect_timeout_seconds,
            socket_timeout=settings.cache_timeout_seconds,
        )
    )


def _full_maker(
    settings: CacheSettings, credentials: IamCredentials | None
) -> Callable[[], Any]:  # Any: as above
    from redis import Redis, RedisCluster
    from redis.backoff import NoBackoff
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry

    host, port, tls = _address(settings)
    options: dict[str, Any] = {  # Any: arguments of the client
        "host": host,
        "port": port,
        "ssl": tls,
        "socket_timeout": settings.cache_timeout_seconds,
        "socket_connect_timeout": settings.cache_connect_timeout_seconds,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        # It asks each new connection with a command that no cache of ours knows, and where one
        # does, a push may stretch the time-outs to ten seconds.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    if credentials is not None:
        options["credential_provider"] = credentials

    def client() -> Any:  # Any: as above
        with ours():  # a cluster's client connects as it is made
            return (RedisCluster if settings.cache_cluster else Redis)(**options)

    return client


def _address(settings: CacheSettings) -> tuple[str, int, bool]:
    """Return host, port, and whether the connection is encrypted."""
    url = urlsplit(settings.cache_url)
    return url.hostname or "localhost", url.port or 6379, url.scheme in {"valkeys", "rediss"}


def _verifying() -> SSLContext:
    """Return what verifies a server: its name too, by the system's authorities."""
    from ssl import create_default_context

    return create_default_context()


def _credentials(settings: CacheSettings, clock: Clock) -> IamCredentials | None:
    if not settings.cache_iam_user or not settings.cache_name:
        return None
    from sekali.iam import IamCredentials

    return IamCredentials(
        user=settings.cache_iam_user,
        cache_name=settings.cache_name,
        serverless=bool(settings.cache_serverless),
        clock=clock,
    )


def pools_of(client: Any) -> list[Any]:  # Any: a client of redis-py, and its pools
    """Return the connection pools of a client: one, or one for each node of a cluster."""
    if hasattr(client, "get_nodes"):
        nodes = [node.redis_connection for node in client.get_nodes()]
        return [node.connection_pool for node in nodes if node is not None]
    return [client.connection_pool]


def exchange(
    client: Any,  # Any: a client of redis-py, standalone or cluster
    commands: Sequence[tuple[bytes | str | int, ...]],
) -> tuple[list[Any], int]:  # Any: replies have as many types as commands
    """Send one pipeline; return the replies, and how many commands were redirected.

    What the server refused stands in its reply's place. A cluster's client would by itself send
    every command that got no reply once more, one by one, each with a time-out of its own: with a
    node that hangs, five hundred commands wait for minutes. Here only those are sent on that a node
    has answered with where to go, while slots move.

    Raises:
        Disconnected: no connection, or no reply in time.
    """
    with ours():
        pipeline = client.pipeline(transaction=False)
        if not hasattr(pipeline, "send_cluster_commands"):
            for command in commands:
                pipeline.execute_command(*command)
            return _ours(pipeline.execute(raise_on_error=False)), 0

        from redis.cluster import PipelineCommand

        made: Any = PipelineCommand  # Any: it has no types
        stack = [made(command, {}, at) for at, command in enumerate(commands)]
        replies = _ours(
            pipeline.send_cluster_commands(stack, raise_on_error=False, allow_redirections=False)
        )
        return replies, redirect(client, commands, replies)


def _ours(replies: Sequence[Any]) -> list[Any]:  # Any: as in exchange
    return [meant(reply) if isinstance(reply, Exception) else reply for reply in replies]


def redirect(
    client: Any,  # Any: a cluster client of redis-py
    commands: Sequence[tuple[bytes | str | int, ...]],
    replies: list[Any],  # Any: as in exchange
) -> int:
    """Send on what a node has answered with where to go; return how many commands that were.

    Raises:
        Disconnected: no connection, or no reply in time.
    """
    from redis.exceptions import ResponseError

    moved = [
        at
        for at, reply in enumerate(replies)
        if isinstance(reply, Refused) and reply.code in _ELSEWHERE
    ]
    if not moved:
        return 0
    with ours():
        client.nodes_manager.initialize()
        for at in moved:
            try:
                replies[at] = client.execute_command(*commands[at])
            except ResponseError as error:
                replies[at] = meant(error)
    return len(moved)


def close(client: Any) -> None:  # Any: a client of redis-py
    """Close every connection of a client; the close of a cluster leaves those of its nodes open."""
    for pool in pools_of(client):
        pool.disconnect()
    client.close()


class Waits:
    """Cut the time-outs of a client's connections when little time is left, and restore them.

    A connection keeps the time-outs it was made with, so new ones are made; that happens in the
    last second or two of an invocation only. One attempt connects and then waits for a reply: each
    may take at most half of what is left, and a quarter less, so that the next flush need not cut
    again.
    """

    def __init__(self) -> None:
        """Know nothing of the client yet."""
        self._configured: dict[str, float | None] | None = None
        self._cut_to: float | None = None
        self.plenty_seconds: float = math.inf
        """With more than that left, `fit` has nothing to do."""

    def fit(self, client: Any, left_seconds: float | None) -> bool:  # Any: a client of redis-py
        """Let nothing on this client wait past `left_seconds`; None is without an end.

        True where its time-outs are others from now on, so that connections have to be made anew.
        """
        if left_seconds is not None and left_seconds > self.plenty_seconds:
            return False
        pools = pools_of(client)
        if self._configured is None:
            kwargs = pools[0].connection_kwargs
            self._configured = {name: kwargs.get(name) for name in (_CONNECT, _REPLY)}
        half = None if left_seconds is None else left_seconds / 2
        longest = max((wait for wait in self._configured.values() if wait), default=None)
        if half is not None and (longest is None or half < longest):
            if self._cut_to is not None and half / 2 <= self._cut_to <= half:
                return False
            self._cut_to = half * 0.75
            self.plenty_seconds = math.inf
        elif self._cut_to is None:
            self.plenty_seconds = math.inf if longest is None else 2 * longest
            return False
        else:
            self._cut_to = None
        waits = {name: _shorter(wait, self._cut_to) for name, wait in self._configured.items()}
        for pool in pools:
            pool.disconnect(inuse_connections=False)
            pool.connection_kwargs.update(waits)
        return True


def _shorter(configured: float | None, cut: float | None) -> float | None:
    return min((wait for wait in (configured, cut) if wait is not None), default=None)
