"""Check that metrics are really there under the dimensions that alarms and dashboards ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sekali.cli.checks_functions import unknown
from sekali.cli.examining import METRICS_NAMESPACE, Finding, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.examining import Examined

_SHOWN: Final = 3


def dimensions(stack: Examined) -> Iterator[Finding]:
    """Check that the worker's metrics carry its service and the job's name."""
    found = stack.metrics
    if isinstance(found, Unread):
        yield unknown("metrics", found)
        return
    service = stack.variable("SEKALI_SERVICE")
    if not found:
        yield Finding(
            check="metrics",
            state="warning",
            found=f"there is no metric of the namespace {METRICS_NAMESPACE} yet",
            remedy="send a job; without any, look whether POWERTOOLS_METRICS_NAMESPACE or"
            " POWERTOOLS_METRICS_DISABLED is set",
        )
        return
    services = sorted({one["service"] for one in found if "service" in one})
    if service and service not in services:
        yield Finding(
            check="metrics",
            state="wrong",
            found=f"metrics carry the service {', '.join(services) or 'of nobody'}; alarms ask for"
            f" {service}",
            remedy="set SEKALI_SERVICE and POWERTOOLS_SERVICE_NAME to what the alarms ask for",
        )


def alarms(stack: Examined) -> Iterator[Finding]:
    """Check that each alarm's metric exists; one of dimensions that do not is silent for ever."""
    if stack.place.local:
        return
    found = stack.alarms
    if isinstance(found, Unread):
        yield unknown("alarms", found)
        return
    silent = []
    for alarm in found:
        for metric in _metrics_of(alarm):
            asked = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
            if asked not in stack.dimensions_of(metric["Namespace"], metric["MetricName"]):
                silent.append(f"{alarm['AlarmName']} ({metric['MetricName']} of {asked})")
    if silent:
        more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
        yield Finding(
            check="alarms",
            state="warning",
            found=f"alarms whose metric is not there: {'; '.join(silent[:_SHOWN])}{more}",
            remedy="right after a first deploy, wait for the first jobs; later, compare the"
            " dimensions with `aws cloudwatch list-metrics`",
        )


def _metrics_of(alarm: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:  # Any: as boto3 answers
    if "MetricName" in alarm:
        yield alarm
    for query in alarm.get("Metrics", []):
        if "MetricStat" in query:
            yield query["MetricStat"]["Metric"]
