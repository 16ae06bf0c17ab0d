"""Take wrapped messages through the worker: run, deferral, dead letter and redrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sekali import PermanentError, Unwrap
from tests.worker_kit import Context, Kit, event, job, record, returned, started_kit
from tests.wrapped import eventbridge, s3, s3_test, sns, text_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job, Worker

UNWRAP = Unwrap(sns=True, eventbridge={"Report Wanted": "report"}, s3={"ObjectCreated:*": "index"})


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def desk(kit: Kit, runs: list[tuple[str, str, Any]], *, faults: list[Exception]) -> Worker:
    worker = kit.worker(unwrap=UNWRAP)

    @worker.job("report")
    @worker.job("index")
    def run(job: Job) -> str:
        runs.append((job.name, job.id, dict(job.payload)))
        job.payload.clear()
        if faults:
            raise faults.pop(0)
        return "fine"

    return worker


def test_message_that_arrives_directly_and_through_a_topic_runs_once(kit: Kit) -> None:
    runs: list[tuple[str, str, Any]] = []
    worker = desk(kit, runs, faults=[])
    envelope = {"sekali": 1, "id": "a", "name": "report", "payload": {"n": 1}}

    response = worker.handler(
        event(
            job("a", {"n": 1}, name="report"),
            record(sns(envelope)),
            record(eventbridge(envelope)),
            record(sns(eventbridge(envelope))),
        ),
        Context(),
    )

    assert returned(response) == []
    assert runs == [("report", "a", {"n": 1})]
    assert kit.dead_letters() == []


def test_events_go_to_the_jobs_that_they_are_routed_to(kit: Kit) -> None:
    runs: list[tuple[str, str, Any]] = []
    worker = desk(kit, runs, faults=[])

    response = worker.handler(
        event(record(eventbridge({"n": 1})), record(s3()), record(s3())), Context()
    )

    assert returned(response) == []
    assert [(name, payload) for name, _, payload in runs] == [
        ("report", {"n": 1}),
        ("index", s3()),
    ]


def test_test_event_of_a_bucket_is_let_go_without_a_trace(kit: Kit) -> None:
    runs: list[tuple[str, str, Any]] = []
    worker = desk(kit, runs, faults=[])

    response = worker.handler(event(record(s3_test()), record(sns(s3_test()))), Context())

    assert returned(response) == []
    assert (runs, kit.dead_letters(), kit.copies()) == ([], [], [])


@pytest.mark.parametrize(
    "body", [sns(s3()), eventbridge({"n": 1}), sns({"n": 1}, attributes={"sekali.job": "report"})]
)
def test_failed_wrapped_message_comes_back_as_a_copy_and_ends(kit: Kit, body: object) -> None:
    runs: list[tuple[str, str, Any]] = []
    worker = desk(kit, runs, faults=[OSError("no route")])

    worker.handler(event(record(body)), Context())
    copies = kit.copies()
    while copies:
        worker.handler(event(*(record(copy["body"]) for copy in copies)), Context())
        copies = kit.copies()

    assert len(runs) == 2
    assert runs[0] == runs[1]
    row = kit.row(runs[0][0], runs[0][1])
    assert row is not None
    assert row["st"]["S"] == "done"


@pytest.mark.parametrize(
    "body", [sns(s3()), eventbridge({"n": 1}), sns({"n": 1}, attributes={"sekali.job": "report"})]
)
def test_redriven_dead_letter_of_a_wrapped_message_runs_again(kit: Kit, body: object) -> None:
    runs: list[tuple[str, str, Any]] = []
    worker = desk(kit, runs, faults=[PermanentError("not yet")])
    worker.handler(event(record(body)), Context())
    (letter,) = kit.dead_letters()
    redriven = record(letter["body"])
    redriven["messageAttributes"] = {
        name: text_attribute(value) for name, value in letter["attributes"].items()
    }

    response = worker.handler(event(redriven), Context())

    assert returned(response) == []
    assert letter["attributes"]["sekali.reason"] == "permanent"
    assert len(runs) == 2
    assert runs[0] == runs[1]
    row = kit.row(runs[0][0], runs[0][1])
    assert row is not None
    assert row["st"]["S"] == "done"
