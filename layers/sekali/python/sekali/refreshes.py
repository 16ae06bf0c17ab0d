"""Refresh values at the end of the invocation, where the deadline allows.

A caller who finds a value due, and asked for it with `refresh="end"`, is served what is there. The
refresh waits here, once for each key, until the batch is done and its messages are settled; then it
runs if the time left holds twice what the last load took. No thread does any of it: a container
that is frozen right after its invocation has nothing half done.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from sekali.errors import LoadTimeout
from sekali.loading import Loading
from sekali.tracebacks import without_text

if TYPE_CHECKING:
    from sekali.calls import Call, Tiers
    from sekali.driving import Driver
    from sekali.flights import Flights

_log = logging.getLogger(__name__)

MOST_REFRESHES: Final = 100
KEPT_FREE_SECONDS: Final = 1.0
UNMEASURED_SECONDS: Final = 5.0
"""What a refresh is taken to last before one has run."""


class Refreshes:
    """The refreshes that one invocation postponed."""

    def __init__(self) -> None:
        """Start with none."""
        self._due: dict[str, Call] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._due)

    def add(self, call: Call) -> bool:
        """Take one in; False if there are too many already: refresh it now."""
        with self._lock:
            if len(self._due) >= MOST_REFRESHES:
                return False
            self._due.setdefault(call.scoped, call)
            return True

    def run(self, tiers: Tiers, driver: Driver, flights: Flights[Any]) -> None:
        """Run them in the order of their coming, while the time allows."""
        with self._lock:
            due, self._due = list(self._due.values()), {}
        longest = UNMEASURED_SECONDS
        for index, call in enumerate(due):
            if tiers.invocation.remaining_seconds() < 2 * longest + KEPT_FREE_SECONDS:
                _log.info("%d refreshes are left to later callers", len(due) - index)
                return
            began = tiers.invocation.now()
            with flights.loading(call.scoped):
                self._run_one(call, tiers, driver)
            took = tiers.invocation.now() - began
            longest = took if index == 0 else max(longest, took)

    def _run_one(self, call: Call, tiers: Tiers, driver: Driver) -> None:
        seen = tiers.local.look(call.scoped)
        alone = call._replace(refresh="now", on_timeout="raise", wait_seconds=0.0)
        passage = Loading(tiers, alone, due=False, postpone=lambda _: False)
        try:
            driver.drive(passage.refresh(seen.fence if seen else 0))
        except LoadTimeout:
            _log.debug("somebody else refreshes %s", call.key)
        except Exception as error:  # noqa: BLE001 - an edge: a refresh that nobody waits for
            # The value is still good; the next caller who finds it due tries again.
            _log.error(
                "refreshing %s at the end of the invocation failed:\n%s",
                call.key,
                without_text(error),
            )
