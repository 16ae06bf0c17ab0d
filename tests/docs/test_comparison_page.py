"""docs/comparison.md and docs/decisions.md say what other pages and the code say."""

from __future__ import annotations

import re

from sekali.settings import Settings
from tests.docs.clone import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_prices_are_those_of_the_deploy_page() -> None:
    idle, million = re.findall(
        r"^\| \*\*together\*\* \| \*\*([0-9.]+)\*\*", page("deploy"), re.MULTILINE
    )

    assert f"{idle} USD a month, idle" in page("comparison")
    assert f"| {million} USD ([deploy]" in page("comparison")


def test_length_of_a_lease_is_that_of_the_settings() -> None:
    settings = Settings(cache_url="valkey://cache:6379", durable_mode="redis")

    seconds = f"{settings.lease_seconds:g}"
    assert f"taken over after {seconds} s at most" in page("comparison")
    assert f"Leases of {seconds} s" in page("decisions")
    assert f"blocks for {seconds} s at most" in page("lock-only")


def test_files_that_the_pages_name_are_there() -> None:
    named = {
        path
        for name in ("comparison", "decisions", "tutorial", "existing-project")
        for path in re.findall(r"`((?:tests|infra|docs|handlers)/[\w/.-]+)`", page(name))
    }

    assert named
    written_by_the_reader = {"handlers/parcels.py", "tests/handlers/test_parcels.py"}
    missing = {path for path in named if not (ROOT / path).exists()}
    assert missing <= written_by_the_reader
