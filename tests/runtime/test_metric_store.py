"""What is kept of metrics, how it is read, and what the embedded format means."""

from __future__ import annotations

from typing import Any

import pytest

from infra.local.cloudwatch import emf
from infra.local.cloudwatch.emf import EmfRefused
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.pace import Pace
from infra.local.cloudwatch.samples import Samples, StatisticUnknown
from infra.local.cloudwatch.store import Datum, MetricStore, TooManyMetrics

NAME = metric("Sekali", "RunTime", {"service": "s", "job": "j"})
NOW = 1_700_000_000.0


def directive(**changes: Any) -> dict[str, Any]:
    return {
        "Namespace": "Sekali",
        "Dimensions": [["service", "job"]],
        "Metrics": [{"Name": "RunTime", "Unit": "Milliseconds"}],
    } | changes


def line(*directives: dict[str, Any], **fields: Any) -> dict[str, Any]:
    told = {"Timestamp": NOW * 1000, "CloudWatchMetrics": list(directives or [directive()])}
    return {"_aws": told, "service": "s", "job": "j", **fields}


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("Sum", 5050),
        ("Average", 50.5),
        ("Minimum", 1),
        ("Maximum", 100),
        ("SampleCount", 100),
        ("p50", 50),
        ("p99", 99),
        ("p99.9", 100),
        ("p0", 1),
        ("p100", 100),
        ("tm90", 45.5),
    ],
)
def test_statistics_of_a_hundred_values(statistic: str, expected: float) -> None:
    samples = Samples()
    for value in range(1, 101):
        samples.add(float(value))

    assert samples.statistic(statistic) == expected


@pytest.mark.parametrize("statistic", ["p101", "Median", "p", "sum of all"])
def test_an_unknown_statistic_is_refused(statistic: str) -> None:
    samples = Samples()
    samples.add(1.0)

    with pytest.raises(StatisticUnknown):
        samples.statistic(statistic)


def test_many_different_values_take_bounded_memory_and_keep_their_percentiles() -> None:
    samples = Samples()
    for value in range(100_000):
        samples.add(value / 7)

    assert len(samples._values) < 5_000  # noqa: SLF001 - it is what is bounded
    assert samples.statistic("p90") == pytest.approx(90_000 / 7, rel=0.01)


def test_a_read_puts_values_into_periods_and_leaves_gaps_missing() -> None:
    store = MetricStore()
    for at, value in ((0, 1.0), (59, 2.0), (60, 4.0), (181, 8.0)):
        store.put_one(NAME, value, at=at)

    found = store.read(NAME, statistic="Sum", period=60, start=0, end=240)

    assert found == {0: 3.0, 60: 4.0, 180: 8.0}


def test_other_dimensions_are_another_metric_and_another_unit_no_data() -> None:
    store = MetricStore()
    store.put_one(NAME, 1.0, at=0, unit="Milliseconds")
    other = metric("Sekali", "RunTime", {"service": "s"})

    def read(name: Any, unit: str | None) -> dict[int, float]:
        return store.read(name, statistic="Sum", period=60, start=0, end=60, unit=unit)

    assert read(other, None) == {}
    assert read(NAME, "Seconds") == {}
    assert read(NAME, "Milliseconds") == {0: 1.0}


def test_late_values_fall_into_their_own_period() -> None:
    store = MetricStore()
    for at in (0, 120, 60, 0):
        store.put_one(NAME, 1.0, at=at)

    found = store.read(NAME, statistic="SampleCount", period=60, start=0, end=180)

    assert found == {0: 2.0, 60: 1.0, 120: 1.0}


def test_memory_is_bounded_by_time_and_by_number() -> None:
    store = MetricStore(kept_minutes=2)
    for at in range(0, 6_000, 10):
        store.put_one(NAME, 1.0, at=at)

    kept = store.read(NAME, statistic="Sum", period=60, start=0, end=6_000)

    assert list(kept) == [5_880, 5_940]
    without_end = [
        Datum(name=metric("Sekali", "RunTime", {"key": str(number)}), at=0.0)
        for number in range(10_000)
    ]
    with pytest.raises(TooManyMetrics):
        store.put(without_end)


def test_a_minute_may_be_played_in_two_seconds() -> None:
    store = MetricStore(Pace(minute_seconds=2))
    for at in (0.0, 1.9, 2.0):
        store.put_one(NAME, 1.0, at=at)

    assert store.read(NAME, statistic="Sum", period=60, start=0, end=120) == {0: 2.0, 60: 1.0}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, ((5.0, 1.0),)),
        ([1, 2.5], ((1.0, 1.0), (2.5, 1.0))),
        ({"Values": [1, 2], "Counts": [3, 4]}, ((1.0, 3.0), (2.0, 4.0))),
    ],
)
def test_a_value_is_a_number_a_list_or_values_with_counts(value: Any, expected: Any) -> None:
    (datum,) = emf.data(line(RunTime=value), now=NOW)

    assert (datum.name, datum.values, datum.unit) == (NAME, expected, "Milliseconds")
    assert datum.at == NOW


def test_a_statistic_set_keeps_its_sum_and_extremes() -> None:
    store = MetricStore()
    told = {"Count": 4, "Sum": 10, "Min": 1, "Max": 4}

    store.put(emf.data(line(RunTime=told), now=NOW))

    (samples,) = store.samples(NAME, period=60, start=NOW - 60, end=NOW + 60).values()
    assert (samples.count, samples.total, samples.minimum, samples.maximum) == (4, 10, 1, 4)


def test_each_set_of_dimensions_is_a_metric_of_its_own() -> None:
    told = line(directive(Dimensions=[["service"], ["service", "job"]]), RunTime=1)

    names = {datum.name for datum in emf.data(told, now=NOW)}

    assert names == {NAME, metric("Sekali", "RunTime", {"service": "s"})}


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        ({"_aws": {}}, "CloudWatchMetrics"),
        (line(directive(Dimensions=[["region"]]), RunTime=1), "dimension region"),
        (line(directive(Dimensions=[[str(n) for n in range(31)]]), RunTime=1), "30 dimensions"),
        (line(directive(Metrics=[{"Name": str(n)} for n in range(101)])), "100 metrics"),
        (line(RunTime=[1] * 101), "100 values"),
        (line(RunTime={"Values": [1], "Counts": [1, 2]}), "equal length"),
        (line() | {"_aws": {"Timestamp": 1, "CloudWatchMetrics": []}}, "14 days"),
    ],
)
def test_a_line_beyond_the_limits_of_the_format_is_refused(told: Any, rule: str) -> None:
    with pytest.raises(EmfRefused, match=rule):
        emf.data(told, now=NOW)
