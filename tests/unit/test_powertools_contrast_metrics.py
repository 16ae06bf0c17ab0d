"""What Powertools' Metrics gets wrong, beside our observer, which is built on a part of it.

Each test shows the fault in Powertools' own piece first: when a release mends it, the test fails
and the row can go from the list of facts.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest
from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics

from sekali.telemetry import events
from sekali.telemetry.powertools import MetricsObserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Interrupted(float):
    """A number in the middle of whose taking another thread does something."""

    def __new__(cls, value: float, action: Callable[[], object]) -> Self:
        self = super().__new__(cls, value)
        self.action = action
        return self

    action: Callable[[], object]

    def __float__(self) -> float:
        other = threading.Thread(target=self.action)
        other.start()
        other.join()
        return 1.0


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics(namespace="Contrast", service="theirs")
    yield metrics
    metrics.clear_metrics()


def add(metrics: Any, value: float = 1.0) -> None:  # Any: two classes with the same verbs
    metrics.add_metric(name="Jobs", unit="Count", value=value)


def add_many(metrics: Any, count: int) -> None:  # Any: as above
    for _ in range(count):
        add(metrics)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:  # Any: EMF
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def total(written: list[dict[str, Any]], name: str) -> float:  # Any: EMF
    return sum(sum(line.get(name, [])) for line in written)


def settled(name: str = "job") -> events.RecordSettled:
    return events.RecordSettled(
        name=name,
        id="a",
        key="a",
        outcome="delete",
        attempt=1,
        fence=1,
        source="body",
        queue_seconds=0.1,
        run_seconds=0.2,
        latency_seconds=0.3,
        retries=0,
        reason="done",
        trace=None,
    )


def test_first_values_of_two_threads_overwrite_each_other(
    metrics: Metrics, capsys: pytest.CaptureFixture[str]
) -> None:
    add(metrics, Interrupted(1, lambda: add(metrics)))
    metrics.flush_metrics()

    assert total(lines(capsys), "Jobs") == 1


def test_values_around_an_early_flush_are_written_twice(
    metrics: Metrics, capsys: pytest.CaptureFixture[str]
) -> None:
    add_many(metrics, 98)
    # While the 99th is taken, another thread adds two and makes it flush.
    add(metrics, Interrupted(1, lambda: add_many(metrics, 2)))
    metrics.flush_metrics()

    assert total(lines(capsys), "Jobs") > 101


def test_many_values_are_flushed_in_the_middle_of_an_invocation(
    metrics: Metrics, capsys: pytest.CaptureFixture[str]
) -> None:
    add_many(metrics, 150)
    early = lines(capsys)
    assert [total([line], "Jobs") for line in early] == [100]

    observer = MetricsObserver("ours", namespace="Contrast")
    for _ in range(150):
        observer(settled())
    assert lines(capsys) == []
    observer(events.InvocationEnded())

    written = lines(capsys)
    assert [line["JobsCompleted"] for line in written if "JobsCompleted" in line] == [[150]]
    assert [len(line["RunTime"]) for line in written] == [100, 50]


@pytest.mark.parametrize("records", [98, 99, 100, 101, 198, 200])
def test_our_hundredth_value_writes_no_line_early_and_no_empty_one(
    capsys: pytest.CaptureFixture[str], records: int
) -> None:
    """At exactly 100 the line was written early, and an empty one warned of at the end."""
    theirs = EphemeralMetrics(namespace="Contrast", service="theirs")
    add_many(theirs, 100)
    with pytest.warns(UserWarning, match="No application metrics to publish"):
        theirs.flush_metrics()
    capsys.readouterr()

    observer = MetricsObserver("ours", namespace="Contrast")
    for _ in range(records):
        observer(settled())
    observer(events.InvocationEnded())  # A warning would be an error.

    written = lines(capsys)
    assert total(written, "JobsCompleted") == records
    assert sum(len(line["RunTime"]) for line in written) == records
    assert len(written) == -(-records // 100)


def test_our_events_from_several_threads_are_counted_exactly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observer = MetricsObserver("ours", namespace="Contrast")
    start = threading.Barrier(4)

    def tell() -> None:
        start.wait(60)
        for _ in range(500):
            observer(settled())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tell) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    observer(events.InvocationEnded())

    assert total(lines(capsys), "JobsCompleted") == 2_000


def test_each_line_is_of_one_service_and_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Every combination of dimensions is a metric that is paid for, and 29 are the most."""
    observer = MetricsObserver("ours", namespace="Contrast")
    observer(settled("one"))
    observer(settled("two"))
    observer(events.InvocationEnded())

    written = lines(capsys)

    sets = [line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] for line in written]
    assert sets == [[["service", "job"], ["service"]]] * 2
    assert [(line["service"], line["job"]) for line in written] == [
        ("ours", "one"),
        ("ours", "two"),
    ]
