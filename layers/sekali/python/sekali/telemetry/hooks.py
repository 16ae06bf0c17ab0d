"""Hand each event to everybody who asked for it, and let none of them break the work."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sekali.telemetry.events import Event, Hook

_log = logging.getLogger(__name__)


class Hooks:
    """Be one hook in front of several.

    Called with an event, it calls each hook in the order given. A hook that raises is logged with
    its traceback and the next one is called: telemetry never decides about a job. This is one of
    the two places of the library that catch every exception.
    """

    def __init__(self, *hooks: Hook) -> None:
        self._hooks = hooks

    def __bool__(self) -> bool:
        """Tell whether anybody listens."""
        return bool(self._hooks)

    def add(self, *hooks: Hook) -> None:
        """Let `hooks` hear what comes from now on."""
        self._hooks += hooks

    def __call__(self, event: Event) -> None:
        """Tell every hook."""
        for hook in self._hooks:
            try:
                hook(event)
            except Exception:  # noqa: BLE001 - the hook edge, see above
                # The event's class only: its fields may be long, and the log has the traceback.
                _log.exception("hook %r failed on %s", hook, type(event).__name__)
