"""What the log pipeline makes of a function's lines."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.local.environment import Environment, LogLine
from infra.local.kept import HistoryCut
from infra.local.logs import LogRecord, Logs, percentile


def line(text: str) -> LogLine:
    # A log line only reads its environment's number.
    environment = cast("Environment", SimpleNamespace(number=3))
    return LogLine(environment=environment, request_id="request", text=text)


def emf(dimensions: list[list[str]], names: list[str], **values: Any) -> str:
    directive = {
        "Namespace": "Sekali",
        "Dimensions": dimensions,
        "Metrics": [{"Name": name, "Unit": "Count"} for name in names],
    }
    return json.dumps({"_aws": {"Timestamp": 1, "CloudWatchMetrics": [directive]}, **values})


def test_metric_lines_are_added_up_by_name_and_dimensions() -> None:
    logs = Logs()

    logs.take(line(emf([["service", "job"]], ["Hits"], service="s", job="a", Hits=[1, 2])))
    logs.take(line(emf([["service", "job"]], ["Hits"], service="s", job="b", Hits=4.0)))

    assert sorted(logs.totals().values()) == [3.0, 4.0]
    assert logs.total("Hits") == 7.0
    assert logs.records() == []


def test_a_value_under_two_sets_of_dimensions_is_counted_once() -> None:
    logs = Logs()

    logs.take(line(emf([["service"], ["service", "job"]], ["Hits"], service="s", job="a", Hits=1)))

    assert logs.total("Hits") == 1.0


def test_a_metric_that_nobody_published_is_zero() -> None:
    assert Logs().total("Hits") == 0.0


def test_structured_lines_become_records_and_others_stay_text() -> None:
    logs = Logs()
    seen: list[LogRecord] = []
    logs.listen(lambda record, _: seen.append(record))

    for text in ('{"level": "INFO"}', "plain", "{broken", "[1]"):
        logs.take(line(text))

    assert [record.fields for record in logs.records()] == [{"level": "INFO"}, {}, {}, {}]
    assert [record.text for record in seen] == ['{"level": "INFO"}', "plain", "{broken", "[1]"]
    assert {(record.environment, record.request_id) for record in seen} == {(3, "request")}


def test_a_stack_that_is_left_to_run_keeps_its_newest_lines_and_all_of_its_sums() -> None:
    """Symptom: with `make demo ARGS=--serve` every line of every day stayed in memory."""
    logs = Logs(kept=3)
    heard: list[str] = []
    logs.listen(lambda record, _: heard.append(record.text))

    for number in range(5):
        logs.take(line(f"line {number}"))
        logs.take(line(emf([["service"]], ["Hits"], service="s", Hits=[1, 1])))

    assert logs.total("Hits") == 10.0
    assert len(heard) == 5
    with pytest.raises(HistoryCut, match="only the newest 3 lines were kept; 2 came before"):
        logs.records()


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(number) for number in range(1, 101)]

    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([7.0], 0.01) == 7.0
    assert percentile([], 0.5) == 0.0
