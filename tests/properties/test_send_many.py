"""Whatever the queue answers, each job is either confirmed or reported, and never both."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from sekali import Producer, Request
from sekali.outgoing import MAX_ENTRIES, MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

QUEUE = "https://sqs.eu-west-1.amazonaws.com/1/jobs"

# What becomes of one entry, and of one whole call.
entry_fates = st.sampled_from(["taken", "taken", "passing", "refused", "unmentioned"])
call_fates = st.sampled_from(
    ["answered"] * 4 + ["unreachable", "throttled", "denied", "lost_reply"]
)


class Queue:
    """Answer as the drawn fates say; afterwards take everything."""

    def __init__(self, calls: Sequence[str], entries: Sequence[str]) -> None:
        self.calls = list(calls)
        self.entries = list(entries)
        self.taken: Counter[str] = Counter()
        self.sizes: list[tuple[int, int]] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: Any) -> Any:  # noqa: N803 - as boto3
        assert QueueUrl == QUEUE
        total_bytes = sum(len(entry["MessageBody"].encode()) for entry in Entries)
        self.sizes.append((len(Entries), total_bytes))
        call = self.calls.pop(0) if self.calls else "answered"
        if call == "unreachable":
            raise EndpointConnectionError(endpoint_url=QUEUE)
        if call in {"throttled", "denied"}:
            code = {"throttled": "RequestThrottled", "denied": "AccessDenied"}[call]
            response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            raise ClientError(response, "SendMessageBatch")
        reply = self._reply(Entries)
        if call == "lost_reply":
            raise EndpointConnectionError(endpoint_url=QUEUE)
        return reply

    def _reply(self, entries: Any) -> Any:  # Any: as boto3
        reply: dict[str, list[dict[str, object]]] = {"Successful": [], "Failed": []}
        for entry in entries:
            fate = self.entries.pop(0) if self.entries else "taken"
            if fate == "taken":
                self.taken[json.loads(entry["MessageBody"])["id"]] += 1
                reply["Successful"].append({"Id": entry["Id"]})
            elif fate != "unmentioned":
                reply["Failed"].append(
                    {"Id": entry["Id"], "Code": fate, "SenderFault": fate == "refused"}
                )
        return reply


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def wall(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


requests = st.lists(
    st.sampled_from([1, 1, 1, 100_000, 300_000, 700_000, MAX_MESSAGE_BYTES]), max_size=25
).map(
    lambda sizes: [
        Request(name="report", payload={"x": "y" * size}, id=f"id-{index}")
        for index, size in enumerate(sizes)
    ]
)


@given(
    asked=requests,
    calls=st.lists(call_fates, max_size=6),
    entries=st.lists(entry_fates, max_size=40),
    budget_seconds=st.sampled_from([0.0, 0.2, 20.0]),
)
def test_each_job_is_confirmed_or_reported(
    asked: list[Request], calls: list[str], entries: list[str], budget_seconds: float
) -> None:
    queue, clock = Queue(calls, entries), Clock()
    sender = Producer(QUEUE, queue, clock=clock, sleep=clock.sleep)  # type: ignore[arg-type] # a fake

    sent = sender.send_many(asked, budget_seconds=budget_seconds)

    reported = [lost.request.id for lost in sent.unsent]
    assert sorted([*sent.ids, *map(str, reported)]) == sorted(str(one.id) for one in asked)
    assert all(queue.taken[job_id] >= 1 for job_id in sent.ids)
    assert clock.seconds <= budget_seconds
    assert all(
        count <= MAX_ENTRIES and total_bytes <= MAX_MESSAGE_BYTES
        for count, total_bytes in queue.sizes
    )
