"""docs/settings.md and the code list the same variables, both ways."""

from __future__ import annotations

import re
from pathlib import Path

from sekali.settings import variables

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def quoted(rule: str) -> str:
    """Quote a pattern, which the site would take for a link."""
    return re.sub(r"^must match (\S+)$", r"must match `\1`", rule)


def expected_table() -> list[str]:
    rows = [
        f"| `{one.name}` | {quoted(one.rule)} | {one.default} | {one.meaning} |"
        for one in variables()
    ]
    return ["| variable | rule | default | meaning |", "|---|---|---|---|", *rows]


def test_the_table_of_the_page_is_the_table_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    start = page.index("| variable | rule | default | meaning |")
    end = next(index for index in range(start, len(page)) if not page[index].startswith("|"))

    assert "\n".join(page[start:end]) == "\n".join(expected_table())
