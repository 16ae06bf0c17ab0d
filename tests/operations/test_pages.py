"""Every incident has a page, every page has the five sections, and names what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra.local.synthesis import synthesize
from tests.operations.pages import FOLDER, SECTIONS, page

PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


@pytest.fixture(scope="session")
def resources() -> dict[str, dict[str, object]]:
    (template,) = Path(synthesize()).glob("*.template.json")
    found: dict[str, dict[str, object]] = json.loads(template.read_text())["Resources"]
    return found


def test_every_incident_has_its_page(resources: dict[str, dict[str, object]]) -> None:
    alarms = json.dumps(
        [one for one in resources.values() if one["Type"] == "AWS::CloudWatch::CompositeAlarm"]
    )

    linked = set(re.findall(r"docs/operations/([a-z-]+)\.md", alarms))

    assert linked == set(PAGES)


def test_contents_list_every_page() -> None:
    contents = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert set(re.findall(r"\(([a-z-]+)\.md\)", contents)) == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_the_five_sections_in_their_order(name: str) -> None:
    assert tuple(page(name).sections) == SECTIONS


@pytest.mark.parametrize("name", PAGES)
def test_page_names_widgets_that_the_dashboards_have(
    name: str, resources: dict[str, dict[str, object]]
) -> None:
    dashboards = json.dumps(
        [one for one in resources.values() if one["Type"] == "AWS::CloudWatch::Dashboard"]
    )

    titles = set(re.findall(r'\\*"title\\*":\\*"([^"\\]+)', dashboards))

    assert len(titles) > 10
    assert page(name).widgets - titles == set()
