"""A short run with a fixed seed: every fault strikes, in every window, and nothing is broken."""

from __future__ import annotations

import pytest

from tests.chaos import faults
from tests.chaos.__main__ import table
from tests.chaos.faults import KINDS, WINDOWS
from tests.chaos.run import run

SECONDS = 40.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_every_fault_in_every_window_is_survived() -> None:
    report = run(seed=7, seconds=SECONDS, schedule=iter(faults.order(7)))

    print(table(report))
    assert dict(report.verdict.problems) == {}
    assert report.refused == []
    assert {kind for _, kind in report.counts} == set(KINDS)
    assert {window for window, _ in report.counts} == set(WINDOWS)
