"""The line of events of one function: tried again, given up, and never longer than it may be."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.async_calls import AsyncCalls
from infra.local.environment import Outcome
from infra.local.template import FailureDestination

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.environment import Kind

WITHIN_SECONDS = 20.0
DESTINATION = FailureDestination(function="Recover", retries=2, queue="arn:undelivered")


class Function:
    """Counts invocations, ends them as told, and stands still while `going` is not set."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.bodies: list[bytes] = []
        self.began = threading.Event()
        self.going = threading.Event()
        self.going.set()

    def invoke(self, body: bytes, *, records: int) -> Outcome:
        assert records == 1
        self.bodies.append(body)
        self.began.set()
        self.going.wait(WITHIN_SECONDS)
        payload = b'{"errorType": "RuntimeError"}'
        return Outcome(
            kind=self.kind,
            request_id="r",
            payload=payload,
            started_at=0.0,
            seconds=0.0,
            round_trips=0,
        )


class Undelivered:
    """What was given up."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []  # Any: JSON
        self.sent = threading.Event()

    def send(self, queue: str, body: str) -> None:
        assert queue == DESTINATION.queue
        self.records.append(json.loads(body))
        self.sent.set()


@pytest.fixture
def undelivered() -> Undelivered:
    return Undelivered()


@pytest.fixture
def failing(undelivered: Undelivered) -> Iterator[tuple[Function, AsyncCalls]]:
    function = Function("failed")
    calls = AsyncCalls(
        "recover",
        invoke=function.invoke,
        destination=DESTINATION,
        send=undelivered.send,
        minute_seconds=0.01,
        longest=2,
    )
    calls.start()
    yield function, calls
    function.going.set()
    calls.stop()
    calls.join()


def test_event_that_fails_is_tried_twice_more_and_then_given_up(
    failing: tuple[Function, AsyncCalls], undelivered: Undelivered
) -> None:
    function, calls = failing

    calls.call({"n": 1})

    assert undelivered.sent.wait(WITHIN_SECONDS)
    (record,) = undelivered.records
    assert function.bodies == [b'{"n": 1}'] * 3
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["responsePayload"] == {"errorType": "RuntimeError"}


def test_event_that_finds_the_line_full_is_given_up_at_once(
    failing: tuple[Function, AsyncCalls], undelivered: Undelivered
) -> None:
    function, calls = failing
    function.going.clear()
    calls.call({"n": 0})
    assert function.began.wait(WITHIN_SECONDS)

    for number in range(1, 4):
        calls.call({"n": number})

    (record,) = undelivered.records
    assert record["requestPayload"] == {"n": 3}
    assert record["requestContext"]["condition"] == "EventAgeExceeded"
    assert "responsePayload" not in record
