"""Random histories of the durable record agree with a plain model and keep its rules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sekali import conditions
from tests.contracts.store_backends import OnAws, in_process
from tests.contracts.store_histories import History

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = (1, 2, 3, 4)
STEPS = 250

# The states in which each call must have been accepted, and those in which it must have been
# refused, at least once.
ACCEPTED = {
    "claim": {"absent", "expired", "pending", "running", "failed"},
    "done": {"absent", "expired", "pending", "running", "failed", "done"},
    "failed": {"absent", "expired", "pending", "running", "failed"},
    "give back": {"running", "pending"},
}
REJECTED = {
    "claim": {"pending", "running", "done", "failed"},
    "done": {"pending", "running", "done", "failed"},
    "failed": {"pending", "running", "done", "failed"},
    "give back": {"absent", "expired", "pending", "running", "done", "failed"},
}


@pytest.fixture(scope="module")
def aws() -> Iterator[OnAws]:
    with in_process() as server:
        yield server


@pytest.mark.slow
def test_the_table_agrees_with_the_model_and_keeps_the_rules(aws: OnAws) -> None:
    met = run_all(aws)

    print_table(met)
    for answer, wanted in (("Accepted", ACCEPTED), ("Rejected", REJECTED)):
        for verb, states in wanted.items():
            seen = {state for met_verb, state, told in met if (met_verb, told) == (verb, answer)}
            assert states <= seen, (verb, answer)


# What a directed test of the contract shows as well; here chance finds it.
@pytest.mark.slow
@pytest.mark.parametrize("part", ["payload", "not done", "not failed", "expired", "no item"])
def test_histories_notice_an_outcome_without_one_of_its_conditions(
    aws: OnAws, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(conditions, "OUTCOME", conditions.OUTCOME.without(part))

    with pytest.raises(AssertionError, match="the table gives"):
        run_all(aws)


def run_all(aws: OnAws) -> Counter[tuple[str, str, str]]:
    """Run a history from each seed; count each answer by call and state."""
    met: Counter[tuple[str, str, str]] = Counter()
    for seed in SEEDS:
        history = History(seed, aws.renew())
        history.run(STEPS)
        met += history.met
    return met


def print_table(met: Counter[tuple[str, str, str]]) -> None:
    """Show how often each answer met each state."""
    lines = [
        f"{verb:10} {state:8} {told:17} {count:5}"
        for (verb, state, told), count in sorted(met.items())
    ]
    print("\n" + "\n".join(lines))  # noqa: T201 - shown by `pytest -s`, and where a count is missing
