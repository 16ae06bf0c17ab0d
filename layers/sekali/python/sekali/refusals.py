"""Say what the shared cache answers in place of a reply, and how a connection to it fails.

::

    Exception
    ├── Refused         a reply: the server's own words, which begin with a code
    └── Disconnected    no reply, and the connection is over
        └── Late        no reply in time

They never leave the library: a caller hears of `SharedUnavailable`. redis-py has classes for them
too, which cost an import of all of it; where it is used, its errors become these (`redis_py`).
"""

from __future__ import annotations

import time
from typing import Final

SERVES_NOBODY: Final = frozenset({"LOADING", "NOAUTH", "WRONGPASS"})
"""Codes after which no other command gets a reply on that connection either."""
_FULL: Final = "ERR max number of clients reached"


class Refused(Exception):
    """Stand in the place of the reply that the server refused to give.

    `code` is the server's first word (`OOM`, `NOSCRIPT`, `READONLY`, …).
    """

    def __init__(self, text: str) -> None:
        """Keep the server's words."""
        super().__init__(text)
        self.code = text.partition(" ")[0]


class Disconnected(Exception):
    """Raise when there is no connection, or none any more. Whoever sends again needs a new one.

    `cause` tells the kind, for log lines and events.
    """

    def __init__(self, text: str, *, cause: str = "ConnectionError") -> None:
        """Keep what happened."""
        super().__init__(text)
        self.cause = cause


class Late(Disconnected):
    """Raise when a connection, or a reply, did not come within its time-out."""

    def __init__(self, text: str, *, cause: str = "TimeoutError") -> None:
        """Keep what was waited for."""
        super().__init__(text, cause=cause)


def refusal(text: str) -> Refused | Disconnected:
    """Return what a server's words mean: this command is refused, or every one is."""
    refused = Refused(text)
    if refused.code in SERVES_NOBODY or text == _FULL:
        return Disconnected(text, cause=refused.code)
    return refused


def broken(error: OSError) -> Disconnected:
    """Return what an error of the system's calls means."""
    # What the system itself bounds, it calls blocking (see `links`).
    late = isinstance(error, TimeoutError | BlockingIOError)
    return (Late if late else Disconnected)(str(error))


def in_time(until: float | None, within_seconds: float | None) -> float | None:
    """Return when all has to be read, by this process's own clock; None is no bound.

    Raises:
        Late: that is over.
    """
    if within_seconds is None:
        return None
    now = time.monotonic()
    if until is not None and now > until:
        raise Late("not everything was answered in time")
    return now + within_seconds if until is None else until
