"""The worker's tests have teeth: each mutant of it is caught by the test that is for it."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker_world.mutants import MUTANTS, PAGE, page
from tests.worker_world.mutation import cases
from tests.worker_world.queue import FIFO
from tests.worker_world.world import World

if TYPE_CHECKING:
    from redis import Redis

    from tests.worker_world.mutation import Mutant

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def run_test_of(mutant: Mutant, valkey: Redis) -> None:
    """Run the test that is for this mutant, on a world of its own."""
    name, _, case = mutant.test.rstrip("]").partition("[")
    module = importlib.import_module(f"tests.valkey.{mutant.file}")
    test = getattr(module, f"test_{name}")
    wanted = inspect.signature(test).parameters
    prepared = getattr(module, "prepared_world", World)
    world = World(valkey, **FIFO) if "fifo" in wanted else prepared(valkey)
    arguments: dict[str, Any] = {"world": world, "fifo": world, **cases(test)[case]}
    test(**{key: value for key, value in arguments.items() if key in wanted})


@pytest.mark.parametrize("name", BY_NAME)
def test_mutant_is_caught_by_the_test_that_is_for_it(
    valkey: Redis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutant = BY_NAME[name]
    run_test_of(mutant, valkey)
    mutant.apply(monkeypatch)

    # A test may also fail by not finding what it looks at.
    with pytest.raises((AssertionError, LookupError, ValueError, pytest.fail.Exception)):
        run_test_of(mutant, valkey)


def test_the_page_of_mutants_is_what_the_program_writes() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page() == text, "run `python -m tests.worker_world.mutants`"
