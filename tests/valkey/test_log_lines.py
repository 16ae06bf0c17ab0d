"""One line per record, with its times and its trace, and never what a payload holds."""

from __future__ import annotations

import json
import logging
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools import Logger

from sekali import PermanentError, Worker, lease, warm
from sekali.telemetry.log_lines import MESSAGE, SAMPLED_MESSAGE, is_sampled
from tests.tracing_kit import SENDER, header
from tests.worker_kit import Context, event, job, record, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from redis import Redis

    from sekali import Job
    from tests.worker_kit import Kit

SECRET = "correct-horse-battery-staple"
FIELDS = {
    *("level", "location", "message", "timestamp", "service", "job", "id", "key", "outcome"),
    *("reason", "source", "tier", "attempt", "fence", "deferrals", "receives", "trace_id"),
    *("queue_ms", "claim_ms", "run_ms", "load_ms", "wait_ms", "store_ms", "finish_ms"),
    "latency_ms",
}
_services = count(1)


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def talkative(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Return a worker with the default observers; a Logger of a service keeps its first stream."""
    warm.reset()
    service = f"logs-{next(_services)}"
    monkeypatch.setenv("SEKALI_SERVICE", service)
    return Worker(service)


def traced(job_id: str, payload: object) -> dict[str, Any]:  # Any: one record of an event
    body = {"sekali": 1, "id": job_id, "payload": payload}
    return record(body, AWSTraceHeader=header(SENDER))


def lines(text: str) -> list[dict[str, Any]]:  # Any: JSON of log lines
    return [one for one in map(json.loads, text.splitlines()) if "message" in one]


def settled(text: str) -> list[dict[str, Any]]:
    return [one for one in lines(text) if one["message"] == MESSAGE]


def test_each_record_has_one_line_with_every_field(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = talkative(monkeypatch)

    @worker.job("report", key="{payload[month]}")
    def report(job: Job) -> object:
        return job.cache.get_or_load("rows", lambda: job.id, ttl_seconds=60)

    worker.handler(
        event(traced("a", {"month": "1"}), traced("a", {"month": "1"}), job("b", {})), Context()
    )

    first, repeat, invalid = settled(capsys.readouterr().out)
    assert set(first) == FIELDS
    assert first["trace_id"] == SENDER
    assert (first["job"], first["id"], first["key"]) == ("report", "a", "1")
    assert (first["outcome"], first["source"], first["attempt"]) == ("delete", "body", 1)
    assert first["fence"] > 0
    assert 0 < first["load_ms"] <= first["run_ms"] <= first["latency_ms"]
    assert min(first[name] for name in ("claim_ms", "store_ms", "finish_ms")) > 0
    assert (repeat["source"], repeat["run_ms"]) == ("repeat", 0)
    assert (invalid["outcome"], invalid["reason"]) == ("dead_letter", "payload_rejected")
    assert kit.dynamodb.scan(TableName="results")["Count"] == 1


def test_tier_of_a_value_is_told(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = talkative(monkeypatch)
    worker.job("report", key="same", ttl_seconds=60)(lambda _: "rows")
    worker.handler(event(job("a", {})), Context())
    worker.handler(event(job("b", {})), Context())
    warm.reset()
    worker.handler(event(job("c", {})), Context())

    tiers = [one["tier"] for one in settled(capsys.readouterr().out)]

    assert tiers == ["", "local", "shared"]
    assert len(kit.copies()) == 0


def test_wait_for_another_load_is_told(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = talkative(monkeypatch)

    @worker.job("report")
    def report(job: Job) -> object:
        with lease("somebody else's"):
            pass
        return job.cache.get_or_load(
            "rows", lambda: 1, ttl_seconds=60, wait_seconds=0.15, on_timeout="load"
        )

    other = warm.container()
    invocation = other.invocation(owner="somebody else", remaining_seconds=30)
    other.tiered(invocation)
    _hold(other, invocation, "rows")

    worker.handler(event(job("a", {})), Context())

    (line,) = settled(capsys.readouterr().out)
    assert 100 <= line["wait_ms"] <= line["run_ms"]
    assert kit.copies() == []


def _hold(container: warm.Container, invocation: Any, key: str) -> None:  # Any: an Invocation
    from sekali.answers import Ask, new_token
    from sekali.keys import CACHE_NAME

    ask = Ask(
        name=CACHE_NAME,
        id=key,
        key=key,
        payload_hash="",
        token=new_token(),
        terms=container.default_terms(),
    )
    container.shared.flush([invocation.claims.claim(ask)])


@pytest.mark.parametrize("metrics", ["cloudwatch", "off"])
def test_nothing_of_payload_result_and_error_is_logged(
    kit: Kit,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    metrics: str,
) -> None:
    """With every line of every level, and every step of every trace."""
    monkeypatch.setenv("SEKALI_METRICS", metrics)
    monkeypatch.setenv("SEKALI_LOG_SAMPLE_RATE", "1")
    worker = talkative(monkeypatch)

    @worker.job("report")
    def report(job: Job) -> object:
        def load() -> object:
            if job.id == "loader":
                raise LookupError(SECRET)
            return {"rows": SECRET}

        value = job.cache.get_or_load(job.id, load, ttl_seconds=60)
        if job.id == "retried":
            raise ValueError(f"bad {job.payload}")
        if job.id == "refused":
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise PermanentError(SECRET) from error
        return value

    ids = ("fine", "loader", "retried", "refused")
    broken = record('{"sekali": 1, "id": 7, "payload": {"password": "' + SECRET + '"}}')
    with caplog.at_level(logging.DEBUG, logger="sekali"):
        worker.handler(
            event(*(traced(one, {"password": SECRET}) for one in ids), broken), Context()
        )

    text = capsys.readouterr().out
    assert {one["id"] for one in settled(text)} == {*ids, ""}
    failures = {one["id"]: one["failure"] for one in settled(text) if "failure" in one}
    assert failures == {
        "loader": "LookupError",
        "retried": "ValueError",
        "refused": "PermanentError",
    }
    assert SECRET not in text
    assert SECRET not in caplog.text
    assert "LookupError" in caplog.text  # the class, and the line
    assert "raise KeyError(SECRET)" in caplog.text
    letters = {one["attributes"]["sekali.error"] for one in kit.dead_letters()}
    assert SECRET in letters  # where the text is


def test_text_of_an_error_is_logged_where_that_is_set(
    kit: Kit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_LOG_ERROR_TEXT", "true")
    worker = kit.worker()

    @worker.job("report")
    def report(_: Job) -> None:
        raise ValueError(SECRET)

    worker.handler(event(job("a", {})), Context())

    assert SECRET in caplog.text


def test_keys_are_hashed_where_that_is_set(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_LOG_KEYS", "hash")
    worker = talkative(monkeypatch)
    worker.job("report", key="{payload[who]}")(lambda _: None)

    worker.handler(event(job("a", {"who": "ada"}), job("b", {"who": "ada"})), Context())

    keys = {one["key"] for one in settled(capsys.readouterr().out)}
    assert len(keys) == 1
    assert keys.pop().startswith("sha256:")
    assert kit.copies() == []


def test_lines_of_a_job_have_the_trace_of_its_message(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's own lines too, through whichever logger; others have that of the invocation."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header("1-5f84c7a5-" + "7" * 24))
    worker = talkative(monkeypatch)
    own = Logger(service=worker.service)

    @worker.job("report")
    def report(_: Job) -> None:
        own.info("from the job")

    worker.handler(event(traced("a", {}), job("b", {})), Context())
    own.info("from the function")

    told = [(one["message"], one["trace_id"]) for one in lines(capsys.readouterr().out)]
    untraced = "1-5f84c7a5-" + "7" * 24
    assert told == [
        ("from the job", SENDER),
        ("from the job", untraced),
        (MESSAGE, SENDER),
        (MESSAGE, untraced),
        ("from the function", untraced),
    ]
    assert kit.copies() == []


def test_lines_through_the_root_handler_have_it_too(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda's own handler is one: the warnings of the library go there."""
    told: list[str | None] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(getattr(record, "trace_id", None))

    kept = Kept()
    logging.getLogger().addHandler(kept)
    try:
        worker = talkative(monkeypatch)

        @worker.job("report")
        def report(_: Job) -> None:
            raise OSError

        worker.handler(event(traced("a", {})), Context())
    finally:
        logging.getLogger().removeHandler(kept)

    assert SENDER in told
    assert len(kit.copies()) == 1


def test_steps_of_a_sampled_trace_are_logged(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_SAMPLE_RATE", "1")
    worker = talkative(monkeypatch)
    worker.job("report")(lambda one: one.cache.get_or_load("rows", lambda: 1, ttl_seconds=60))

    worker.handler(event(traced("a", {})), Context())

    (line,) = (one for one in lines(capsys.readouterr().out) if one["message"] == SAMPLED_MESSAGE)
    assert [one["step"] for one in line["steps"]] == [
        *("claim", "ask", "run", "load", "store", "finish")
    ]
    assert [one["at_ms"] for one in line["steps"]] == sorted(one["at_ms"] for one in line["steps"])
    assert line["trace_id"] == SENDER
    assert kit.copies() == []


def test_no_step_is_logged_where_nothing_is_sampled(
    kit: Kit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = talkative(monkeypatch)
    worker.job("report")(lambda _: 1)

    worker.handler(event(traced("a", {})), Context())

    assert [one["message"] for one in lines(capsys.readouterr().out)] == [MESSAGE]
    assert kit.copies() == []


def test_share_of_traces_is_sampled_and_each_of_them_everywhere() -> None:
    traces = [header(f"1-{n:08x}-{'0' * 16}{(n * 2654435761) % 2**32:08x}") for n in range(1, 1001)]

    sampled = [one for one in traces if is_sampled(one, 0.25)]

    assert 200 <= len(sampled) <= 300
    w3c = [_as_w3c(one) for one in sampled]
    assert all(is_sampled(one, 0.25) for one in w3c)
    assert not any(is_sampled(one, 0) for one in traces)
    assert all(is_sampled(one, 1) for one in traces)


def _as_w3c(text: str) -> str:
    fields: Mapping[str, str] = dict(part.split("=") for part in text.split(";"))
    return f"00-{fields['Root'][2:].replace('-', '')}-{fields['Parent']}-01"
