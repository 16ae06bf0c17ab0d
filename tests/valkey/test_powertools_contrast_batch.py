"""What Powertools' batch utility gets wrong, beside our worker.

Each test shows the fault in Powertools' own piece first: when a release mends it, the test fails
and the row can go from the list of facts.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import (
    BatchProcessingError,
    UnexpectedBatchTypeError,
)
from redis import Redis

from tests.conftest import started_valkey
from tests.worker_kit import Context, Kit, event, job, record, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali import Job

    Handler = Callable[[Any], object]  # Any: Powertools' record, or its user's model of one

SILENT_MILLISECONDS = 60_000


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


@pytest.fixture
def fifo(monkeypatch: pytest.MonkeyPatch, kit: Kit) -> Kit:
    urls = [
        kit.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
        for name in ("jobs.fifo", "dead.fifo")
    ]
    monkeypatch.setenv("SEKALI_FIFO", "true")
    monkeypatch.setenv("SEKALI_QUEUE_URL", urls[0])
    monkeypatch.setenv("SEKALI_DEAD_LETTER_QUEUE_URL", urls[1])
    return replace(kit, queue_url=urls[0], dead_letter_queue_url=urls[1])


def in_group(group: str, one: dict[str, Any]) -> dict[str, Any]:  # Any: a record of an event
    one["attributes"]["MessageGroupId"] = group
    return one


def fail(_: object) -> object:
    raise OSError("no route")


def process(records: list[dict[str, Any]], handler: Handler, processor: Any) -> list[str]:
    """Take a batch through Powertools; Any: its processors have no common type."""
    answer = process_partial_response(
        event=event(*records),
        record_handler=lambda record: handler(record),  # noqa: PLW0108 - it is called by name
        processor=processor,
    )
    return returned(dict(answer))


def test_processor_forgets_a_failure_when_another_thread_uses_it(kit: Kit) -> None:
    """A lost failure is a lost message: it is deleted though its work failed."""
    shared, batch = BatchProcessor(EventType.SQS), [record("1"), record("2")]

    def handle(one: Any) -> None:  # Any: as `Handler`
        if one.body == "1":
            raise OSError("no route")
        elsewhere = threading.Thread(target=process, args=([record("3")], str, shared))
        elsewhere.start()
        elsewhere.join()

    assert process(batch, handle, shared) == []

    worker = kit.worker()
    others: list[dict[str, Any]] = []  # Any: answers of a handler

    @worker.job("mixed")
    def mixed(job: Job) -> None:
        if job.id == "fails":
            raise OSError("no route")
        if job.id == "waits":
            elsewhere = threading.Thread(
                target=lambda: others.append(worker.handler(event(quick), Context()))
            )
            elsewhere.start()
            elsewhere.join()

    quick = job("quick", {})
    answer = worker.handler(event(job("fails", {}), job("waits", {})), Context())

    assert [returned(answer), *map(returned, others)] == [[], []]
    assert [copy["body"].count('"fails"') for copy in kit.copies()] == [1]


def test_batch_whose_records_all_fail_raises(kit: Kit) -> None:
    """An exception brings the whole batch back, and looks like a crash in every alarm."""
    with pytest.raises(BatchProcessingError):
        process([record("1"), record("2")], fail, BatchProcessor(EventType.SQS))

    worker = kit.worker()
    worker.job("failing")(fail)

    answer = worker.handler(event(job("a", {}), job("b", {})), Context())

    assert returned(answer) == []
    assert len(kit.copies()) == 2


def test_empty_batch_raises(kit: Kit) -> None:
    with pytest.raises(UnexpectedBatchTypeError):
        process([], str, BatchProcessor(EventType.SQS))

    worker = kit.worker()
    worker.job("any")(lambda _: None)

    assert worker.handler(event(), Context()) == {"batchItemFailures": []}


class Refused(Exception):
    """Stand for Pydantic's error, which Powertools knows by the model's name in `title`."""

    title = "Model"


@dataclass
class Model:
    """Stand for a Pydantic model of a record."""

    messageId: str  # noqa: N815 - Powertools reads it by this name

    @classmethod
    def model_validate(cls, raw: dict[str, Any]) -> Model:  # Any: a record of an event
        if raw["body"] == "invalid":
            raise Refused
        return cls(raw["messageId"])


def test_invalid_record_behind_a_failed_one_breaks_a_fifo_batch(fifo: Kit) -> None:
    model: Any = Model  # Any: it wants a class of Pydantic's, and uses as much as this
    with pytest.raises(Refused):
        process([record("1"), record("invalid")], fail, SqsFifoPartialProcessor(model=model))

    worker = fifo.worker()
    worker.job("failing")(fail)
    first, invalid = in_group("one", job("a", {})), in_group("one", record("invalid"))
    apart = in_group("another", record("invalid"))

    answer = worker.handler(event(first, invalid, apart), Context())

    assert returned(answer) == [first["messageId"], invalid["messageId"]]
    (letter,) = fifo.dead_letters()
    assert letter["attributes"]["sekali.reason"] == "not_json"


def test_fifo_batch_of_one_failed_record_raises(fifo: Kit) -> None:
    with pytest.raises(BatchProcessingError):
        process([record("1")], fail, SqsFifoPartialProcessor())

    worker = fifo.worker()
    worker.job("failing")(fail)
    only = in_group("one", job("a", {}))

    answer = worker.handler(event(only), Context())

    assert returned(answer) == [only["messageId"]]


def test_record_handler_that_exits_leaves_the_batch(kit: Kit) -> None:
    def leave(_: object) -> object:
        raise SystemExit

    with pytest.raises(SystemExit):
        process([record("1"), record("2")], leave, BatchProcessor(EventType.SQS))

    worker = kit.worker()
    worker.job("leaving")(leave)

    answer = worker.handler(event(job("a", {}), job("b", {})), Context())

    assert returned(answer) == []
    assert len(kit.copies()) == 2


@pytest.mark.slow
def test_response_stands_before_the_last_flush_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a fault but a limit: nothing that fails after the last record is in the response."""
    buffered: list[str] = []
    only = record("1")
    answer = process([only], lambda one: buffered.append(one.body), BatchProcessor(EventType.SQS))
    flushed = False  # What was buffered could not be stored.
    assert (answer, buffered, flushed) == ([], ["1"], False)

    with started_valkey() as server, ExitStack() as at_end:
        url = f"redis://127.0.0.1:{server.port}"
        quick_to_give_up = {
            "SEKALI_DURABLE_MODE": "redis",
            "SEKALI_CACHE_TIMEOUT_SECONDS": "0.3",
        }
        kit = at_end.enter_context(started_kit(monkeypatch, url, **quick_to_give_up))
        client = at_end.enter_context(Redis.from_url(url))
        worker = kit.worker()

        @worker.job("last")
        def last(_: Job) -> str:
            client.client_pause(SILENT_MILLISECONDS)
            return "done, and nobody knows"

        only = job("a", {})
        answer = returned(worker.handler(event(only), Context(seconds=3.0)))

    assert answer == [only["messageId"]]
