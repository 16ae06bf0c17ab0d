"""docs/design/traps.md: each trap names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "traps.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([a-z_/]+\.py)::(test_[a-z0-9_]+)`")
# As many classes of fault as were collected.
TRAPS = 17 + 11


def rows() -> list[str]:
    return [
        line
        for line in PAGE.splitlines()
        if line.startswith("| ") and not line.startswith(("| seen in", "|---"))
    ]


def test_each_trap_names_a_test() -> None:
    assert len(rows()) == TRAPS
    assert [row for row in rows() if not NAMED.search(row)] == []


def test_each_test_that_is_named_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in NAMED.findall(PAGE)
        if not re.search(
            rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text(), flags=re.MULTILINE
        )
    ]

    assert missing == []
