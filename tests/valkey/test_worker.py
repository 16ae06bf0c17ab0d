"""Take batches through the worker, against a real Valkey and moto's table and queues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sekali import PermanentError, warm
from sekali.scripts import CLAIM
from sekali.shared import Shared
from sekali.telemetry import events
from tests.worker_kit import Context, Kit, event, job, record, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job, Worker


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def squares(kit: Kit, runs: list[str]) -> Worker:
    worker = kit.worker()

    @worker.job("square", key="{payload[n]}", ttl_seconds=60)
    def square(job: Job) -> Any:
        runs.append(job.id)
        return job.payload["n"] ** 2

    return worker


def test_job_is_run_once_and_its_result_recorded(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)

    response = worker.handler(event(job("a", {"n": 3})), Context())

    assert returned(response) == []
    assert runs == ["a"]
    row = kit.row("square", "a")
    assert row is not None
    assert (row["st"]["S"], row["result"]["B"]) == ("done", b"9")


def test_ids_that_share_a_key_in_one_batch_are_computed_once(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)

    response = worker.handler(event(*(job(f"id-{n}", {"n": 3}) for n in range(5))), Context())

    assert returned(response) == []
    assert runs == ["id-0"]
    for n in range(5):
        row = kit.row("square", f"id-{n}")
        assert row is not None
        assert row["result"]["B"] == b"9"


def test_later_id_of_a_known_key_is_served_by_another_container(kit: Kit) -> None:
    runs: list[str] = []
    squares(kit, runs).handler(event(job("a", {"n": 3})), Context())

    response = squares(kit, runs).handler(event(job("b", {"n": 3})), Context())

    assert returned(response) == []
    assert runs == ["a"]
    row = kit.row("square", "b")
    assert row is not None
    assert row["result"]["B"] == b"9"


def test_claims_go_out_in_parts_whatever_goes_before_them(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symptom: beside 30 ids whose values are known here, all claims but four were one part."""
    worker = squares(kit, [])
    worker.handler(event(*(job(f"old-{n}", {"n": n}) for n in range(30))), Context())
    claims: list[int] = []

    def flush(self: Shared, commands: Any, *, more: Any = (), **options: Any) -> Any:
        parts = [commands, *more]
        if options["operation"] == "claim":
            claims.extend(sum(one.script is CLAIM for one in part) for part in parts if part)
        return honest(self, commands, more=iter(parts[1:]), **options)

    honest = Shared.flush
    monkeypatch.setattr(Shared, "flush", flush)

    worker.handler(event(*(job(f"id-{n}", {"n": n}) for n in range(60))), Context())

    assert claims == [4, 8, 16, 2]


