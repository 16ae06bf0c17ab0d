"""The contract suite notices when any comparison is taken out of any condition of the table."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from sekali import conditions
from sekali.testing import FrozenClock
from tests.contracts.store import StoreContract
from tests.contracts.store_backends import OnAws, in_process

if TYPE_CHECKING:
    from collections.abc import Iterator

MUTANTS = [
    (name, part)
    for name in ("OUTCOME", "CLAIM_NEW", "CLAIM_SEEN", "GIVE_BACK")
    for part in getattr(conditions, name).names()
]
# Words in the names of the promises that are likely to notice, to be tried first, and of those that
# take long and say nothing about conditions.
LIKELY = {"OUTCOME": "outcome", "CLAIM_NEW": "claim", "CLAIM_SEEN": "claim", "GIVE_BACK": "giv"}
SLOW = ("large", "many", "any_text")


@pytest.fixture(scope="module")
def aws() -> Iterator[OnAws]:
    with in_process() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "part"), MUTANTS, ids=[f"{name} without {part}" for name, part in MUTANTS]
)
def test_a_condition_without_one_of_its_parts_breaks_the_contract(
    aws: OnAws, monkeypatch: pytest.MonkeyPatch, condition: str, part: str
) -> None:
    whole: conditions.Condition = getattr(conditions, condition)
    monkeypatch.setattr(conditions, condition, whole.without(part))

    broken = first_broken_promise(aws, likely=LIKELY[condition])

    assert broken is not None
    # It is to be caught by what it does, not because DynamoDB cannot read it.
    assert "ValidationException" not in broken


@pytest.mark.slow
def test_the_whole_conditions_break_nothing(aws: OnAws) -> None:
    broken = first_broken_promise(aws)

    assert broken is None


def first_broken_promise(aws: OnAws, *, likely: str = "") -> str | None:
    """Return the name of the first test of the contract that fails, and how it failed."""
    promises = inspect.getmembers(StoreContract, inspect.isfunction)
    promises.sort(key=lambda promise: likely not in promise[0])
    promises.sort(key=lambda promise: any(word in promise[0] for word in SLOW))
    for name, promise in promises:
        if not name.startswith("test_"):
            continue
        for given in parameters(promise):
            backend, clock = aws.renew(), FrozenClock()
            offered = {"backend": backend, "clock": clock, "store": backend.open(clock), **given}
            wanted = inspect.signature(promise).parameters
            chosen = {key: value for key, value in offered.items() if key in wanted}
            try:
                promise(StoreContract(), **chosen)
            except Exception as error:  # noqa: BLE001 - a mutant may break in any way
                return f"{name}: {error}"
            except pytest.fail.Exception as error:
                return f"{name}: {error}"
    return None


def parameters(promise: Any) -> Iterator[dict[str, object]]:  # Any: a function with pytest's marks
    """Yield the arguments that `pytest.mark.parametrize` would give."""
    marks = [mark for mark in getattr(promise, "pytestmark", []) if mark.name == "parametrize"]
    for values in itertools.product(*(mark.args[1] for mark in marks)):
        yield dict(zip((mark.args[0] for mark in marks), values, strict=True))
