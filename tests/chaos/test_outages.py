"""The cache goes away for a while, or slows down: jobs go on by their policy, none is cut off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos import outages

PAGE = Path(__file__).parents[2] / "docs" / "degraded.md"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_outage_loses_nothing_and_no_invocation_outlives_its_timeout() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(outages.measure, outages.outages(scale=0.25)))

    assert [one.lost for one in found] == [0, 0, 0]
    assert [one.past_timeout for one in found] == [0, 0, 0]
    assert all(one.noticed_seconds < 10.0 for one in found)


def test_page_holds_a_measurement_of_every_outage() -> None:
    text = PAGE.read_text()

    for outage in outages.outages():
        for policy in outages.POLICIES:
            assert f"| {outage.name} | {policy} | during |" in text