def test_quick_batch_waits_for_the_cache_twice(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    worker.handler(event(job("warm", {"n": 0})), Context())
    before = warm.container().shared.flushes

    worker.handler(event(*(job(f"id-{n}", {"n": n}) for n in range(1, 11))), Context())

    assert warm.container().shared.flushes - before == 2
    assert len(runs) == 11


def test_finished_duplicate_is_deleted_without_a_run(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    worker.handler(event(job("a", {"n": 3})), Context())

    here = worker.handler(event(job("a", {"n": 3})), Context())
    elsewhere = squares(kit, runs).handler(event(job("a", {"n": 3})), Context())

    assert [returned(here), returned(elsewhere)] == [[], []]
    assert runs == ["a"]


def test_same_id_with_another_payload_becomes_a_dead_letter(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    worker.handler(event(job("a", {"n": 3})), Context())

    response = worker.handler(event(job("a", {"n": 4}), job("a", {"n": 3})), Context())

    assert returned(response) == []
    assert runs == ["a"]
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "payload_mismatch"


def test_bad_records_fail_alone_and_say_why(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)
    bad = {
        "not_json": record("{"),
        "not_object": record("[1]"),
        "empty": record(""),
        "wrong_version": record({"sekali": 99, "id": "x", "payload": {}}),
        "missing_field": record({"sekali": 1, "payload": {"n": 1}}),
        "wrong_type": record({"sekali": 1, "id": 7, "payload": {"n": 1}}),
        "unknown_job": job("u", {"n": 1}, name="cube"),
        "payload_rejected": job("p", {"m": 1}),
    }

    response = worker.handler(event(*bad.values(), job("good", {"n": 2})), Context())

    assert returned(response) == []
    assert runs == ["good"]
    assert list(bad) == [letter["attributes"]["sekali.reason"] for letter in kit.dead_letters()]


def test_failed_attempt_is_given_back_as_a_delayed_copy_and_tried_again(kit: Kit) -> None:
    worker = kit.worker()
    attempts: list[int] = []

    @worker.job("flaky")
    def flaky(job: Job) -> str:
        attempts.append(job.attempt)
        job.payload["changed"] = True
        if len(attempts) == 1:
            raise OSError("no route")
        return "fine"

    first = worker.handler(event(job("f", {"n": 1}, name="flaky")), Context())
    (copy,) = kit.copies()
    warm.container().shared.flush([])
    while True:
        second = worker.handler(event(record(copy["body"])), Context())
        copies = kit.copies()
        if not copies:
            break

    assert [returned(first), returned(second)] == [[], []]
    assert attempts == [1, 2]
    assert copy["delay_seconds"] >= 1
    assert json.loads(copy["body"])["payload"] == {"n": 1}
    row = kit.row("flaky", "f")
    assert row is not None
    assert row["st"]["S"] == "done"


def test_permanent_error_is_recorded_and_dead_lettered_with_its_text(kit: Kit) -> None:
    worker = kit.worker()

    @worker.job("refuse")
    def refuse(job: Job) -> None:
        raise PermanentError(f"no such month: {job.payload['month']}")

    response = worker.handler(event(job("r", {"month": "13"}, name="refuse")), Context())

    assert returned(response) == []
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "permanent"
    assert letter["attributes"]["sekali.error"] == "no such month: 13"
    row = kit.row("refuse", "r")
    assert row is not None
    assert row["st"]["S"] == "failed"


def test_result_that_is_not_json_is_a_dead_letter_naming_type_and_path(kit: Kit) -> None:
    worker = kit.worker()

    @worker.job("strange")
    def strange(job: Job) -> object:
        return {"when": {job.id}}

    response = worker.handler(event(job("s", {}, name="strange")), Context())

    assert returned(response) == []
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.error_type"] == "ResultUnencodable"
    assert "set at $.when" in letter["attributes"]["sekali.error"]


def test_body_that_exits_fails_alone(kit: Kit) -> None:
    worker = kit.worker()

    @worker.job("leave")
    def leave(job: Job) -> str:
        if job.payload["leave"]:
            raise SystemExit(3)
        return "stayed"

    response = worker.handler(
        event(job("x", {"leave": True}), job("y", {"leave": False})), Context()
    )

    assert returned(response) == []
    assert len(kit.copies()) == 1
    row = kit.row("leave", "y")
    assert row is not None


def test_every_record_is_told_once(kit: Kit) -> None:
    worker = squares(kit, [])

    worker.handler(event(job("a", {"n": 3}), job("b", {"n": 3}), record("{")), Context())

    told = [one for one in kit.events if isinstance(one, events.RecordSettled)]
    assert [(one.outcome, one.source) for one in told] == [
        ("delete", "body"),
        ("delete", "followed"),
        ("dead_letter", ""),
    ]


def test_known_id_with_a_payload_of_another_key_is_not_run(kit: Kit) -> None:
    """The demo's mismatch ran its body: another payload made another key, in another slot."""
    runs: list[str] = []
    squares(kit, runs).handler(event(job("a", {"n": 3})), Context())

    response = squares(kit, runs).handler(event(job("a", {"n": 4})), Context())

    assert returned(response) == []
    assert runs == ["a"]
    (letter,) = kit.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "payload_mismatch"
    row = kit.row("square", "a")
    assert row is not None
    assert row["result"]["B"] == b"9"


def test_two_payloads_of_one_id_in_one_batch_run_once(kit: Kit) -> None:
    runs: list[str] = []
    worker = squares(kit, runs)

    response = worker.handler(event(job("a", {"n": 3}), job("a", {"n": 4})), Context())

    assert returned(response) == []
    assert runs == ["a"]
    assert len(kit.dead_letters()) == 1
    after = worker.handler(event(job("b", {"n": 4})), Context())
    assert returned(after) == []
    assert runs == ["a", "b"]


def test_failed_attempt_of_a_job_with_its_own_key_is_tried_again(kit: Kit, valkey: Redis) -> None:
    """A retry was refused as a mismatch: the client turned the reply of SET GET into False."""
    worker = kit.worker()
    runs: list[int] = []

    @worker.job("keyed", key="{payload[n]}", ttl_seconds=60)
    def keyed(job: Job) -> str:
        runs.append(job.attempt)
        if len(runs) == 1:
            raise OSError("no route")
        return "fine"

    worker.handler(event(job("a", {"n": 1})), Context())
    (copy,) = kit.copies()
    for key in valkey.scan_iter(match="*lease:*"):
        valkey.delete(key)
    worker.handler(event(record(copy["body"])), Context())

    assert runs == [1, 2]
    assert kit.dead_letters() == []
