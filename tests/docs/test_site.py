"""The site holds together: each page is in its contents, links lead somewhere, all is its own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]  # It comes with MkDocs, without stubs.

import sekali
import sekali.errors
import sekali.testing
from tests.docs.clone import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

DOCS = ROOT / "docs"
CONTENTS: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
CONCEPTS = {"message", "worker", "jobs", "leases", "cache", "degraded", "guarantee"}
# What a browser loads by itself; a link that a reader follows is another matter.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?([^\s\">]+)|<link(?![^>]+rel=\"?canonical)[^>]+href=\"?([^\s\">]+)"
)


def named(entries: list[Any]) -> Iterator[str]:  # Any: a name, or a title with more
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from named(value) if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def timelines() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timelines", DOCS / "pictures" / "timelines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["timelines"] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_contents_once_and_every_entry_is_a_page() -> None:
    """A new page is named under `nav` in mkdocs.yml."""
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}

    assert sorted(named(CONTENTS["nav"])) == sorted(pages)


def test_pictures_are_those_that_the_program_draws(timelines: ModuleType) -> None:
    """After a change, `make pictures` draws them again."""
    drawn = {f"{one.name}.svg": timelines.draw(one) for one in timelines.PICTURES}

    written = {path.name: path.read_text() for path in (DOCS / "pictures").glob("*.svg")}

    assert written == drawn


def test_every_concept_has_a_picture_and_says_in_words_what_it_shows(timelines: ModuleType) -> None:
    said = {one.name: one.says for one in timelines.PICTURES}
    shown: set[str] = set()
    for concept in CONCEPTS:
        page = (DOCS / f"{concept}.md").read_text(encoding="utf-8")
        pictures = re.findall(r"!\[([^\]]+)\]\(pictures/(\w+)\.svg\)", page)

        assert pictures, concept
        assert [words for words, name in pictures if words != said[name]] == []
        shown |= {name for _, name in pictures}

    assert shown == set(said)


def test_no_bar_of_a_picture_is_too_short_for_its_words(timelines: ModuleType) -> None:
    narrow = [
        (one.name, bar.text)
        for one in timelines.PICTURES
        for bar in one.bars
        # A letter of this size is 6.5 wide on average.
        if len(bar.text) * 6.5 > timelines.place(bar.end) - timelines.place(bar.start)
    ]

    assert narrow == []


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    entries = set(re.findall(r"^::: sekali\.(\w+)$", text, flags=re.MULTILINE))
    members = re.search(r"members: \[([^\]]*DeadLetter[^\]]*)\]", text)

    # The page of the errors takes the module as a whole.
    errors = {name for name in sekali.__all__ if hasattr(sekali.errors, name)}
    assert set(sekali.__all__) - errors - {"__version__"} == entries - {"errors", "testing"}
    assert members is not None
    assert set(members[1].split(", ")) == set(sekali.testing.__all__)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "", "HOME": str(tmp_path), "NO_MKDOCS_2_WARNING": "true"},
        check=False,
        capture_output=True,
        text=True,
    )

    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")]
    foreign = {
        link
        for page in pages
        for found in LOADED.finditer(page)
        if (link := found[1] or found[2]).startswith(("http", "//"))
    }
    assert foreign == set()
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    worker = (tmp_path / "reference" / "worker.html").read_text(encoding="utf-8")
    assert "Register the decorated function as the job" in worker
    assert "bodies of one batch that may run at once" in worker
    assert "remaining_seconds" in worker
