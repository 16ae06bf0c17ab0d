"""The poller against a real queue server: what is deleted, what comes back, and when."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.environment import Outcome
from infra.local.event_source import Delivery, EventSource, Source
from infra.local.fleet import FleetClosed
from infra.local.template import EventSourceMapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.local.aws import Aws
    from infra.local.environment import Kind

pytestmark = pytest.mark.slow

Records = list[dict[str, Any]]  # As a handler sees them.


class Queue:
    """A queue of its own for one test."""

    def __init__(self, local_aws: Aws, **attributes: str) -> None:
        name = f"q-{uuid.uuid4().hex}" + (".fifo" if "FifoQueue" in attributes else "")
        self.sqs = local_aws.sqs
        created = self.sqs.create_queue(QueueName=name, Attributes=attributes)  # type: ignore[arg-type]  # Literal names.
        self.url = created["QueueUrl"]
        self.arn = f"arn:aws:sqs:us-east-1:000000000000:{name}"

    def send(self, *bodies: str, group: str | None = None) -> None:
        for body in bodies:
            extra: dict[str, Any] = {}  # boto3's keywords.
            if group is not None:
                extra = {"MessageGroupId": group, "MessageDeduplicationId": uuid.uuid4().hex}
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **extra)

    def waiting(self) -> int:
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        return sum(
            int(value)
            for name, value in found["Attributes"].items()
            if name.startswith("ApproximateNumberOfMessages")
        )


class Function:
    """A function that answers as told, and remembers the batches that it was given."""

    def __init__(
        self, answer: Callable[[Records], Any] | None = None, kind: Kind = "answered"
    ) -> None:
        self.answer = answer or failing()
        self.kind: Kind = kind
        self.batches: list[Records] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self.seconds = 0.0

    def invoke(self, event: bytes, *, records: int) -> Outcome:
        batch = json.loads(event)["Records"]
        assert len(batch) == records
        with self._lock:
            self.batches.append(batch)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(self.seconds)
        with self._lock:
            self._now -= 1
        return Outcome(
            kind=self.kind,
            request_id="request",
            payload=json.dumps(self.answer(batch)).encode(),
            started_at=0.0,
            seconds=0.0,
            round_trips=0,
        )

    @property
    def bodies(self) -> list[str]:
        return [record["body"] for batch in self.batches for record in batch]


@contextmanager
def polling(queue: Queue, function: Function, **numbers: Any) -> Iterator[list[Delivery]]:
    """Poll with a mapping of these numbers; yields the deliveries as they happen."""
    defaults: dict[str, Any] = {  # The mapping's fields.
        "batch_size": 10,
        "window_seconds": 0.0,
        "partial_batches": True,
        "max_concurrency": 2,
    }
    deliveries: list[Delivery] = []
    source = EventSource(
        EventSourceMapping(
            logical_id="Feed", function="Worker", queue="Work", **{**defaults, **numbers}
        ),
        source=Source(url=queue.url, arn=queue.arn),
        sqs=queue.sqs,
        invoke=function.invoke,
        on_delivery=deliveries.append,
    )
    source.start()
    try:
        yield deliveries
    finally:
        source.stop()
        source.join()
    assert source.crashed is None


def wait_for(condition: Callable[[], bool], *, within_seconds: float = 30.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def failing(*bodies: str) -> Callable[[Records], Any]:
    return lambda records: {
        "batchItemFailures": [
            {"itemIdentifier": record["messageId"]}
            for record in records
            if record["body"] in bodies
        ]
    }


def test_messages_of_an_answer_without_failures_are_deleted(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    queue.send("a", "b", "c")

    with polling(queue, function) as deliveries:
        wait_for(lambda: len(deliveries) == 3)

    assert queue.waiting() == 0
    assert sorted(function.bodies) == ["a", "b", "c"]
    assert all(delivery.deleted for delivery in deliveries)


def test_a_failed_message_comes_back_after_its_visibility_with_a_higher_count(
    local_aws: Aws,
) -> None:
    queue = Queue(local_aws, VisibilityTimeout="3")
    function = Function(failing("b"))
    queue.send("a", "b")

    with polling(queue, function):
        wait_for(lambda: Counter(function.bodies)["b"] >= 2)

    assert Counter(function.bodies)["a"] == 1
    counts = [
        record["attributes"]["ApproximateReceiveCount"]
        for batch in function.batches
        for record in batch
        if record["body"] == "b"
    ]
    assert counts[:2] == ["1", "2"]


@pytest.mark.parametrize("kind", ["failed", "timed_out", "died", "init_failed"])
def test_the_whole_batch_returns_after_an_error(local_aws: Aws, kind: Kind) -> None:
    queue, function = Queue(local_aws), Function(kind=kind)
    queue.send("a", "b")

    with polling(queue, function) as deliveries:
        wait_for(lambda: len(deliveries) == 2)

    assert queue.waiting() == 2
    assert not any(delivery.deleted for delivery in deliveries)


def test_an_unknown_identifier_returns_the_whole_batch(local_aws: Aws) -> None:
    def name_a_stranger(records: Records) -> Any:  # A handler's answer.
        del records
        return {"batchItemFailures": [{"itemIdentifier": "stranger"}]}

    queue, function = Queue(local_aws), Function(name_a_stranger)
    queue.send("a", "b")

    with polling(queue, function) as deliveries:
        wait_for(lambda: len(deliveries) == 2)

    assert queue.waiting() == 2


def test_failures_are_deleted_where_partial_batches_are_off(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function(failing("b"))
    queue.send("a", "b")

    with polling(queue, function, partial_batches=False) as deliveries:
        wait_for(lambda: len(deliveries) == 2)

    assert queue.waiting() == 0


def test_a_message_received_too_often_goes_to_the_dead_letters(local_aws: Aws) -> None:
    dead = Queue(local_aws)
    policy = json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 2})
    queue = Queue(local_aws, VisibilityTimeout="0", RedrivePolicy=policy)
    function = Function(failing("a"))
    queue.send("a")

    with polling(queue, function):
        wait_for(lambda: dead.waiting() == 1)

    assert function.bodies == ["a", "a"]
    assert queue.waiting() == 0


def test_a_batch_above_ten_is_gathered_within_its_window(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    queue.send(*(str(number) for number in range(25)))

    started = time.monotonic()
    with polling(queue, function, batch_size=25, window_seconds=20.0, max_concurrency=1):
        wait_for(lambda: len(function.bodies) == 25)

    assert [len(batch) for batch in function.batches] == [25]
    assert time.monotonic() - started < 10


def test_a_batch_that_does_not_fill_fires_when_its_window_is_over(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    queue.send("a")

    with polling(queue, function, batch_size=20, window_seconds=3.0, max_concurrency=1):
        time.sleep(0.3)
        queue.send("b")
        early = len(function.batches)
        wait_for(lambda: len(function.bodies) == 2)

    assert early == 0
    assert [len(batch) for batch in function.batches] == [2]


def test_a_batch_fires_before_it_is_larger_than_six_megabytes(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    queue.send(*["x" * 1_000_000 for _ in range(8)])

    with polling(queue, function, batch_size=100, window_seconds=4.0, max_concurrency=1):
        wait_for(lambda: len(function.bodies) == 8)

    sizes = [sum(len(record["body"]) for record in batch) for batch in function.batches]
    assert sizes == [6_000_000, 2_000_000]


def test_pollers_grow_to_the_maximum_concurrency_and_no_further(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    function.seconds = 0.2
    queue.send(*(str(number) for number in range(150)))

    with polling(queue, function, batch_size=2, max_concurrency=7):
        wait_for(lambda: function.most_at_once >= 7)
        seen = len(function.batches)
        wait_for(lambda: len(function.batches) >= min(seen + 14, 75))

    assert function.most_at_once == 7


def test_a_fifo_group_is_with_one_poller_at_a_time_and_in_order(local_aws: Aws) -> None:
    queue, function = Queue(local_aws, FifoQueue="true"), Function()
    function.seconds = 0.05
    for number in range(6):
        queue.send(f"a{number}", group="a")
        queue.send(f"b{number}", group="b")

    with polling(queue, function, batch_size=2, max_concurrency=4) as deliveries:
        wait_for(lambda: len(deliveries) == 12)

    for group in "ab":
        ours = [body for body in function.bodies if body[0] == group]
        assert ours == [f"{group}{number}" for number in range(6)]
    groups = {record["attributes"]["MessageGroupId"] for b in function.batches for record in b}
    assert groups == {"a", "b"}


def test_the_rest_of_a_fifo_group_waits_until_its_failed_message_is_back(local_aws: Aws) -> None:
    queue = Queue(local_aws, FifoQueue="true", VisibilityTimeout="3")
    failed_once: set[str] = set()

    def fail_first(records: Records) -> Any:  # A handler's answer.
        body = records[0]["body"]
        if body == "a0" and body not in failed_once:
            failed_once.add(body)
            return {"batchItemFailures": [{"itemIdentifier": records[0]["messageId"]}]}
        return None

    function = Function(fail_first)
    queue.send("a0", "a1", group="a")
    queue.send("b0", group="b")

    with polling(queue, function, batch_size=1, max_concurrency=1):
        wait_for(lambda: len(function.bodies) == 4)

    assert function.bodies == ["a0", "b0", "a0", "a1"]


def test_a_record_carries_what_sqs_says_about_the_message(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()
    before_ms = int(time.time() * 1000)
    queue.sqs.send_message(
        QueueUrl=queue.url,
        MessageBody="a",
        MessageAttributes={"sekali.job": {"DataType": "String", "StringValue": "delays"}},
        MessageSystemAttributes={
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-a-b;Sampled=1"}
        },
    )

    with polling(queue, function) as deliveries:
        wait_for(lambda: len(deliveries) == 1)

    ((record,),) = function.batches
    attributes = record["attributes"]
    assert attributes["AWSTraceHeader"] == "Root=1-a-b;Sampled=1"
    assert attributes["ApproximateReceiveCount"] == "1"
    assert before_ms <= int(attributes["SentTimestamp"]) <= int(time.time() * 1000)
    assert record["messageAttributes"]["sekali.job"]["stringValue"] == "delays"
    assert record["eventSourceARN"] == queue.arn


def test_a_poller_backs_off_after_errors(local_aws: Aws) -> None:
    queue = Queue(local_aws, VisibilityTimeout="0")
    function = Function(kind="failed")
    queue.send("a")

    began = time.monotonic()
    with polling(queue, function, max_concurrency=1):
        time.sleep(1.0)
        wait_for(lambda: len(function.batches) >= 2)

    assert len(function.batches) <= 4 * (time.monotonic() - began)


def test_a_stopping_stack_ends_its_pollers_without_an_error(local_aws: Aws) -> None:
    queue, function = Queue(local_aws), Function()

    def refuse(records: Records) -> Any:  # Never answers.
        del records
        raise FleetClosed

    function.answer = refuse
    queue.send("a")

    with polling(queue, function) as deliveries:
        wait_for(lambda: len(function.batches) == 1)

    assert deliveries == []
