"""Hold results against budgets, and write them where the docs want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.harness import Row, Sample, interleaved
from tests.benchmarks.report import write_into

if TYPE_CHECKING:
    from pathlib import Path


def test_a_row_is_within_its_budgets_only_if_it_keeps_all_of_them() -> None:
    value, peer = Sample((2.0, 3.0, 9.0)), Sample((6.0,))

    kept = Row("a", value, "µs", peer="p", peer_value=peer, at_most=3, ratio_at_most=0.5)
    slow = Row("a", value, "µs", peer="p", peer_value=peer, at_most=2.9, ratio_at_most=0.5)
    behind = Row("a", value, "µs", peer="p", peer_value=peer, at_most=3, ratio_at_most=0.4)

    assert [kept.within, slow.within, behind.within] == [True, False, False]
    assert Row("a", value, "µs").within is None


def test_a_budget_against_a_peer_that_was_not_measured_is_not_kept() -> None:
    row = Row("a", Sample.exactly(1.0), "µs", ratio_at_most=0.5)

    assert row.within is False


def test_the_table_shows_median_quartiles_and_ratio() -> None:
    peer = Sample.exactly(6.0)

    row = Row("a", Sample((1.0, 2.0, 3.0)), "µs", peer="p", peer_value=peer, ratio_at_most=0.2)

    assert row.cells() == ("a", "2 (1.5–2.5) µs", "p", "6", "0.333", "≤ 0.2 × peer", "**no**")
    assert row.as_json()["ratio"] == 2 / 6


def test_report_has_these_fields_for_every_row() -> None:
    plain = Row("a", Sample((1.0, 2.0, 3.0)), "µs")
    beside = Row(
        "b", Sample.exactly(3.0), "ms", peer="p", peer_value=Sample.exactly(6.0), at_most=4
    )

    assert plain.as_json() == {
        "name": "a",
        "value": 2.0,
        "unit": "µs",
        "budget": None,
        "within": None,
        "peer": None,
        "peer_value": None,
        "ratio": None,
    }
    assert list(beside.as_json()) == list(plain.as_json())
    assert list(beside.as_json().values()) == ["b", 3.0, "ms", "≤ 4 ms", True, "p", 6.0, 0.5]
    assert plain.details()["spread"] == (1.5, 2.5)


def test_contestants_take_turns_and_each_begins_as_often_as_another() -> None:
    order: list[str] = []

    def contestant(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    samples = interleaved(
        [lambda: contestant("a", 1.0), lambda: contestant("b", 2.0)], rounds=2, warm_up=0
    )

    assert order == ["a", "b", "b", "a"]
    assert [sample.median for sample in samples] == [1.0, 2.0]


def test_the_page_keeps_what_was_not_measured_again(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n", encoding="utf-8")
    first, other = Row("one", Sample.exactly(1.0), "µs"), Row("other", Sample.exactly(2.0), "µs")
    write_into(page, {"first": [first], "second": [other]}, machine="a machine")

    again = Row("one", Sample.exactly(5.0), "µs", note="with a note")
    write_into(page, {"first": [again]}, machine="another machine")

    text = page.read_text(encoding="utf-8")
    assert "| one | 5 µs |" in text
    assert "| one | 1 µs |" not in text
    assert "- one: with a note" in text
    assert "| other | 2 µs |" in text
    assert text.index("### first") < text.index("### second")
