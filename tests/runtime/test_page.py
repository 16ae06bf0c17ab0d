"""The live page's answers: what stays, what changes, and who is refused."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.definitions import composite_alarm, dashboard, metric_alarm
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.pace import Pace
from infra.local.faults import Strike
from infra.local.page.layout import layout
from infra.local.page.server import Page
from infra.local.template import InsightRule, Monitoring
from infra.local.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

HITS = metric("Sekali", "Hits", {"service": "s"})
ROW = ["Sekali", "Hits", "service", "s", {"stat": "Sum", "period": 60}]
WIDGETS = [
    {"type": "text", "y": 0, "properties": {"markdown": "## Health\nWhat rings."}},
    {"type": "alarm", "y": 1, "properties": {"alarms": ["arn:aws:cloudwatch:r:1:alarm:low"]}},
    {
        "type": "metric",
        "y": 2,
        "width": 12,
        "properties": {
            "title": "Hits",
            "metrics": [[*ROW[:-1], {"id": "hits", "stat": "Sum", "period": 60, "label": "hits"}]],
            "annotations": {"horizontal": [{"value": 5, "label": "rings"}]},
            "yAxis": {"left": {"label": "a minute", "min": 0}},
        },
    },
    {
        "type": "metric",
        "y": 3,
        "properties": {
            "view": "singleValue",
            "setPeriodToTimeRange": True,
            "metrics": [ROW],
            "title": "Sum",
        },
    },
    {"type": "metric", "y": 4, "properties": {"insightRule": {"ruleName": "contended"}}},
    {"type": "explorer", "y": 5, "properties": {}},
]
ALARM = {
    "AlarmName": "low",
    "AlarmDescription": "Too few hits. First: look. Runbook: docs/operations/stampede.md",
    "ComparisonOperator": "LessThanThreshold",
    "Dimensions": [{"Name": "service", "Value": "s"}],
    "EvaluationPeriods": 3,
    "DatapointsToAlarm": 2,
    "MetricName": "Hits",
    "Namespace": "Sekali",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 5,
}
RANKING = {
    "LogGroupNames": ["/w"],
    "Contribution": {"Keys": ["$.job", "$.key"], "Filters": []},
    "AggregateOn": "Count",
}


class Stack:
    """What the page needs of a stack, without any process."""

    def __init__(self) -> None:
        body = json.dumps({"widgets": WIDGETS})
        monitoring = Monitoring(
            alarms=(
                metric_alarm("Low", arn="arn:low", properties=ALARM),
                composite_alarm(
                    "All",
                    arn="arn:all",
                    properties={"AlarmName": "all", "AlarmRule": 'ALARM("low")'},
                ),
            ),
            dashboards=(dashboard("Board", {"DashboardName": "board", "DashboardBody": body}),),
            rankings=(InsightRule(name="contended", body=RANKING),),
        )
        self.template: Any = type("Template", (), {"monitoring": monitoring})()
        self.watch = Watch(
            self.template, pace=Pace(minute_seconds=2), on_change=lambda _change: None
        )


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def page(stack: Stack) -> Iterator[Page]:
    strikes = [Strike(name="cut", began_at=1.0, ended_at=2.0)]
    served = Page(stack, strikes=lambda: strikes)  # type: ignore[arg-type]  # All that it reads.
    served.start()
    yield served
    served.close()


def get(page: Page, path: str, *, host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    where = page.url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(where, timeout=10)
    connection.request("GET", path, headers={"Host": host or where})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_template_decides_what_is_drawn(stack: Stack) -> None:
    monitoring = stack.template.monitoring

    found = layout(monitoring.dashboards, monitoring.alarms, stack.watch.pace)

    (board,) = found["dashboards"]
    text, states, graph, number, ranking, other = board["widgets"]
    assert (text["kind"], text["title"], text["text"]) == ("text", "Health", "What rings.")
    assert (states["kind"], states["alarms"]) == ("alarms", ["low"])
    assert (graph["kind"], graph["width"]) == ("graph", 12)
    assert graph["limits"] == [{"value": 5, "label": "rings"}]
    assert graph["axes"]["left"]["label"] == "a minute"
    assert [one["kind"] for one in (number, ranking, other)] == ["number", "ranking", "unknown"]
    low, whole = found["alarms"]
    assert (low["meaning"], low["first"]) == ("Too few hits.", "look.")
    assert low["runbook"] == "docs/operations/stampede.md"
    assert low["rule"] == "< 5 in 2 of 3 data points of a minute"
    assert whole["composite"]


def test_a_reading_holds_the_metrics_of_the_run(stack: Stack, page: Page) -> None:
    stack.watch.store.put_one(HITS, 3.0, at=time.time() - 3, unit="Count")
    (ranking,) = stack.watch.rankings
    line = {"job": "report", "key": "UA"}
    ranking.take(line, log_group="/w", at=stack.watch.now())
    stack.watch.alarms.step(stack.watch.now())

    status, _, body = get(page, "/api/read?dashboard=board&minutes=15")

    found = json.loads(body)
    graph, number, keys = (found["widgets"][name] for name in ("w2", "w3", "w4"))
    assert (status, len(found["times"])) == (200, 15)
    assert [one["label"] for one in graph] == ["hits"]
    assert [value for value in graph[0]["values"] if value is not None] == [3.0]
    assert number == [{"label": "Hits", "value": 3.0}]
    assert keys == {"keys": ["job", "key"], "rows": [{"keys": ["report", "UA"], "total": 1.0}]}
    assert {alarm["name"] for alarm in found["alarms"]} == {"all", "low"}
    assert found["strikes"] == [{"name": "cut", "from": 1.0, "to": 2.0}]


def test_the_page_may_load_nothing_from_elsewhere(page: Page) -> None:
    status, headers, body = get(page, "/")

    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert b"http://" not in body
    assert b"https://" not in body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/etc/passwd", 404),
        ("/../server.py", 404),
        ("/api/read?dashboard=other&minutes=15", 400),
        ("/api/read?dashboard=board&minutes=many", 400),
    ],
)
def test_what_is_not_there_is_refused(page: Page, path: str, status: int) -> None:
    assert get(page, path)[0] == status


def test_a_name_that_somebody_made_up_for_this_machine_is_refused(page: Page) -> None:
    assert get(page, "/api/layout", host="evil.example")[0] == 403
