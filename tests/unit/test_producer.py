"""The producer: what it sends, what it repeats, what it reports."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from sekali.errors import MessageInvalid
from sekali.message import decode, derive_id
from sekali.outgoing import MAX_MESSAGE_BYTES
from sekali.producer import Producer
from sekali.sending import Request

QUEUE = "https://queue.example/jobs"
Entry = Mapping[str, Any]  # Any: the fields of a boto3 call
Answer = Callable[[Sequence[Entry]], Mapping[str, object]]


def accept(entries: Sequence[Entry]) -> Mapping[str, object]:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries], "Failed": []}


def refuse(bad_id: str, *, sender_fault: bool) -> Answer:
    """Refuse the entry of one job, accept the others."""

    def answer(entries: Sequence[Entry]) -> Mapping[str, object]:
        failed = [entry for entry in entries if json.loads(entry["MessageBody"])["id"] == bad_id]
        taken = [entry for entry in entries if entry not in failed]
        return {
            "Successful": [{"Id": entry["Id"]} for entry in taken],
            "Failed": [
                {"Id": entry["Id"], "Code": "Bad", "Message": "m", "SenderFault": sender_fault}
                for entry in failed
            ],
        }

    return answer


class Queue:
    """Stand in for the SQS client: answers as told, then accepts everything."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.batches: list[Sequence[Entry]] = []
        self.singles: list[Entry] = []

    def send_message_batch(self, **call: Any) -> Mapping[str, object]:  # Any: as boto3
        assert call["QueueUrl"].startswith(QUEUE)
        self.batches.append(call["Entries"])
        answer = self.answers.pop(0) if self.answers else accept
        if isinstance(answer, Exception):
            raise answer
        return answer(call["Entries"])

    def send_message(self, **call: Any) -> Mapping[str, object]:  # Any: as boto3
        self.singles.append(call)
        return {"MessageId": "m"}


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def wall(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def producer(queue: Queue, *, clock: FakeClock | None = None, url: str = QUEUE) -> Producer:
    clock = clock or FakeClock()
    return Producer(url, queue, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type] # a fake


def request(job_id: str, **fields: Any) -> Request:  # Any: fields of the test's choice
    return Request(name="report", payload={"x": 1}, id=job_id, **fields)


def requests(number: int) -> list[Request]:
    return [request(f"id-{index}") for index in range(number)]


def bodies(queue: Queue) -> list[str]:
    return [json.loads(entry["MessageBody"])["id"] for batch in queue.batches for entry in batch]


def server_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "SendMessageBatch")


def test_sent_job_is_one_that_a_worker_accepts() -> None:
    queue = Queue()

    job_id = producer(queue).send("report", {"month": "2013-01"}, key="k", delay_seconds=5)

    [call] = queue.singles
    message = decode({"body": call["MessageBody"]}, default_job=None)
    assert (message.id, message.name, message.key) == (job_id, "report", "k")
    assert message.payload == {"month": "2013-01"}
    assert message.enqueued_at == 1_000.0
    assert call["DelaySeconds"] == 5
    assert "Id" not in call


def test_job_without_id_gets_the_one_that_a_plain_body_would_get() -> None:
    job_id = producer(Queue()).send("report", {"month": "2013-01"})

    assert job_id == derive_id("report", {"month": "2013-01"})
    assert job_id == decode({"body": '{"month": "2013-01"}'}, default_job="report").id


def test_trace_of_the_running_function_travels_with_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-current")
    queue = Queue()

    producer(queue).send("report", {"x": 1})
    producer(queue).send("report", {"x": 1}, trace="Root=1-given")

    headers = [
        call["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"] for call in queue.singles
    ]
    assert headers == ["Root=1-current", "Root=1-given"]


def test_fifo_queue_gets_a_group_and_a_deduplication_id_per_job() -> None:
    queue = Queue()
    sender = producer(queue, url=f"{QUEUE}.fifo")

    sender.send("report", {"x": 1}, id="weird id\n", group="tenant")
    sender.send("report", {"x": 1}, id="weird id\n")
    sender.send("report", {"x": 1}, id="other")

    given, same, other = queue.singles
    assert given["MessageGroupId"] == "tenant"
    assert given["MessageDeduplicationId"] == same["MessageDeduplicationId"]
    assert same["MessageGroupId"] != other["MessageGroupId"]
    assert same["MessageDeduplicationId"].isalnum()
    assert same["MessageDeduplicationId"] != other["MessageDeduplicationId"]


