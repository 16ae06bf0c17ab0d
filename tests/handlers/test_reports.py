"""The example worker: what its payloads may be, what it computes, loads and refuses."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from handlers import reports
from infra.local.evidence import execution_of
from infra.local.flights import DAMAGED_CSV, DAMAGED_MONTH
from infra.local.oracle import Oracle
from tests.flight_data import invented_month
from tests.worker_kit import Context, Kit, event, job, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JOB = "delay-report"
BUCKET = "flights"
MONTHS = {month: invented_month(month).encode() for month in ("2013-01", "2013-02")}


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey_url: str, valkey: object) -> Iterator[Kit]:
    del valkey  # Empty at the start: a report that an earlier test computed would be served.
    # The worker's logger outlives a test and holds its first one's stream, which is closed.
    for log in logging.getLogger(reports.worker.service).handlers:
        monkeypatch.setattr(log, "level", logging.CRITICAL)
    monkeypatch.setenv("REPORTS_DATA_BUCKET", BUCKET)
    with started_kit(monkeypatch, valkey_url) as kit:
        reports.s3.cache_clear()
        client = boto3.client("s3")
        location: Any = {"LocationConstraint": client.meta.region_name}  # Any: a literal's stub
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)
        for month, text in (MONTHS | {DAMAGED_MONTH: DAMAGED_CSV}).items():
            client.put_object(Bucket=BUCKET, Key=f"flights/{month}.csv", Body=text)
        yield kit
    reports.s3.cache_clear()


def result_of(kit: Kit, job_id: str) -> object:
    row = kit.row(JOB, job_id)
    assert row is not None
    return json.loads(row["result"]["B"])


def lines_with(text: str, lines: str) -> list[str]:
    return [line for line in lines.splitlines() if text in line]


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ({"month": "2013-01", "carrier": "UA"}, "2013-01/UA/all"),
        ({"month": "2013-01", "carrier": "UA", "origin": None}, "2013-01/UA/all"),
        ({"month": "2013-12", "carrier": "9E", "origin": "JFK"}, "2013-12/9E/JFK"),
        ({"month": "2013-01", "carrier": "UA", "for": "somebody"}, "2013-01/UA/all"),
    ],
)
def test_payloads_that_ask_the_same_have_one_key(payload: dict[str, object], key: str) -> None:
    assert reports.report_key(payload) == key


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({}, "month must be like 2013-01, got None"),
        ({"month": "2013-13", "carrier": "UA"}, "month must be like 2013-01, got '2013-13'"),
        ({"month": "2013-1", "carrier": "UA"}, "month must be"),
        ({"month": "2013-01\n", "carrier": "UA"}, "month must be"),
        ({"month": 201301, "carrier": "UA"}, "month must be like 2013-01, got 201301"),
        ({"month": "2013-01"}, "carrier must be a code of two like UA, got None"),
        ({"month": "2013-01", "carrier": "../x"}, "carrier must be"),
        ({"month": "2013-01", "carrier": "UA", "origin": ["JFK"]}, "origin must be like JFK"),
        ({"month": "x" * 1_000, "carrier": "UA"}, "got 'x{39}$"),
    ],
)
def test_payload_that_is_no_question_is_told_what_is_wrong(
    payload: Mapping[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        reports.report_key(payload)


def test_reports_of_a_batch_are_right_and_the_month_is_loaded_once(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = Oracle(MONTHS)
    asked = {
        "a": {"month": "2013-01", "carrier": "UA"},
        "b": {"month": "2013-01", "carrier": "B6", "origin": "JFK"},
        "c": {"month": "2013-01", "carrier": "ZZ"},
    }

    answer = reports.handler(event(*(job(*entry) for entry in asked.items())), Context())

    printed = capsys.readouterr().out
    assert answer == {"batchItemFailures": []}
    assert {job_id: result_of(kit, job_id) for job_id in asked} == {
        job_id: oracle.report(payload["month"], payload["carrier"], payload.get("origin"))
        for job_id, payload in asked.items()
    }
    assert len(lines_with("loading flights", printed)) == 1


def test_equal_questions_are_computed_once_and_each_body_leaves_its_line(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = {"month": "2013-01", "carrier": "UA"}

    reports.handler(event(job("a", payload), job("b", payload), job("a", payload)), Context())
    reports.handler(event(job("c", payload)), Context())

    executions = [
        execution
        for line in capsys.readouterr().out.splitlines()
        if (execution := execution_of(line, interrupted=False))
    ]
    assert [(execution.job_id, execution.key) for execution in executions] == [
        ("a", "2013-01/UA/all")
    ]
    assert result_of(kit, "a") == result_of(kit, "b") == result_of(kit, "c")


def test_month_without_flights_fails_for_good_and_says_which(kit: Kit) -> None:
    answer = reports.handler(event(job("a", {"month": "1999-01", "carrier": "UA"})), Context())

    [letter] = kit.dead_letters()
    assert answer == {"batchItemFailures": []}
    assert letter["attributes"]["sekali.reason"] == "permanent"
    assert letter["attributes"]["sekali.error_type"] == "PermanentError"
    assert letter["attributes"]["sekali.error"] == (
        "no flights of 1999-01: flights/1999-01.csv does not exist"
    )


def test_payload_that_does_not_fit_is_a_dead_letter_and_starts_no_body(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    reports.handler(event(job("a", {"month": "January", "carrier": "UA"})), Context())

    [letter] = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "payload_rejected"
    assert "month must be like 2013-01" in letter["attributes"]["sekali.error"]
    assert not lines_with("computing report", capsys.readouterr().out)


def test_damaged_month_is_tried_again_later(kit: Kit) -> None:
    """The file may be repaired meanwhile, so the job must not fail for good."""
    reports.handler(event(job("a", {"month": DAMAGED_MONTH, "carrier": "UA"})), Context())

    assert not kit.dead_letters()
    [copy] = kit.copies()
    assert json.loads(copy["body"])["id"] == "a"
    assert copy["delay_seconds"] >= 1
