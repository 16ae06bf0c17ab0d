"""Choose who is told every event, where a worker names nobody."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sekali.telemetry.log_lines import LogObserver
from sekali.telemetry.powertools import MetricsObserver

if TYPE_CHECKING:
    from sekali.telemetry.events import Hook


def observers(service: str) -> list[Hook]:
    """Return the default hooks: metrics, one log line per record, subsegments where traced."""
    chosen: list[Hook] = [MetricsObserver(service), LogObserver(service)]
    if _is_traced():
        from sekali.telemetry.xray import TraceObserver

        chosen.append(TraceObserver())
    return chosen


def _is_traced() -> bool:
    """Tell whether this function is traced; the X-Ray SDK takes 400 ms to import."""
    off = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in {"1", "true", "yes", "on"}
    return not off and "LAMBDA_TASK_ROOT" in os.environ
