"""The pages hold together: links lead somewhere, the map is whole, a word is defined once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#)([^)#]+)")
WORD_ROW = re.compile(r"^\| ([a-zA-Z, ]+) \| [A-Z]")


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_on_the_map() -> None:
    linked = set(LINK.findall(text_of("README.md")))

    assert {page.name for page in PAGES} - {"README.md"} <= linked


def test_every_word_is_defined_once() -> None:
    after = text_of("README.md").partition("## Words")[2]
    rows = [found[1] for line in after.splitlines() if (found := WORD_ROW.match(line))]
    words = Counter(word for row in rows for word in row.split(", "))

    assert [word for word, times in words.items() if times > 1] == []
    assert {"hit", "miss", "stale", "load", "loader", "lease", "owner", "fence"} <= set(words)
    assert {"claim", "finish", "tombstone", "record", "batch"} <= set(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_sober(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)

    assert "!" not in prose.replace("![", "")
    assert re.search(r"\bsimply\b", prose) is None
    assert re.search("[\U0001f300-\U0001faff]", prose) is None
