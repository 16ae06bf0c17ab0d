"""Choose who draws traces, by setting; what was not chosen is not imported.

OpenTelemetry comes first where there are several: it gives a trace to records that have none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sekali.settings import Settings
    from sekali.telemetry.spans import Spans

SERVICE: Final = "POWERTOOLS_SERVICE_NAME"
TRACER_OFF: Final = "POWERTOOLS_TRACE_DISABLED"


def chosen_spans(settings: Settings) -> Spans | None:
    """Return who draws in this process; None where nobody does.

    X-Ray needs the daemon that Lambda runs, so that elsewhere it is off, as Powertools' Tracer is;
    its SDK is then not imported.

    Raises:
        SettingInvalid: OpenTelemetry was chosen and is not installed, or not what it should export
            with.
    """
    spans: list[Spans] = []
    if settings.tracing == "opentelemetry":
        from sekali.telemetry.opentelemetry_setup import tracer_provider
        from sekali.telemetry.opentelemetry_spans import OpenTelemetrySpans

        spans.append(OpenTelemetrySpans(tracer_provider(settings), keys=settings.log_keys))
    elif settings.tracing == "xray" and _on_lambda():
        from sekali.telemetry.xray import XRaySpans

        spans.append(XRaySpans(keys=settings.log_keys))
    if settings.log_sample_rate > 0:
        from sekali.telemetry.sampled_lines import SampledLines

        name = settings.service or os.environ.get(SERVICE, "service_undefined")
        rate = settings.log_sample_rate
        spans.append(SampledLines(name, rate=rate, keys=settings.log_keys))
    if len(spans) <= 1:
        return spans[0] if spans else None
    from sekali.telemetry.side_by_side import SideBySide

    return SideBySide(*spans)


def _on_lambda() -> bool:
    off = os.environ.get(TRACER_OFF, "").lower() in {"1", "true", "yes", "on"}
    return not off and "LAMBDA_TASK_ROOT" in os.environ
