"""What is said to be measured is printed by a benchmark of that name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers" / "sekali" / "python" / "sekali"
NAMES = {
    name
    for file in (ROOT / "tests" / "benchmarks").glob("bench_*.py")
    for name in re.findall(r'^@benchmark\("([^"]+)"\)', file.read_text("utf-8"), re.MULTILINE)
}
CITED = re.compile(r'tests/benchmarks,\W+"([^"]+)"')


def test_every_table_of_the_page_is_a_benchmark_s_and_every_benchmark_has_one() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")

    sections = re.findall(r"^### (.+)$", page, re.MULTILINE)

    assert sorted(NAMES) == sorted(sections)


def test_every_benchmark_that_a_docstring_names_is_there() -> None:
    cited = {
        (file.name, " ".join(name.split()).replace("# ", ""))
        for file in LIBRARY.rglob("*.py")
        for name in CITED.findall(file.read_text("utf-8"))
    }

    assert len(cited) >= 10
    assert [(file, name) for file, name in sorted(cited) if name not in NAMES] == []
