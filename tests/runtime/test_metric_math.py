"""Metric math: every rule that a dashboard or an alarm relies on."""

from __future__ import annotations

import pytest

from infra.local.cloudwatch.formulas import FormulaInvalid, parse
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.pace import Pace
from infra.local.cloudwatch.queries import Evaluation, Query, Window
from infra.local.cloudwatch.store import MetricStore
from infra.local.cloudwatch.timeseries import MathUndefined

Row = list[float | None]
GAP = None


def evaluated(expression: str, *, pace: Pace | None = None, **rows: Row) -> list[dict[int, float]]:
    """Answer every series of an expression over metrics with these values a minute."""
    store = MetricStore(pace)
    queries = [Query(id="wanted", expression=expression)]
    for name, values in rows.items():
        named = metric("Test", name, {"of": name})
        queries.append(Query(id=name, metric=named, statistic="Sum"))
        for minute, value in enumerate(values):
            if value is not None:
                store.put_one(named, value, at=store.pace.unix(minute * 60))
    length = max((len(values) for values in rows.values()), default=4)
    window = Window(start=0, end=60 * length, period=60)
    return [
        {at // 60: value for at, value in series.values.items()}
        for series in Evaluation(queries, store=store, window=window).series("wanted")
    ]


def line(expression: str, *, pace: Pace | None = None, **rows: Row) -> Row:
    """Answer the only series of an expression as one value a minute."""
    (found,) = evaluated(expression, pace=pace, **rows)
    length = max((len(values) for values in rows.values()), default=4)
    return [found.get(minute) for minute in range(length)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m1 + m2", [3, 2, 30, GAP]),
        ("m1 - m2", [-1, 2, -30, GAP]),
        ("m1 / m2", [0.5, GAP, 0, GAP]),
        ("100 * m1", [100, 200, GAP, GAP]),
        ("2 ^ m1", [2, 4, GAP, GAP]),
        ("-m1", [-1, -2, GAP, GAP]),
        ("1 + 2 * m1 - 3 / 3", [2, 4, GAP, GAP]),
        ("(1 + 2) * m1", [3, 6, GAP, GAP]),
    ],
)
def test_arithmetic_counts_one_missing_side_as_zero_and_drops_divisions_by_zero(
    expression: str, expected: Row
) -> None:
    found = line(expression, m1=[1, 2, GAP, GAP], m2=[2, GAP, 30, GAP])

    assert found == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    # The example of the documentation: [30, 20, 0, 0] and [20, -, 20, -].
    [
        ("m1 < m2", [0, 0, 1, 0]),
        ("m1 >= 30", [1, 0, 0, 0]),
        ("m1 > 15 AND m2 > 15", [1, 0, 0, 0]),
        ("m1 > 15 || m2 > 15", [1, 1, 1, 0]),
        ("m1 == 0", [0, 0, 1, 1]),
        ("m1 != 0 && 1", [1, 1, 0, 0]),
    ],
)
def test_comparisons_answer_zero_and_one(expression: str, expected: Row) -> None:
    assert line(expression, m1=[30, 20, 0, 0], m2=[20, GAP, 20, GAP]) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("FILL(m1, 0)", [0, 5, 0, 7]),
        ("FILL(m1, REPEAT)", [GAP, 5, 5, 7]),
        ("FILL(m1, LINEAR)", [GAP, 5, 6, 7]),
        ("FILL(m1, m2)", [1, 5, 1, 7]),
        ("FILL(m3, 0)", [0, 0, 0, 0]),
        ("IF(m1 > 5, m1)", [GAP, GAP, GAP, 7]),
        ("IF(m1 > 5, m1, 0)", [GAP, 0, GAP, 7]),
        ("IF(FILL(m1, 0) > 5, 1, m2)", [1, 1, 1, 1]),
        ("IF(1, m1, m2)", [GAP, 5, GAP, 7]),
        ("IF(0, m1, m2)", [1, 1, 1, 1]),
        ("RUNNING_SUM(m1)", [GAP, 5, GAP, 12]),
        ("DIFF(m1)", [GAP, GAP, GAP, 2]),
        ("RATE(m1)", [GAP, GAP, GAP, 2 / 120]),
        ("DIFF_TIME(m1)", [GAP, GAP, GAP, 120]),
        ("m1 / PERIOD(m1)", [GAP, 5 / 60, GAP, 7 / 60]),
        ("m1 - AVG(m1)", [GAP, -1, GAP, 1]),
        ("SUM(METRICS())", [1, 6, 1, 8]),
        ('SUM(METRICS("m1"))', [GAP, 5, GAP, 7]),
        ("MAX([m1, m2])", [1, 5, 1, 7]),
        ("MIN([m1, m2])", [1, 1, 1, 1]),
        ("AVG([m1, m2])", [0.5, 3, 0.5, 4]),
        ("m1 / METRIC_COUNT(METRICS())", [GAP, 5 / 3, GAP, 7 / 3]),
        ("FIRST(SORT([m2, m1], SUM, DESC))", [GAP, 5, GAP, 7]),
        ("CEIL(m1 / 2) + FLOOR(m1 / 2)", [GAP, 5, GAP, 7]),
        ("ABS(0 - m1)", [GAP, 5, GAP, 7]),
        ("DATAPOINT_COUNT(m1)", [2, 2, 2, 2]),
        ("TIME_SERIES(3)", [3, 3, 3, 3]),
    ],
)
def test_functions_answer_what_the_documentation_says(expression: str, expected: Row) -> None:
    found = line(expression, m1=[GAP, 5, GAP, 7], m2=[1, 1, 1, 1], m3=[GAP] * 4)

    assert found == expected


