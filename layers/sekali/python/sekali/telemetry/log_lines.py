"""Write one line per record: with everything that a search needs, and nothing of a payload.

The line has the form of Powertools' Logger, of which it takes the level, the appended keys and the
stream. It is written by itself, because an empty line of the Logger takes as long as all telemetry
of a record does here, this line included (tests/benchmarks, "telemetry per record"). A formatter of
one's own does not see it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger

from sekali.keys import CACHE_NAME, LOCK_NAME
from sekali.telemetry import events
from sekali.telemetry.shown_keys import shown
from sekali.telemetry.trace_context import parse, trace_id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.telemetry.events import Event, LeaseContended, LeaseLeaked, RecordSettled
    from sekali.telemetry.shown_keys import Keys

MESSAGE: Final = "record settled"
LEAK_MESSAGE: Final = "lease leaked"
CONTENDED_MESSAGE: Final = "lease contended"
_NO_JOBS: Final = {CACHE_NAME: "cache", LOCK_NAME: "lock"}
SAMPLED_MESSAGE: Final = "record sampled"
_TIERS: Final = frozenset({"local", "shared"})
_OWN: Final = frozenset({"level", "location", "message", "timestamp", "service", "sampling_rate"})
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


class LogObserver:
    """Write the canonical line of each record; one for each lease that leaked or is waited for."""

    def __init__(
        self, service: str, *, keys: Keys = "key", wall: Callable[[], float] = time.time
    ) -> None:
        """Name the service.

        Args:
            service: field of each line.
            keys: how a key is shown.
            wall: unix seconds.
        """
        self._lines = Lines(service, wall=wall)
        self._keys = keys

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, events.RecordSettled):
            self._lines.write(MESSAGE, canonical(event, self._keys))
        elif isinstance(event, events.LeaseLeaked):
            self._lines.write(LEAK_MESSAGE, leaked(event, self._keys))
        elif isinstance(event, events.LeaseContended) and not event.record:
            self._lines.write(CONTENDED_MESSAGE, contended(event, self._keys))


def canonical(event: RecordSettled, keys: Keys) -> dict[str, object]:
    """Return the fields of a record's line; times are milliseconds."""
    claim, load, wait, store, finish = event.took
    # Rules that rank failing keys count the lines that have the field.
    failed = {"failure": event.failure} if event.failure else {}
    return {
        "job": event.name,
        "id": event.id,
        "key": shown(event.key, keys),
        "outcome": event.outcome,
        "reason": event.reason,
        "source": event.source,
        "tier": event.source if event.source in _TIERS else "",
        "attempt": event.attempt,
        "fence": event.fence,
        "deferrals": event.deferrals,
        "receives": event.receives,
        "trace_id": trace_id_of(event.trace),
        "queue_ms": round(event.queue_seconds * 1000, 3),
        "claim_ms": round(claim * 1000, 3),
        "run_ms": round(event.run_seconds * 1000, 3),
        "load_ms": round(load * 1000, 3),
        "wait_ms": round(wait * 1000, 3),
        "store_ms": round(store * 1000, 3),
        "finish_ms": round(finish * 1000, 3),
        "latency_ms": round(event.latency_seconds * 1000, 3),
        **failed,
    }


def leaked(event: LeaseLeaked, keys: Keys) -> dict[str, object]:
    """Return the fields of the line of a lease that was found overdue, or held for too long."""
    return {
        "job": _NO_JOBS.get(event.name, event.name),
        "key": shown(event.key, keys),
        "owner": event.owner,
        "state": event.state,
        "age_s": round(event.age_seconds, 3),
    }


def contended(event: LeaseContended, keys: Keys) -> dict[str, object]:
    """Return the fields of the line of a load or a lock that found its key held."""
    return {
        "job": _NO_JOBS.get(event.name, event.name),
        "key": shown(event.key, keys),
        "reason": "busy",
        "owner": event.owner,
    }


class Lines:
    """Write lines of JSON where Powertools' Logger of the service writes its own."""

    def __init__(self, service: str, *, wall: Callable[[], float] = time.time) -> None:
        """Name the service; `wall` dates the lines."""
        # Any: it hands every other call on to the standard logger, untyped.
        self._logger: Any = Logger(service=service)
        self._service = service
        self._wall = wall

    def write(self, message: str, fields: Mapping[str, object]) -> None:
        """Write one line of level INFO, if the Logger writes such lines."""
        if not self._logger.isEnabledFor(logging.INFO):
            return
        now = self._wall()
        whole, fraction = divmod(now, 1)
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(whole))
        line: dict[str, object] = {
            "level": "INFO",
            "location": f"sekali:{message}",
            "message": message,
            "timestamp": f"{moment},{int(fraction * 1000):03d}+0000",
            "service": self._service,
        }
        line.update(self._appended())
        line.update(fields)
        handler: Any = self._logger.registered_handler  # Any: whatever the user handed over
        text = _encode(line) + "\n"
        stream = getattr(handler, "stream", sys.stdout)
        handler.acquire()
        try:
            stream.write(text)
            stream.flush()
        finally:
            handler.release()

    def _appended(self) -> dict[str, object]:
        """Return what the function appended to its Logger, as a request id."""
        keys = self._logger.get_current_keys()
        return {name: value for name, value in keys.items() if name not in _OWN}


class TraceIdFilter(logging.Filter):
    """Put the trace id on every line that passes a handler, whoever wrote it.

    It is that of the record for which the line was written, else that of the invocation.
    """

    def __init__(self, own: Callable[[], str | None]) -> None:
        """Take what tells the header of the running invocation."""
        super().__init__()
        self._own = own

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every line pass."""
        if not hasattr(record, "trace_id"):
            from sekali.telemetry.spans import RECORD

            about = RECORD.get()
            trace_id = trace_id_of(about.trace if about is not None else self._own())
            if trace_id is not None:
                record.trace_id = trace_id
        return True


def mark_lines(service: str, own: Callable[[], str | None]) -> None:
    """Let every line have its trace id: those of the function's Logger, and of Lambda's handler."""
    logger: Any = Logger(service=service)  # Any: as above
    for handler in (*logging.getLogger().handlers, logger.registered_handler):
        if not any(isinstance(one, TraceIdFilter) for one in handler.filters):
            handler.addFilter(TraceIdFilter(own))


def lambda_trace() -> str | None:
    """Return the header of the running invocation, as Lambda's runtime keeps it."""
    return os.environ.get("_X_AMZN_TRACE_ID")


def is_sampled(trace: str | None, rate: float) -> bool:
    """Tell whether the steps of a trace are logged: for one trace everywhere the same.

    The share is taken of the last digits of the trace id, which are random in both forms.
    """
    context = parse(trace)
    if context is None or rate <= 0:
        return False
    return int(context.trace_id[-8:], 16) < rate * 2**32
