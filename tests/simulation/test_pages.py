"""Keep the pages in agreement with what writes them."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.simulation.__main__ import COST, DOCS, SCALE, _cost, _slug, main
from tests.simulation.bill import PRICES, bills
from tests.simulation.report import replace_section, table
from tests.simulation.scenarios import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_of_costs_shows_what_the_inputs_give() -> None:
    assert _cost() in COST.read_text(encoding="utf-8")


def test_the_page_of_scale_answers_every_question_with_a_picture() -> None:
    page = SCALE.read_text(encoding="utf-8")

    for heading in SCENARIOS.made:
        _, _, answer = page.partition(f"## {heading}\n")
        assert answer.lstrip().startswith(f"![{heading}](scale/{_slug(heading)}.svg)"), heading
        file = DOCS / "scale" / f"{_slug(heading)}.svg"
        assert file.read_text(encoding="utf-8").startswith("<?xml"), heading


def test_a_bill_is_the_sum_of_prices_times_amounts() -> None:
    given = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    workload = given["workloads"][1]

    _, (ours, by_hand), _ = bills()

    writes = workload["jobs"] / 1e6 * given["prices"]["dynamodb_million_writes"]
    assert ours.lines["DynamoDB"] == by_hand.lines["DynamoDB"] == pytest.approx(writes)
    batch = (
        9.9 * workload["body_seconds"]
        + 10 * given["ours"]["record_seconds"]
        + 2 * given["stack"]["round_trip_seconds"]
        + 10 * given["stack"]["table_write_seconds"]
    )
    seconds = workload["jobs"] / 10 * batch
    price = given["prices"]["lambda_gb_second"]
    assert ours.lines["Lambda seconds"] == pytest.approx(seconds * price)
    assert ours.lines["Lambda seconds"] < by_hand.lines["Lambda seconds"]
    assert ours.total == pytest.approx(sum(ours.lines.values()))


@pytest.mark.parametrize(("side", "column"), [("ours", 1), ("by_hand", 3)])
def test_the_worker_s_time_per_record_is_the_one_that_was_measured(side: str, column: int) -> None:
    """Measured anew, it is copied here: then `make scale ARGS="--cost --write-docs"`."""
    given = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    lines = (DOCS / "performance.md").read_text(encoding="utf-8").splitlines()

    (row,) = (line for line in lines if line.startswith("| cold, batch of 100 |"))

    measured = float(row.strip("| ").split(" | ")[column].split()[0].replace(",", "")) * 1e-6
    assert given[side]["record_seconds"] == pytest.approx(measured, rel=0.1)


def test_a_price_that_is_missing_is_named(tmp_path: Path) -> None:
    inputs = tmp_path / "prices.toml"
    text = PRICES.read_text(encoding="utf-8")
    inputs.write_text(text.replace("traces_million", "traces_billion"), encoding="utf-8")

    with pytest.raises(KeyError, match="traces_million"):
        list(bills(inputs))


def test_a_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n## One\n\nold\n\n## Two\n\nstays\n", encoding="utf-8")

    replace_section(page, "One", table(("a", "b"), [("1", "2")]))

    assert page.read_text(encoding="utf-8") == (
        "# Page\n\n## One\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n## Two\n\nstays\n"
    )
    with pytest.raises(ValueError, match="Three"):
        replace_section(page, "Three", "text")


def test_what_is_computed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cost"]) == 0

    assert _cost() in capsys.readouterr().out
