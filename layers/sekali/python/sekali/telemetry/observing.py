"""Choose who is told every event, where a worker names nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.telemetry.log_lines import LogObserver, lambda_trace, mark_lines

if TYPE_CHECKING:
    from sekali.settings import Settings
    from sekali.telemetry.events import Hook


def observers(settings: Settings, service: str) -> list[Hook]:
    """Return the default hooks: metrics by setting, and one log line per record.

    Raises:
        SettingInvalid: OpenTelemetry was chosen and cannot be.
    """
    name = settings.service or service
    hooks: list[Hook] = [LogObserver(name, keys=settings.log_keys)]
    mark_lines(name, lambda_trace)
    if settings.metrics == "cloudwatch":
        from sekali.telemetry.powertools import MetricsObserver

        hooks.append(MetricsObserver(name))
    elif settings.metrics == "opentelemetry":
        from sekali.telemetry.opentelemetry_metrics import OpenTelemetryMetrics
        from sekali.telemetry.opentelemetry_setup import meter_provider

        hooks.append(OpenTelemetryMetrics(meter_provider(settings)))
    hooks += _flushes(settings)
    return hooks


def _flushes(settings: Settings) -> list[Hook]:
    """Return who exports at the end, after everybody else was told of it."""
    if "opentelemetry" not in {settings.tracing, settings.metrics}:
        return []
    from sekali.telemetry.opentelemetry_metrics import OpenTelemetryFlush
    from sekali.telemetry.opentelemetry_setup import meter_provider, tracer_provider

    providers: list[object] = []
    if settings.tracing == "opentelemetry":
        providers.append(tracer_provider(settings))
    if settings.metrics == "opentelemetry":
        providers.append(meter_provider(settings))
    return [OpenTelemetryFlush(*providers)]
