"""Connect to the cache while the rest of INIT goes on.

A first connection is mostly waiting: for a name, for TCP, TLS and a login, each a round trip. Where
Lambda starts an environment for an event that waits already, it is made by a thread as soon as
there is a worker, and the first batch finds it::

    INIT   Worker(...)        the thread resolves, connects, logs in
           the rest of the handler's module, the runtime client
    batch  first flush        takes that connection; waits for it where it is not quite there

It is an acceleration and nothing else. The environment may be frozen at any moment, and this thread
with it: the first flush waits for it a quarter of a second at most, counted from its beginning by
both clocks, and then makes its own. A connection that idled for long, that failed, or that was made
for another address is not taken; whatever failed here is met again, and told, there.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from sekali.clock import SystemClock, age_seconds, now
from sekali.connections import close, connect, ready
from sekali.errors import SettingInvalid
from sekali.settings import Settings
from sekali.shared import IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.clock import Clock, Moment

_log = logging.getLogger(__name__)

INITIALIZATION: Final = "AWS_LAMBDA_INITIALIZATION_TYPE"
WAITED_SECONDS: Final = 0.25
_AT_ONCE: Final = "on-demand"
"""Other environments wait: for hours where they are provisioned, and as a snapshot for ever."""


class Opening:
    """One client whose first connection is being made. It is taken once, or closed."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        ready: Callable[[Settings], Callable[[], Any]] = ready,  # Any: a client
    ) -> None:
        """Import what a client needs, and begin; `ready` raises what stands in the way of that."""
        self._settings = settings
        self._clock = clock or SystemClock()
        self._make = ready(settings)
        self._lock = threading.Lock()
        self._client: Any = None  # Any: as above
        self._since: Moment = now(self._clock)
        self._over = False
        self._thread = threading.Thread(target=self._open, name="sekali-opening", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        client = None
        try:
            client = self._make()
            links = getattr(client, "connection_pool", None)
            if links is not None:  # a cluster's client has connected as it was made
                links.release(links.get_connection())
        except Exception:  # noqa: BLE001  an edge: the first flush meets the same, and tells
            _log.debug("the cache could not be connected to during INIT", exc_info=True)
        with self._lock:
            if not self._over:
                self._client, self._since = client, now(self._clock)
                return
        if client is not None:
            close(client)

    def connect(self, settings: Settings) -> Callable[[], Any]:  # Any: as above
        """Return the function that makes clients of `settings`; its first one may be this one."""

        def client() -> Any:  # Any: as above
            return self._take(settings) or connect(settings)()

        return client

    def _take(self, settings: Settings) -> Any:  # Any: as above; None where there is none
        """Return the client, once; None where it is not there in time, too old, or for others."""
        if settings == self._settings:
            within = WAITED_SECONDS - age_seconds(self._since, self._clock)
            self._thread.join(max(within, 0.0))
        with self._lock:
            client, self._client = self._client, None
            self._over = True
            idle_seconds = age_seconds(self._since, self._clock)
        if client is not None and (settings != self._settings or idle_seconds > IDLE_SECONDS):
            close(client)
            return None
        return client

    def forget_parent(self) -> None:
        """Let nothing be taken in a forked process: the socket and the lock are the parent's."""
        self._lock = threading.Lock()
        self._client, self._over = None, True

    def close(self) -> None:
        """Let go of what nobody took."""
        with self._lock:
            client, self._client = self._client, None
            self._over = True
        if client is not None:
            close(client)


def begin() -> Opening | None:
    """Begin, where an event waits for this environment; None elsewhere, and where it cannot be.

    What is wrong with the settings, the packages or the role is not told here but at the first
    batch, as everywhere.
    """
    if os.environ.get(INITIALIZATION) != _AT_ONCE:
        return None
    try:
        return Opening(Settings.from_env(os.environ))
    except SettingInvalid:
        return None
    except Exception:  # noqa: BLE001  an edge, as above
        _log.debug("nothing could be connected with during INIT", exc_info=True)
        return None
