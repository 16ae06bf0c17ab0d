"""How missing data decide an alarm's state: the tables of CloudWatch's own documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from infra.local.cloudwatch.alarm_state import (
    ALARM,
    INSUFFICIENT_DATA,
    OK,
    State,
    Treatment,
    decide,
    evaluation_range,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = "KEPT"
TREATMENTS: tuple[Treatment, ...] = ("missing", "ignore", "breaching", "notBreaching")
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html:
# 0 does not breach, X does, - is missing; oldest first, evaluation range 5, N = 3.
ALL_THREE = {
    "0-X-X": (OK, OK, OK, OK),
    "----0": (OK, OK, OK, OK),
    "-----": (INSUFFICIENT_DATA, KEPT, ALARM, OK),
    "0XX-X": (ALARM, ALARM, ALARM, ALARM),
    "--X--": (ALARM, KEPT, ALARM, OK),
}
TWO_OF_THREE = {
    "0-X-X": (ALARM, ALARM, ALARM, ALARM),
    "00X0X": (ALARM, ALARM, ALARM, ALARM),
    "0-X--": (OK, OK, ALARM, OK),
    "----0": (OK, OK, ALARM, OK),
    "---X-": (ALARM, KEPT, ALARM, OK),
}
# The same page, "premature transitions": too young a breach waits for the next data point.
PREMATURE = {"----X": (KEPT, KEPT, ALARM, OK), "---X-": (KEPT, KEPT, ALARM, OK)}


def points(row: str) -> list[bool | None]:
    return [{"0": False, "X": True, "-": None}[sign] for sign in row]


@pytest.mark.parametrize("state", get_args(State))
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    ("to_alarm", "row", "expected"),
    [
        *((3, row, expected) for row, expected in ALL_THREE.items()),
        *((2, row, expected) for row, expected in TWO_OF_THREE.items()),
        *((3, row, expected) for row, expected in PREMATURE.items()),
    ],
)
def test_missing_data_decide_as_the_tables_of_cloudwatch_say(
    to_alarm: int, row: str, expected: Sequence[str], place: int, state: State
) -> None:
    decided = decide(
        points(row), periods=3, to_alarm=to_alarm, treatment=TREATMENTS[place], state=state
    )

    assert decided == (state if expected[place] == KEPT else expected[place])


def test_one_breach_of_one_rings_at_once_and_older_ones_are_forgotten() -> None:
    def decided(row: str) -> State:
        return decide(points(row), periods=1, to_alarm=1, treatment="notBreaching", state=OK)

    assert [decided("0X"), decided("X0"), decided("X-")] == [ALARM, OK, ALARM]


def test_an_alarm_looks_back_two_periods_more_than_it_counts() -> None:
    assert (evaluation_range(1), evaluation_range(3)) == (3, 5)
