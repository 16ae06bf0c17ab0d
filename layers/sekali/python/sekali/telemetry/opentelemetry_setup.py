"""Find the providers of OpenTelemetry, or make them from its own environment variables.

A provider that the process has set already (an ADOT layer, `opentelemetry-instrument`, a program's
own lines) is used as it is. Only where nobody has set one, the exporter named in
OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER is looked up among the installed ones; `otlp`, the
default, is OTLP over HTTP. Its address, headers and resource attributes are the exporter's and the
SDK's own variables.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from sekali.errors import SettingInvalid

try:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise SettingInvalid(
        "SEKALI_TRACING or SEKALI_METRICS",
        "can be opentelemetry only where sekali[opentelemetry] is installed",
        str(error.name),
    ) from error

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from sekali.settings import Settings

_OTLP: Final = {"otlp": "otlp_proto_http"}
_NONE: Final = "none"


def tracer_provider(settings: Settings) -> TracerProvider:
    """Return the provider of this process, made and set if there is none.

    Raises:
        SettingInvalid: the exporter that the environment names is not installed.
    """
    found = trace.get_tracer_provider()
    if not isinstance(found, trace.ProxyTracerProvider):
        return found
    made = SdkTracerProvider(resource=_resource(settings))
    exporter = _installed("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter")
    if exporter is not None:
        made.add_span_processor(BatchSpanProcessor(exporter()))
    trace.set_tracer_provider(made)
    return made


def meter_provider(settings: Settings) -> MeterProvider:
    """Return the provider of this process, made and set if there is none.

    Raises:
        SettingInvalid: the exporter that the environment names is not installed.
    """
    found = metrics.get_meter_provider()
    # The API has no public name for the stand-in that it returns where nothing was set.
    if not type(found).__module__.startswith("opentelemetry.metrics"):
        return found
    exporter = _installed("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter")
    readers = []
    if exporter is not None:
        made = exporter()
        # Prometheus' is a reader, which waits to be asked; the others are sent to.
        is_reader = isinstance(made, MetricReader)
        readers.append(made if is_reader else PeriodicExportingMetricReader(made))
    provider = SdkMeterProvider(metric_readers=readers, resource=_resource(settings))
    metrics.set_meter_provider(provider)
    return provider


def _resource(settings: Settings) -> Resource:
    service = settings.service or os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before.
    own = {"service.name": service} if service and "OTEL_SERVICE_NAME" not in os.environ else {}
    return Resource.create(own)


def _installed(variable: str, group: str) -> Any:  # Any: the class of an exporter or a reader
    name = os.environ.get(variable, "otlp").strip()
    if name == _NONE:
        return None
    found = list(entry_points(group=group, name=_OTLP.get(name, name)))
    if not found:
        raise SettingInvalid(variable, "must name an exporter that is installed, or none", name)
    return found[0].load()
