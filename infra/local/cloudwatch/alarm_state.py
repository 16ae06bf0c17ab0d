"""Decide an alarm's state from its data points, as CloudWatch does.

M of the last N data points have to breach the threshold. CloudWatch looks back further than N
periods (the *evaluation range*) and takes the last N points that exist; only if fewer than N exist
is the treatment of missing data asked, and then for as few points as possible.

CloudWatch does not publish how long the range is; its tables show two periods more than N, which
is what stands here.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

OK: Final = "OK"
ALARM: Final = "ALARM"
INSUFFICIENT_DATA: Final = "INSUFFICIENT_DATA"
State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Treatment = Literal["missing", "ignore", "breaching", "notBreaching"]

_EXTRA_PERIODS: Final = 2

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}


def evaluation_range(periods: int) -> int:
    """Answer how many periods are looked at for an alarm of N periods."""
    return periods + _EXTRA_PERIODS


def decide(
    points: Sequence[bool | None],
    *,
    periods: int,
    to_alarm: int,
    treatment: Treatment,
    state: State,
) -> State:
    """Decide the next state.

    Args:
        points: The evaluation range, oldest first: breaching, not breaching, or missing (None).
        periods: N.
        to_alarm: M.
        treatment: Of missing data.
        state: The present state, which `ignore` keeps.
    """
    real = [point for point in points if point is not None]
    if len(real) >= periods:
        return ALARM if sum(real[-periods:]) >= to_alarm else OK
    missing, breaching = periods - len(real), sum(real)
    if breaching >= to_alarm:
        return ALARM
    if treatment == "notBreaching":
        return OK
    if treatment == "breaching":
        return ALARM if breaching + missing >= to_alarm else OK
    if not real:
        return INSUFFICIENT_DATA if treatment == "missing" else state
    if breaching < len(real):
        return OK
    # All that exist breach, but they are fewer than M. Too young, they wait for the next point;
    # once the oldest is M periods old, nothing that comes could have saved it.
    age = len(points) - points.index(True)
    if age < to_alarm or treatment == "ignore":
        return state
    return ALARM
