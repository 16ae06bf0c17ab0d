"""Widgets of one look: a grid of 24 columns, axes from zero, a unit on each."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch

Row = list[cloudwatch.IWidget]
Segment = list[Row]
"""Some rows of a dashboard that belong together."""

WIDTH: Final = 24
THIRD: Final = 8
HALF: Final = 12
HEIGHT: Final = 6
SMALL: Final = 4


def heading(title: str, text: str = "") -> Row:
    """Return a line across the dashboard; `text` is what to look for below it."""
    markdown = f"## {title}\n{text}" if text else f"## {title}"
    return [cloudwatch.TextWidget(markdown=markdown, width=WIDTH, height=2)]


def graph(
    title: str,
    left: Sequence[cloudwatch.IMetric],
    *,
    unit: str,
    width: int = THIRD,
    right: Sequence[cloudwatch.IMetric] = (),
    right_unit: str = "",
    stacked: bool = False,
    most: float | None = None,
    limit: float | None = None,
    limit_label: str = "rings",
) -> cloudwatch.GraphWidget:
    """Draw series over time; `limit` is a line, such as where an alarm rings."""
    line = cloudwatch.HorizontalAnnotation(value=limit, label=limit_label) if limit else None
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        left_y_axis=cloudwatch.YAxisProps(label=unit, min=0, max=most, show_units=False),
        left_annotations=[line] if line else None,
        right=list(right) or None,
        right_y_axis=cloudwatch.YAxisProps(label=right_unit, min=0, show_units=False)
        if right
        else None,
        stacked=stacked,
        width=width,
        height=HEIGHT,
    )


def number(
    title: str, metrics: Sequence[cloudwatch.IMetric], *, width: int = THIRD
) -> cloudwatch.SingleValueWidget:
    """Show sums over the time range of the dashboard."""
    return cloudwatch.SingleValueWidget(
        title=title,
        metrics=list(metrics),
        set_period_to_time_range=True,
        width=width,
        height=SMALL,
    )
