"""docs/deploy.md says what a stack costs that nobody uses: its template, times docs/prices.toml."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import GROUP, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
PRICES = tomllib.loads((ROOT / "docs" / "prices.toml").read_text(encoding="utf-8"))["idle"]
ALARM = "AWS::CloudWatch::Alarm"


def bill(stack: Synthesized, stage: str) -> dict[str, tuple[float, ...]]:
    """What each row of the page multiplies: how many there are, the price, and the hours."""
    hours = PRICES["hours"]
    zones = [
        len(one["SubnetIds"])
        for one in stack.of("AWS::EC2::VPCEndpoint").values()
        if one["VpcEndpointType"] == "Interface"
    ]
    watched = sum(
        "MetricStat" in query for one in stack.of(ALARM).values() for query in one["Metrics"]
    )
    return {
        "cache nodes": (
            stack.only(GROUP)["NumCacheClusters"],
            PRICES[f"cache_node_hour_{stage}"],
            hours,
        ),
        "SQS endpoint": (sum(zones), PRICES["endpoint_zone_hour"], hours),
        "metrics that alarms watch": (watched, PRICES["alarm_metric_month"]),
        "incidents": (
            len(stack.of("AWS::CloudWatch::CompositeAlarm")),
            PRICES["composite_alarm_month"],
        ),
        "dashboards": (len(stack.of("AWS::CloudWatch::Dashboard")), PRICES["dashboard_month"]),
        "rankings": (len(stack.of("AWS::CloudWatch::InsightRule")), PRICES["ranking_month"]),
        # Five pollers, each asks every 20 seconds.
        "million requests": (5 * 3 * 60 * hours / 1e6, PRICES["sqs_million_requests"]),
    }


@pytest.mark.parametrize(("stage", "column"), [("dev", 0), ("prod", 1)])
def test_an_idle_stack_costs_what_the_page_says(
    stage: str, column: int, variant: Callable[[str], Synthesized]
) -> None:
    table = PAGE[PAGE.index("| idle, per month |") :].split("\n\n")[0]
    rows = {
        cells[0].strip(): cells[1 + column].strip()
        for cells in (line.strip("|").split("|") for line in table.splitlines()[2:])
    }
    shown = {
        name: tuple(float(one) for one in re.split(" × ", text.partition(" = ")[0]))
        for name, text in rows.items()
        if "=" in text
    }
    expected = bill(variant(stage), stage)

    assert len(shown) == len(expected)
    for name, factors in expected.items():
        (found,) = [value for row, value in shown.items() if row.startswith(name)]
        assert found == pytest.approx(factors), name
    total = sum(round(_product(factors), 2) for factors in expected.values())
    assert rows["**together**"] == f"**{total:.2f}**"


def _product(factors: tuple[float, ...]) -> float:
    product = 1.0
    for factor in factors:
        product *= factor
    return product
