"""Run what the README shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sekali import warm
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

ROOT = Path(__file__).parents[2]
MADE = {"cdk.out", "build", "dist", "site", "node_modules"}
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_worker_of_the_readme_computes_each_report_once(kit: Kit) -> None:
    loads: list[str] = []

    def read_csv(month: str) -> list[str]:
        loads.append(month)
        return [month]

    names: dict[str, Any] = {
        "read_csv": read_csv,
        "summarise": lambda rows, carrier: [*rows, carrier],
    }
    (code,) = snippets("python")
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102  the README's own words
    asked = [("a", "UA"), ("b", "UA"), ("c", "AA")]
    records = [job(job_id, {"month": "2013-01", "carrier": carrier}) for job_id, carrier in asked]

    response = names["handler"](event(*records), Context())

    assert returned(response) == []
    assert loads == ["2013-01"]
    for job_id, carrier in asked:
        row = kit.row("monthly-delays", job_id)
        assert row is not None
        assert f'["2013-01","{carrier}"]'.encode() == row["result"]["B"]


def test_the_guarantee_stands_before_the_code_and_the_code_early() -> None:
    lines = README.splitlines()
    first_code = lines.index("```python") + 1
    first_picture = next((at for at, line in enumerate(lines, 1) if line.startswith("![")), 99)

    assert first_code < 30
    assert first_picture >= 25
    assert README.index("**Guaranteed.**") < README.index("```python")
    assert README.index("**Not guaranteed.**") < README.index("```python")


def test_every_command_of_the_readme_is_a_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?make ([a-z-]+)", README))

    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_folder_of_the_map_is_there() -> None:
    there = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and path.name not in MADE
    }
    folders = re.findall(r"^\| `([a-z/]+)/` ", README, flags=re.MULTILINE)

    assert folders
    for folder in folders:
        assert (ROOT / folder).is_dir(), folder
    assert there == {folder.split("/")[0] for folder in folders}
