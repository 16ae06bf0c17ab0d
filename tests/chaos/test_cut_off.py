"""Timeouts, deaths and losses take nothing along that was finished or had not begun."""

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
        scenarios.timeout_in_record_seven,
        scenarios.timeout_without_a_thread,
        scenarios.out_of_time,
        scenarios.fatal_record,
        scenarios.death_at_the_table,
        scenarios.refusing_table,
        scenarios.forgetful_cache,
        scenarios.invalidated_load,
    )


def test_timeout_in_record_seven_loses_nothing_of_the_six_before(complaints: Complaints) -> None:
    assert complaints[scenarios.timeout_in_record_seven] == []


def test_timeout_where_no_thread_may_run_loses_a_quarter_of_a_second(
    complaints: Complaints,
) -> None:
    assert complaints[scenarios.timeout_without_a_thread] == []


def test_batch_with_too_much_work_goes_back_before_its_time_is_over(complaints: Complaints) -> None:
    assert complaints[scenarios.out_of_time] == []


def test_record_that_kills_its_container_is_quarantined_alone(complaints: Complaints) -> None:
    assert complaints[scenarios.fatal_record] == []


def test_death_at_the_durable_write_loses_nothing(complaints: Complaints) -> None:
    assert complaints[scenarios.death_at_the_table] == []


def test_message_stays_until_the_table_holds_its_outcome(complaints: Complaints) -> None:
    assert complaints[scenarios.refusing_table] == []


def test_cache_that_forgot_everything_repeats_nothing(complaints: Complaints) -> None:
    assert complaints[scenarios.forgetful_cache] == []


def test_value_that_was_invalidated_during_its_load_is_not_stored(complaints: Complaints) -> None:
    assert complaints[scenarios.invalidated_load] == []
