"""Wait for what became of a job: the senders' view of the durable record.

The table is asked, not the cache: what it says is final. Jobs in mode `redis` leave nothing there,
and neither does a message that never became a job (malformed, quarantined, a mismatch): waiting for
one of those ends in ResultTimeout, and the dead letter queue knows why.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from sekali import codec
from sekali.errors import JobFailed, ResultTimeout, StoreUnavailable, ValueUnreadable

if TYPE_CHECKING:
    from sekali.clock import Clock
    from sekali.store import Store

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0
_GROWTH: Final = 1.5


class Wait:
    """One wait for one result: look, pause for as long as told, look again."""

    def __init__(
        self, store: Store, *, name: str, job_id: str, timeout_seconds: float, clock: Clock
    ) -> None:
        """Begin now."""
        self._store = store
        self._name = name
        self._job_id = job_id
        self._clock = clock
        self._began = clock.monotonic()
        self._until = self._began + timeout_seconds
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self.result: Any = None  # Any: whatever the job returned

    def look(self) -> float | None:
        """Look once. None: `result` is there; else the seconds to pause before the next look.

        Raises:
            JobFailed: the job failed for good.
            ResultTimeout: the time is over.
            StoreUnavailable: the time is over, and the table could not be read at the end.
        """
        unavailable: StoreUnavailable | None = None
        try:
            if self._found():
                return None
        except StoreUnavailable as error:
            unavailable = error
        now = self._clock.monotonic()
        if now >= self._until:
            raise unavailable or ResultTimeout(self._name, self._job_id, now - self._began)
        pause_seconds = random.uniform(self._pause_seconds / 2, self._pause_seconds)
        self._pause_seconds = min(_LONGEST_PAUSE_SECONDS, self._pause_seconds * _GROWTH)
        return min(pause_seconds, self._until - now)

    def _found(self) -> bool:
        job = (self._name, self._job_id)
        row = self._store.get_many([job]).get(job)
        if row is None or row.status not in {"done", "failed"}:
            return False
        if row.status == "failed":
            raise self._failure(row.error)
        self.result = codec.decode(row.result)
        return True

    def _failure(self, error: bytes) -> JobFailed:
        try:
            described = codec.decode(error)
        except ValueUnreadable:
            described = None
        if not isinstance(described, dict):
            described = {}
        return JobFailed(
            self._name,
            self._job_id,
            str(described.get("reason", "failed")),
            described.get("type"),
            described.get("text"),
        )
