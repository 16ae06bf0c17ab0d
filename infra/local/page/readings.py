"""What the page draws at one moment, read from a running stack's CloudWatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from infra.local.cloudwatch.definitions import widget_queries
from infra.local.cloudwatch.pace import MINUTE
from infra.local.cloudwatch.queries import Evaluation, Window
from infra.local.page.layout import Json, widgets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from infra.local.cloudwatch.definitions import Dashboard
    from infra.local.cloudwatch.queries import Query
    from infra.local.cloudwatch.timeseries import TimeSeries
    from infra.local.faults import Strike
    from infra.local.watch import Watch

MOST_MINUTES: Final = 180
_MOST_RANKED: Final = 10
_MOST_CHANGES: Final = 30
# What a run comes to: a name, what people read, and the metrics that are added up.
_RUN: Final = (
    ("messages", "messages worked off", ("DeletedEventCount",)),
    ("completed", "jobs completed", ("JobsCompleted",)),
    ("computed", "computed", ("JobsComputed",)),
    ("answered", "answered without computing", ("JobsServed", "JobsDuplicate")),
    ("dead_letters", "dead letters", ("JobsDeadLettered",)),
)


class Readings:
    """Reads a watch for the page; each answer is JSON.

    Args:
        watch: The stack's CloudWatch.
        dashboards: As the template defines them.
        strikes: Answers the faults that were injected so far.
    """

    def __init__(
        self, watch: Watch, dashboards: Sequence[Dashboard], strikes: Callable[[], list[Strike]]
    ) -> None:
        self._watch = watch
        self._dashboards = {one.name: one for one in dashboards}
        self._strikes = strikes

    def read(self, dashboard: str, *, minutes: int) -> Json:
        """Answer the last `minutes` of CloudWatch's minutes, of one dashboard."""
        watch, pace = self._watch, self._watch.pace
        end = int(watch.now() // MINUTE) * MINUTE
        window = Window(start=end - minutes * MINUTE, end=end, period=MINUTE)
        return {
            "started": round(watch.started_at, 3),
            "times": [round(pace.unix(at + MINUTE), 3) for at in window.grid],
            "widgets": dict(self._widgets(self._dashboards[dashboard], window)),
            "alarms": self._alarms(),
            "changes": self._changes(),
            "strikes": [self._strike(one) for one in self._strikes()],
            "run": self._run(),
        }

    def _widgets(
        self, dashboard: Dashboard, window: Window
    ) -> Iterator[tuple[str, Json | list[Json]]]:
        raw = {f"w{number}": one for number, one in enumerate(dashboard.widgets)}
        for drawn in widgets(dashboard):
            properties = raw[drawn["id"]].get("properties", {})
            if drawn["kind"] == "graph":
                yield drawn["id"], self._lines(properties, window)
            elif drawn["kind"] == "number":
                yield drawn["id"], self._numbers(properties, window)
            elif drawn["kind"] == "ranking":
                yield drawn["id"], self._ranking(properties["insightRule"], window)

    def _lines(self, properties: Json, window: Window) -> list[Json]:
        queries = widget_queries(properties)
        sides = _sides(properties)
        return [
            {
                "label": series.label,
                "side": sides.get(query.id, "left"),
                "values": [_rounded(series.values.get(at)) for at in window.grid],
            }
            for query, series in self._evaluated(queries, window)
        ]

    def _numbers(self, properties: Json, window: Window) -> list[Json]:
        """Answer one number for each line: over the whole range, or the last one."""
        whole = properties.get("setPeriodToTimeRange", False)
        if whole:
            window = Window(start=window.start, end=window.end, period=window.end - window.start)
        found = []
        for _, series in self._evaluated(widget_queries(properties), window):
            last = max(series.values, default=None)
            value = None if last is None else _rounded(series.values[last])
            found.append({"label": series.label, "value": value})
        return found

    def _evaluated(
        self, queries: Sequence[Query], window: Window
    ) -> Iterator[tuple[Query, TimeSeries]]:
        evaluation = Evaluation(
            queries, store=self._watch.store, window=window, insight=self._watch.insight
        )
        for query in queries:
            if query.shown:
                for series in evaluation.series(query.id):
                    yield query, series

    def _ranking(self, rule: Json, window: Window) -> Json:
        for ranking in self._watch.rankings:
            if ranking.name == rule["ruleName"]:
                top = ranking.top(
                    rule.get("maxContributorCount", _MOST_RANKED),
                    start=window.start,
                    end=window.end + MINUTE,
                )
                return {
                    "keys": [key.removeprefix("$.") for key in ranking.keys],
                    "rows": [{"keys": list(one.keys), "total": one.total} for one in top],
                }
        return {"keys": [], "rows": []}

    def _alarms(self) -> list[Json]:
        pace = self._watch.pace
        return [
            {
                "name": status.alarm.name,
                "state": status.state,
                "since": None if status.since is None else round(pace.unix(status.since), 3),
                "points": [_rounded(point) for point in status.points],
                "suppressed": status.suppressed,
            }
            for status in self._watch.alarms.statuses()
        ]

    def _changes(self) -> list[Json]:
        pace = self._watch.pace
        return [
            {
                "alarm": change.alarm.name,
                "before": change.before,
                "after": change.after,
                "at": round(pace.unix(change.at), 3),
                "reason": change.reason,
            }
            for change in self._watch.alarms.changes()
            if change.before != "INSUFFICIENT_DATA" or change.after == "ALARM"
        ][-_MOST_CHANGES:]

    @staticmethod
    def _strike(strike: Strike) -> Json:
        return {"name": strike.name, "from": strike.began_at, "to": strike.ended_at}

    def _run(self) -> list[Json]:
        """Answer what the run came to so far, from its metrics."""
        total = self._watch.store.total
        return [
            {"name": name, "label": label, "value": _rounded(sum(map(total, metrics)))}
            for name, label, metrics in _RUN
        ]


def _sides(properties: Json) -> dict[str, str]:
    """Answer on which axis each line of a widget stands."""
    found = {}
    for number, row in enumerate(properties.get("metrics") or []):
        options = row[-1] if isinstance(row[-1], dict) else {}
        found[options.get("id") or f"row{number}"] = options.get("yAxis", "left")
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
