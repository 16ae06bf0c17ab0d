"""Hear of invalidations at once, in a process that keeps running.

::

    with sekali.listening():
        serve_for_ever()

    t=0.000  elsewhere: an invalidation reaches the log, and the server pushes a wake-up
    t=0.001  here: the log's tail is read and applied, by a thread of its own
    t=0.002  here: a read in the middle of an invocation finds the value gone

A push says nothing but "look": what is applied is always the log, from the place where this
container left it. So a push that is lost, late or doubled changes no answer beyond what the level
allows anyway: the next invocation, or the next second of a process without invocations, reads the
same log. A Lambda has no use for it: a frozen container hears nothing.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from sekali import warm
from sekali.connections import full_client
from sekali.errors import SharedUnavailable
from sekali.refusals import Disconnected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.warm import Container

_log = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.2
_RECONNECT_SECONDS: Final = 1.0


@contextmanager
def listening(container: Container | None = None) -> Iterator[Listener]:
    """Listen for the block, in a thread that ends with it."""
    here = container or warm.container()
    listener = Listener(here, full_client(here.settings))
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


class Listener:
    """One subscription to the log's pushes. `pushes` counts them."""

    def __init__(self, container: Container, connect: Callable[[], Any]) -> None:  # Any: a client
        """Keep the container whose local tier follows; nothing connects before `start`."""
        self._container = container
        self._connect = connect
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sekali-listening", daemon=True)
        self.subscribed = threading.Event()
        self.pushes = 0

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and join."""
        self._stopped.set()
        self._thread.join()

    def catch_up(self) -> None:
        """Read the log's tail and apply it."""
        coherence = self._container.coherence
        glance = coherence.glance()
        with suppress(SharedUnavailable):  # the next push or the next invocation does it
            (reply,) = self._container.shared.flush([glance.command], operation="tail")
            coherence.apply(glance, reply)

    def _run(self) -> None:
        from redis.exceptions import RedisError

        while not self._stopped.is_set():
            try:
                self._listen()
            except (Disconnected, RedisError, OSError) as error:
                _log.warning("listening for invalidations is interrupted: %s", error)
                self.subscribed.clear()
                self._stopped.wait(_RECONNECT_SECONDS)

    def _listen(self) -> None:
        client = self._connect()
        try:
            subscription = client.pubsub()
            subscription.subscribe(self._container.keyspace.log)
            while not self._stopped.is_set():
                message = subscription.get_message(timeout=_WAIT_SECONDS)
                if message is None:
                    continue
                # Whatever was pushed before the subscription was not heard.
                self.catch_up()
                if message["type"] == "subscribe":
                    self.subscribed.set()
                else:
                    self.pushes += 1
        finally:
            client.close()
