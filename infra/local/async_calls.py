"""Lambda's asynchronous invocation: events wait in line, are tried again, and are not lost.

An event whose invocation fails is tried again after a minute and after two (CloudWatch's minutes);
then it goes to the function's failure destination, with the error beside it. So does one that finds
the line full: Lambda gives events up that have waited for six hours, which a line of this machine
would not live to see, so it is bounded by its length.
"""

import contextlib
import json
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

from infra.local.environment import Outcome
from infra.local.fleet import FleetClosed
from infra.local.template import FailureDestination

Json = Any  # An event is any JSON.

_WAIT_MINUTES: Final = (1, 2)
_LONGEST: Final = 1_000


class AsyncCalls:
    """The line of events of one function, from `start` to `stop`.

    Args:
        name: The function's, for the record of a failure.
        invoke: Runs one event to its end.
        destination: What to do with events that fail; None: forget them.
        send: Sends a body to the queue (ARN) of the destination.
        minute_seconds: How long one of CloudWatch's minutes takes.
        longest: How many events may wait.
    """

    def __init__(
        self,
        name: str,
        *,
        invoke: Callable[..., Outcome],
        destination: FailureDestination | None,
        send: Callable[[str, str], None],
        minute_seconds: float,
        longest: int = _LONGEST,
    ) -> None:
        self._name = name
        self._invoke = invoke
        self._destination = destination
        self._send = send
        self._minute_seconds = minute_seconds
        self._line: queue.Queue[Json] = queue.Queue(longest)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"events of {name}", daemon=True)

    def start(self) -> None:
        """Begin to work the line off."""
        self._thread.start()

    def call(self, event: Json) -> None:
        """Put an event in line, or give it up where the line is full."""
        try:
            self._line.put_nowait(event)
        except queue.Full:
            self._give_up(event, None, condition="EventAgeExceeded", attempts=0)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        # Whoever works a full line off sees the flag after the next event.
        with contextlib.suppress(queue.Full):
            self._line.put_nowait(None)

    def join(self) -> None:
        """Wait until the thread has ended, after `stop` and the end of what is invoked."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                event = self._line.get()
                if event is not None:
                    self._handle(event)
        except FleetClosed:
            return

    def _handle(self, event: Json) -> None:
        retries = len(_WAIT_MINUTES) if self._destination is None else self._destination.retries
        body = json.dumps(event).encode()
        outcome = self._invoke(body, records=1)
        for retry in range(retries):
            if outcome.kind == "answered":
                return
            wait = _WAIT_MINUTES[min(retry, len(_WAIT_MINUTES) - 1)] * self._minute_seconds
            if self._stopping.wait(wait):
                return
            outcome = self._invoke(body, records=1)
        if outcome.kind != "answered":
            self._give_up(event, outcome, condition="RetriesExhausted", attempts=retries + 1)

    def _give_up(
        self, event: Json, outcome: Outcome | None, *, condition: str, attempts: int
    ) -> None:
        if self._destination is None or self._destination.queue is None:
            return
        record: dict[str, Json] = {
            "version": "1.0",
            "requestContext": {
                "requestId": "" if outcome is None else outcome.request_id,
                "functionArn": self._name,
                "condition": condition,
                "approximateInvokeCount": attempts,
            },
            "requestPayload": event,
        }
        if outcome is not None:
            record["responsePayload"] = json.loads(outcome.payload or b"null")
        self._send(self._destination.queue, json.dumps(record))
