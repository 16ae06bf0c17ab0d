"""Each protection, taken out, is missed: the scenario that it is for complains, and about that.

All run side by side, because each of them mostly waits.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos import scenarios
from tests.chaos.asset.chaosjobs import mutants

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs" / "design" / "chaos-mutants.md"
SIDE_BY_SIDE = 3
# A queue hands messages out in an order of its own, in which a harm may stay without effect.
TRIES = 3

# Which scenario catches a mutant, and what its complaint is about.
CAUGHT: dict[str, tuple[Callable[[Stage], list[str]], str]] = {
    "claim-beside-a-holder": (scenarios.long_holder, "two holders|bodies of one key"),
    "copy-after-deletion": (scenarios.refused_copies, "the deferred job is lost"),
    "deferral-spends-receives": (scenarios.long_holder, "dead letters"),
    "fence-without-the-clock": (scenarios.forgetful_cache, "fences fell"),
    "finish-before-the-table": (scenarios.death_at_the_table, "the job has no row"),
    "finish-ignores-the-tombstone": (scenarios.invalidated_load, "versions"),
    "finish-without-the-fence": (scenarios.stale_holder_of_a_key, "key record changed"),
    "heartbeat-renews-after-thaw": (scenarios.stale_holder_of_an_id, "an old lease was renewed"),
    "loads-wait-for-ever": (scenarios.crossing_loads, "waiting|a load took|no bound was counted"),
    "no-finality-in-the-table": (scenarios.stale_holder_of_an_id, "the row changed"),
    "no-flush-beside": (scenarios.timeout_in_record_seven, "bodies of records 1 to 6"),
    "no-flush-between": (scenarios.timeout_without_a_thread, "bodies of records 1 to 6"),
    "no-sense-of-time": (scenarios.out_of_time, "how invocations ended"),
    "no-take-back": (scenarios.fatal_record, "is told attempt"),
    "nobody-asks-the-table": (scenarios.forgetful_cache, "bodies"),
    "suspects-beside-others": (scenarios.fatal_record, "neighbour"),
    "unanswered-is-recorded": (scenarios.refusing_table, "has no row"),
    "write-without-condition": (scenarios.stale_writer, "was counted"),
}


def test_suite_catches_every_mutant(stage: Stage) -> None:
    def uncaught(mutant: str) -> str | None:
        scenario, about = CAUGHT[mutant]
        complaints: list[str] = []
        for _ in range(TRIES):
            complaints = scenario(stage.with_mutant(mutant))
            if any(re.search(about, complaint) for complaint in complaints):
                return None
        return f"{mutant}: {complaints}"

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        missed = [text for text in pool.map(uncaught, CAUGHT) if text is not None]

    assert missed == []


def test_every_mutant_has_its_scenario_and_its_line_in_the_docs() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), flags=re.MULTILINE)

    assert mutants.names() == sorted(CAUGHT)
    assert mutants.names() == sorted(listed)