def test_arrays_stay_arrays() -> None:
    found = evaluated("100 / [m1, m2]", m1=[1, 2], m2=[4, 5])

    assert found == [{0: 100, 1: 50}, {0: 25, 1: 20}]


def test_empty_series_can_be_removed() -> None:
    assert evaluated("REMOVE_EMPTY(METRICS())", m1=[1], m2=[GAP]) == [{0: 1}]


def test_a_rate_per_second_is_one_of_this_machines_seconds_however_time_is_played() -> None:
    pace = Pace(minute_seconds=2)

    assert line("m1 / PERIOD(m1)", pace=pace, m1=[10, 20]) == [5, 10]
    assert line("RATE(m1)", pace=pace, m1=[10, 20]) == [GAP, 5]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ('{Test,of} MetricName="m1"', [{0: 1}]),
        ("{Test,of} m", [{0: 1}, {0: 2}]),
        ("{Test,of} NOT m1", [{0: 2}]),
        ('{Test,of} of="m1" OR of="m2"', [{0: 1}, {0: 2}]),
        ("{Test} m1", []),
        ("{Test,of,more} m1", []),
        ("{Other,of} m1", []),
        ('Namespace="Test" m2', [{0: 2}]),
    ],
)
def test_a_search_finds_metrics_by_exact_dimensions_and_parts_of_names(
    search: str, expected: list[dict[int, float]]
) -> None:
    found = evaluated(f"SEARCH('{search}', 'Sum', 60)", m1=[1], m2=[2])

    assert found == expected


@pytest.mark.parametrize(
    "expression",
    ["", "m1 +", "m1 m2", "(m1", "FILL(m1, 0", "m1 ? 2", "[m1", ")", "1 + * 2", "(" * 60 + "m1"],
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(FormulaInvalid):
        parse(expression)


@pytest.mark.parametrize(
    "expression",
    ["unknown", "wanted", "EXPLODE(m1)", "1 / 0", "'text'", "SUM(5)", "SEARCH(m1, m1, 60)"],
)
def test_what_has_no_meaning_is_refused(expression: str) -> None:
    with pytest.raises(MathUndefined):
        evaluated(expression, m1=[1])


def test_a_formula_is_never_run_as_a_program() -> None:
    with pytest.raises((FormulaInvalid, MathUndefined)):
        evaluated("__import__('os')", m1=[1])
