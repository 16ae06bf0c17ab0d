"""Keep one event loop on a thread for as long as the container lives.

A loop per invocation would break every client that a job keeps at module level: its sockets belong
to the loop they were made on. The thread sleeps while the container is frozen, and nothing of the
library relies on its running then.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class BackgroundLoop:
    """Run coroutines from other threads. The loop starts with the first one."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, object]) -> object:  # Any: what it yields
        """Run `coroutine` in a copy of the caller's context and return what it returns."""
        loop = self._started()
        context = copy_context()
        done: Future[object] = Future()

        async def carried() -> None:
            try:
                done.set_result(await coroutine)
            except BaseException as error:  # noqa: BLE001  the caller's thread raises it
                done.set_exception(error)

        loop.call_soon_threadsafe(lambda: loop.create_task(carried(), context=context))
        return done.result()

    def close(self) -> None:
        """Stop the loop and its thread; the next coroutine starts new ones."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_until_stopped, args=(loop,), name="sekali-loop", daemon=True
                ).start()
            return self._loop


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
