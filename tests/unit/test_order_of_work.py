"""What a parallel run hands out together."""

from __future__ import annotations

from tests.order_of_work import scope_of


def test_tests_of_a_module_stay_together_whatever_their_class() -> None:
    module = "tests/unit/test_store.py"

    found = {scope_of(f"{module}{test}") for test in ("::test_one", "::TestStore::test_two[x::y]")}

    assert found == {module}


def test_scenarios_that_wait_are_handed_to_one_process() -> None:
    found = {
        scope_of("tests/chaos/test_waiting.py::test_one"),
        scope_of("tests/chaos/test_mutants.py::test_two"),
        scope_of("tests/alarms/test_every_alarm.py::test_three"),
    }

    assert len(found) == 1
