"""Speak through redis-py where it is still used: on a cluster, and without the C parser.

Its connections get the manners of a `Link`, and its errors become ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sekali.refusals import Disconnected, Late, Refused, broken, in_time, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.link import Arguments


class WrappedConnection:
    """One connection of redis-py."""

    def __init__(self, connection: Any) -> None:  # Any: a connection of redis-py
        """Keep it."""
        self.connection = connection

    def is_sound(self, *, rested: bool = True) -> bool:
        """Tell whether it is open, as far as this side knows, with nothing unread on it."""
        del rested  # redis-py is asked each time
        from redis.exceptions import RedisError

        try:
            return not self.connection.can_read()
        except (RedisError, OSError):
            return False

    def send(self, commands: Sequence[Arguments]) -> None:
        """Send them all.

        Raises:
            Disconnected: not all of them went.
        """
        connection = self.connection
        with ours():
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)

    def ask(
        self,
        packed: bytes,
        meanwhile: Callable[[], object],
        within_seconds: float | None = None,
    ) -> Any:  # Any: as its reply
        """Send one packed command, call `meanwhile`, and return the reply.

        Raises:
            Disconnected: as the two methods beside.
        """
        with ours():
            self.connection.send_packed_command([packed], check_health=False)
        meanwhile()
        return self.read(1, within_seconds)[0]

    def read(
        self, wanted: int, within_seconds: float | None = None
    ) -> list[Any]:  # Any: as the commands' replies
        """Return so many replies; what the server refused stands in its reply's place.

        They take as long as those of a `Link`, but for one reply that comes in pieces: redis-py
        lets each of these take a time-out.

        Raises:
            Disconnected: not all of them came, or the server said that it serves nobody.
        """
        from redis.exceptions import RedisError

        replies: list[Any] = []
        until = None
        while len(replies) < wanted:
            until = in_time(until, within_seconds)
            try:
                replies.append(self.connection.read_response())
            except (RedisError, OSError) as error:
                found = meant(error)
                if not isinstance(found, Refused):
                    raise found from error
                replies.append(found)
        return replies

    def disconnect(self) -> None:
        """Close it."""
        self.connection.disconnect()


class WrappedPool:
    """One pool of redis-py."""

    def __init__(self, pool: Any) -> None:  # Any: a pool of redis-py
        """Keep it."""
        self.pool = pool

    def get_connection(self) -> WrappedConnection:
        """Return a connection, the caller's alone until it is released.

        Raises:
            Disconnected: there is none to be had.
        """
        with ours():
            return WrappedConnection(self.pool.get_connection())

    def release(self, wrapped: WrappedConnection) -> None:
        """Give it back to redis-py."""
        self.pool.release(wrapped.connection)


@contextmanager
def ours() -> Iterator[None]:
    """Let what is raised in the block be an error of ours.

    Raises:
        Disconnected: redis-py, or the system, raised an error.
    """
    from redis.exceptions import RedisClusterException, RedisError

    try:
        yield
    except (RedisError, RedisClusterException, OSError) as error:
        found = meant(error)
        if isinstance(found, Refused):  # to speak at all
            found = Disconnected(str(found), cause=type(error).__name__)
        raise found from error


def meant(error: Exception) -> Refused | Disconnected:
    """Return the error of ours that says what one of redis-py's, or of the system's, does.

    redis-py cuts off the codes that it has a class for; each error names them beside.
    """
    from redis import exceptions as of

    name, text = type(error).__name__, str(error)
    if isinstance(error, of.TimeoutError):
        return Late(text, cause=name)
    if isinstance(error, of.ResponseError):
        code = _CODES.get(name, getattr(error, "status_code", None))
        return refusal(text) if code is None else Refused(f"{code} {text}")
    if isinstance(error, OSError):
        return broken(error)
    return Disconnected(text, cause=name)


_CODES: dict[str, str] = {
    "AskError": "ASK",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoScriptError": "NOSCRIPT",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""An error that a test or an older release makes has no code beside it."""