@pytest.mark.parametrize(
    ("name", "payload", "job_id", "field"),
    [
        ("no such", {}, "a", "name"),
        ("report", {"x": {1, 2}}, "a", "payload.x"),
        ("report", {"x": float("nan")}, "a", "payload.x"),
        ("report", {1: "x"}, "a", "payload"),
        ("report", [1], "a", "payload"),
        ("report", {"x": 1}, "", "id"),
        ("report", {"x": 1}, "i" * 513, "id"),
        ("report", {"x": "é" * (MAX_MESSAGE_BYTES // 2)}, "a", "body"),
    ],
)
def test_job_that_no_worker_would_accept_is_not_sent(
    name: str, payload: Any, job_id: str, field: str
) -> None:
    queue = Queue()

    with pytest.raises(MessageInvalid) as caught:
        producer(queue).send(name, payload, id=job_id)

    assert caught.value.field == field
    assert not queue.singles


@pytest.mark.parametrize(
    ("url", "options", "field"),
    [
        (QUEUE, {"delay_seconds": 901}, "delay_seconds"),
        (QUEUE, {"delay_seconds": -1}, "delay_seconds"),
        (QUEUE, {"delay_seconds": 1.5}, "delay_seconds"),
        (f"{QUEUE}.fifo", {"delay_seconds": 1}, "delay_seconds"),
        (QUEUE, {"group": "a b"}, "group"),
        (QUEUE, {"group": ""}, "group"),
        (QUEUE, {"group": "x" * 129}, "group"),
        (QUEUE, {"key": ""}, "key"),
        (QUEUE, {"key": {1}}, "key"),
        (QUEUE, {"id": 7}, "id"),
    ],
)
def test_option_that_the_queue_would_refuse_is_named(
    url: str, options: dict[str, Any], field: str
) -> None:
    queue = Queue()
    sender = producer(queue, url=url)
    refused = Request(name="report", payload={"x": 1}, **options)

    with pytest.raises(MessageInvalid) as caught:
        sender.send("report", {"x": 1}, **options)
    sent = sender.send_many([refused, Request(name="report", payload={"x": 2})])

    assert caught.value.field == field
    assert [(lost.request, lost.code) for lost in sent.unsent] == [(refused, "wrong_type")]
    assert len(sent.ids) == 1


def test_standard_queue_is_made_fair_by_a_group_and_needs_none() -> None:
    queue = Queue()

    producer(queue).send("report", {"x": 1}, group="tenant-7")
    producer(queue).send("report", {"x": 1})

    assert [call.get("MessageGroupId") for call in queue.singles] == ["tenant-7", None]
    assert "MessageDeduplicationId" not in queue.singles[0]


def test_many_jobs_go_in_batches_of_ten() -> None:
    queue = Queue()

    sent = producer(queue).send_many(requests(25))

    assert [len(batch) for batch in queue.batches] == [10, 10, 5]
    assert sent.ids == [f"id-{index}" for index in range(25)]
    assert not sent.unsent


def test_batch_never_exceeds_one_mebibyte() -> None:
    queue = Queue()
    large = [
        Request(name="report", payload={"x": "é" * 200_000}, id=str(index)) for index in range(5)
    ]

    sent = producer(queue).send_many(large)

    assert [len(batch) for batch in queue.batches] == [2, 2, 1]
    assert len(sent.ids) == 5


def test_requests_are_read_lazily() -> None:
    queue = Queue()
    read = count()

    producer(queue).send_many(request(f"id-{next(read)}") for _ in range(15))

    assert [len(batch) for batch in queue.batches] == [10, 5]


def test_only_the_failed_entry_is_sent_again() -> None:
    queue = Queue(refuse("id-1", sender_fault=False))

    sent = producer(queue).send_many(requests(3))

    assert bodies(queue) == ["id-0", "id-1", "id-2", "id-1"]
    assert sent.ids == ["id-0", "id-2", "id-1"]
    assert not sent.unsent


def test_entry_that_the_queue_calls_our_fault_is_reported_and_not_repeated() -> None:
    queue = Queue(refuse("id-1", sender_fault=True))

    sent = producer(queue).send_many(requests(3))

    assert bodies(queue) == ["id-0", "id-1", "id-2"]
    assert [(lost.request.id, lost.code, lost.error) for lost in sent.unsent] == [
        ("id-1", "Bad", "m")
    ]


def test_invalid_job_is_reported_and_keeps_nobody_back() -> None:
    queue = Queue()
    invalid = Request(name="report", payload={"x": float("inf")}, id="bad")

    sent = producer(queue).send_many([request("a"), invalid, request("b")])

    assert sent.ids == ["a", "b"]
    assert [(lost.request, lost.code) for lost in sent.unsent] == [(invalid, "wrong_type")]


@pytest.mark.parametrize(
    "failure",
    [
        EndpointConnectionError(endpoint_url=QUEUE),
        server_error("InternalError", 500),
        server_error("RequestThrottled", 403),
    ],
)
def test_batch_whose_fate_is_unknown_is_sent_again_whole(failure: Exception) -> None:
    queue = Queue(failure)

    sent = producer(queue).send_many(requests(2))

    assert bodies(queue) == ["id-0", "id-1", "id-0", "id-1"]
    assert sent.ids == ["id-0", "id-1"]


def test_entry_that_the_reply_does_not_mention_is_sent_again() -> None:
    queue = Queue(lambda entries: accept(entries[:1]))

    sent = producer(queue).send_many(requests(2))

    assert sent.ids == ["id-0", "id-1"]


def test_refused_batch_is_reported_at_once() -> None:
    queue = Queue(server_error("AccessDenied", 403))

    sent = producer(queue).send_many(requests(2))

    assert len(queue.batches) == 1
    assert [(lost.request.id, lost.code) for lost in sent.unsent] == [
        ("id-0", "AccessDenied"),
        ("id-1", "AccessDenied"),
    ]


def test_repeats_end_with_the_budget_and_the_rest_is_reported() -> None:
    clock = FakeClock()
    queue = Queue(*[EndpointConnectionError(endpoint_url=QUEUE)] * 1_000)

    sent = producer(queue, clock=clock).send_many(requests(11), budget_seconds=30.0)

    assert [lost.request.id for lost in sent.unsent] == [f"id-{index}" for index in range(11)]
    assert clock.seconds - 1_000.0 <= 30.0
    assert len(queue.batches) < 30


def test_import_brings_neither_powertools_nor_redis_nor_boto3() -> None:
    probe = (
        "import sys, sekali.results; from sekali import AsyncProducer, Producer, Request; "
        "AsyncProducer(Producer('https://queue', bucket='b', table_name='t')); "
        "heavy = {'aws_lambda_powertools', 'redis', 'boto3', 'botocore', 'aws_xray_sdk'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={"PYTHONPATH": "layers/sekali/python"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"
