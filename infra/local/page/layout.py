"""What the page draws, as the template's dashboards say it; it does not change while a stack runs.

Known are metric widgets (lines, stacked areas, numbers, rankings), texts and alarm states. A widget
of another kind is shown with its title and the words that it is not drawn here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from infra.local.cloudwatch.definitions import CompositeAlarm, MetricAlarm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.local.cloudwatch.definitions import Alarm, Dashboard
    from infra.local.cloudwatch.pace import Pace

Json = dict[str, Any]  # What goes to the browser.

_HEADING: Final = re.compile(r"\s*#{1,3}\s+(.+)")
_SIGNS: Final[Mapping[str, str]] = {
    "GreaterThanOrEqualToThreshold": "≥",
    "GreaterThanThreshold": ">",
    "LessThanOrEqualToThreshold": "≤",
    "LessThanThreshold": "<",
}


def layout(dashboards: Sequence[Dashboard], alarms: Sequence[Alarm], pace: Pace) -> Json:
    """Answer everything that stays: dashboards, their widgets, and what each alarm watches."""
    return {
        "minuteSeconds": pace.minute_seconds,
        "dashboards": [
            {"name": dashboard.name, "widgets": widgets(dashboard)} for dashboard in dashboards
        ],
        "alarms": [_alarm(alarm) for alarm in alarms],
    }


def widgets(dashboard: Dashboard) -> list[Json]:
    """Answer a dashboard's widgets from top left to bottom right."""
    placed = sorted(
        enumerate(dashboard.widgets), key=lambda entry: (entry[1].get("y", 0), entry[1].get("x", 0))
    )
    return [_widget(f"w{number}", widget) for number, widget in placed]


def _widget(name: str, widget: Json) -> Json:
    properties = widget.get("properties", {})
    drawn: Json = {
        "id": name,
        "kind": _kind(widget),
        "title": properties.get("title", ""),
        "width": widget.get("width", 6),
        "height": widget.get("height", 6),
    }
    match drawn["kind"]:
        case "text":
            title, _, text = properties.get("markdown", "").partition("\n")
            found = _HEADING.match(title)
            drawn |= {"title": found[1] if found else "", "text": text if found else title + text}
        case "alarms":
            drawn["alarms"] = [arn.rpartition(":")[2] for arn in properties.get("alarms", [])]
        case "graph":
            axes = properties.get("yAxis", {})
            drawn |= {
                "stacked": bool(properties.get("stacked", False)),
                "axes": {side: axes.get(side, {}) for side in ("left", "right")},
                "limits": [
                    {"value": line["value"], "label": line.get("label", "")}
                    for line in properties.get("annotations", {}).get("horizontal", [])
                ],
            }
    return drawn


def _kind(widget: Json) -> str:
    if widget["type"] == "text":
        return "text"
    if widget["type"] == "alarm":
        return "alarms"
    properties = widget.get("properties", {})
    if widget["type"] == "metric" and "insightRule" in properties:
        return "ranking"
    if widget["type"] == "metric":
        return "number" if properties.get("view") == "singleValue" else "graph"
    return "unknown"


def _alarm(alarm: Alarm) -> Json:
    rule = "any of its symptoms" if isinstance(alarm, CompositeAlarm) else _rule(alarm)
    meaning, first, runbook = _parts(alarm.description)
    return {
        "name": alarm.name,
        "composite": isinstance(alarm, CompositeAlarm),
        "meaning": meaning,
        "first": first,
        "runbook": runbook,
        "rule": rule,
        "threshold": alarm.threshold if isinstance(alarm, MetricAlarm) else None,
    }


def _rule(alarm: MetricAlarm) -> str:
    minutes = alarm.period // 60
    each = "a minute" if minutes == 1 else f"{minutes} minutes"
    often = f"{alarm.to_alarm} of {alarm.periods}" if alarm.periods > 1 else "1"
    return f"{_SIGNS[alarm.comparison]} {alarm.threshold:g} in {often} data points of {each}"


def _parts(description: str) -> tuple[str, str, str]:
    """Split what an alarm says: what it means, what to do first, and its runbook."""
    rest, _, runbook = description.partition(" Runbook: ")
    meaning, _, first = rest.partition(" First: ")
    return meaning, first, runbook
