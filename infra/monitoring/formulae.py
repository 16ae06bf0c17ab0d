"""Metric math that is right when data are missing.

A metric of the library has no data point in a minute in which nothing was counted; FILL makes it
the 0 that it means. A quotient of nothing has no value: it is what the caller says it is, and
nowhere is divided by zero.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.monitoring.watched import MINUTE

Terms = Mapping[str, cloudwatch.IMetric]
"""Metrics by the names that they have in a formula; CloudWatch wants a small first letter."""

SECONDS_PER_MINUTE: Final = 60


def formula(expression: str, terms: Terms, label: str) -> cloudwatch.MathExpression:
    """Return an expression over `terms`."""
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=dict(terms), label=label, period=MINUTE
    )


def total(terms: Terms, label: str) -> cloudwatch.MathExpression:
    """Add counts up; one that is missing counts nothing."""
    return formula(_sum(list(terms)), terms, label)


def percent(
    terms: Terms,
    *,
    part: Sequence[str],
    whole: Sequence[str],
    label: str,
    least: int = 1,
    otherwise: int = 0,
) -> cloudwatch.MathExpression:
    """Return how much of `whole` is `part`, and `otherwise` below `least` of the whole.

    A ratio of few says nothing: one retry of one record is all of them.
    """
    base = _sum(whole)
    ratio = f"100 * ({_sum(part)}) / IF({base} > 0, {base}, 1)"
    used = {name: metric for name, metric in terms.items() if name in {*part, *whole}}
    return formula(f"IF({base} >= {least}, {ratio}, {otherwise})", used, label)


def largest(metrics: Sequence[cloudwatch.IMetric], label: str) -> cloudwatch.IMetric:
    """Return the largest of some metrics, such as the same one of each node."""
    terms = {f"n{number}": metric for number, metric in enumerate(metrics)}
    if len(terms) == 1:
        return metrics[0]
    return formula(f"MAX([{', '.join(terms)}])", terms, label)


def minutes_to_drain(
    waiting: cloudwatch.IMetric, done: cloudwatch.IMetric, *, most_minutes: int, label: str
) -> cloudwatch.MathExpression:
    """Return how long the backlog takes at the pace of this minute.

    `most_minutes` is after how long a message expires: what is not worked off at all is gone then.
    """
    backlog, pace = "FILL(waiting, 0)", "FILL(done, 0)"
    idle = f"IF({backlog} > 0, {most_minutes}, 0)"
    return formula(
        f"IF({pace} > 0, {backlog} / IF({pace} > 0, {pace}, 1), {idle})",
        {"waiting": waiting, "done": done},
        label,
    )


def _sum(names: Sequence[str]) -> str:
    return " + ".join(f"FILL({name}, 0)" for name in names)
