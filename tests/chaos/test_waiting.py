"""Who has to wait arrives, and nobody waits for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos import scenarios
from tests.chaos.stage import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.stage import Stage

    Complaints = dict[Callable[[Stage], list[str]], list[str]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def complaints(stage: Stage) -> Complaints:
    """Run all scenarios of this module at once, because they mostly wait."""
    return side_by_side(
        stage,
        scenarios.twenty_second_holder,
        scenarios.refused_copies,
        scenarios.crossing_loads,
    )


def test_jobs_behind_a_long_holder_arrive_and_see_no_dead_letters(complaints: Complaints) -> None:
    assert complaints[scenarios.twenty_second_holder] == []


def test_deferred_job_outlives_a_queue_that_takes_no_copies(complaints: Complaints) -> None:
    assert complaints[scenarios.refused_copies] == []


def test_crossing_loads_end_at_their_bound_and_are_counted(complaints: Complaints) -> None:
    assert complaints[scenarios.crossing_loads] == []
