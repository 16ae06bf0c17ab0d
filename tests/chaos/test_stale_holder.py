"""Whoever was stopped for longer than its lease changes nothing of what was done since."""

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
        scenarios.stale_holder_of_an_id,
        scenarios.stale_holder_of_a_key,
        scenarios.stale_writer,
    )


def test_stale_holder_answers_with_the_result_of_the_winner(complaints: Complaints) -> None:
    assert complaints[scenarios.stale_holder_of_an_id] == []


def test_stale_holder_does_not_replace_a_newer_value(complaints: Complaints) -> None:
    assert complaints[scenarios.stale_holder_of_a_key] == []


def test_table_refuses_a_stale_holder_of_a_lock(complaints: Complaints) -> None:
    assert complaints[scenarios.stale_writer] == []
