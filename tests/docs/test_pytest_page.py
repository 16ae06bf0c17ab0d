"""docs/pytest.md is a test file, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sekali.pytest_plugin as plugin
from sekali import testing

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_is_a_test_file_that_passes(pytester: pytest.Pytester) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    pytester.makepyfile(test_page="\n\n".join(snippets))
    library = str(ROOT / "layers" / "sekali" / "python")
    pytester.makeini(f"[pytest]\npythonpath = {library}\naddopts = -p no:valkey\n")
    pytester.makeconftest('pytest_plugins = ["sekali.pytest_plugin"]')

    done = pytester.runpytest_subprocess("-q")

    done.assert_outcomes(passed=4)


def fixtures() -> set[str]:
    return {name for name in vars(plugin) if name.startswith("sekali_")}


def test_every_fixture_is_in_the_table_and_nothing_else() -> None:
    rows = re.findall(r"^\| `(sekali_\w+)` \|", PAGE, flags=re.MULTILINE)

    assert sorted(rows) == sorted(fixtures())


def test_types_of_the_page_are_public() -> None:
    named = set(re.findall(r"`(Jobs|FrozenClock|MemoryQueue|MemoryStore|LambdaContext)", PAGE))

    assert len(named) == 5
    assert named <= set(testing.__all__)
