"""AWS/SQS: messages sent, received and deleted; how many wait, and for how long.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import Datum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from infra.local.aws import Aws
    from infra.local.aws_calls import AwsCall
    from infra.local.cloudwatch.store import MetricStore
    from infra.local.template import Queue

_NAMESPACE: Final = "AWS/SQS"
_GAUGES: Final = {
    "ApproximateNumberOfMessages": "ApproximateNumberOfMessagesVisible",
    "ApproximateNumberOfMessagesNotVisible": "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed": "ApproximateNumberOfMessagesDelayed",
}
# A message that was received so often counts as poison, and is left out of the age.
_POISON_RECEIVES: Final = 3
_COUNTED: Final = {
    "DeleteMessage": "NumberOfMessagesDeleted",
    "DeleteMessageBatch": "NumberOfMessagesDeleted",
    "SendMessage": "NumberOfMessagesSent",
    "SendMessageBatch": "NumberOfMessagesSent",
}
_WITHIN_SECONDS: Final = 5.0
# So many times as long as a look takes, nobody looks again: 2.5 % of the server's time at most.
_COST_FACTOR: Final = 40.0


class SqsMeter:
    """Puts what is done to the queues, and looks at them when it is told to."""

    def __init__(self, store: MetricStore, *, aws: Aws, queues: Iterable[Queue]) -> None:
        self._store = store
        self._aws = aws
        self._queues = list(queues)
        self._found: dict[str, float | None] = {}
        self._look_at: dict[str, float] = {}
        events = aws.sqs.meta.events
        # The pollers and whoever sends from outside use this client; functions have their own way.
        events.register("before-parameter-build.sqs", _remember)
        events.register("after-call.sqs", self._called)

    def heard(self, call: AwsCall) -> None:
        """Take in a function's call to the queues."""
        if call.service == "sqs" and call.accepted and call.operation in _COUNTED:
            self._put(_queue_name(call.targets[0]), _COUNTED[call.operation], call.entries, call.at)

    def sample(self) -> None:
        """Read how many messages each queue holds, and since when."""
        for queue in self._queues:
            url, at = self._aws.queue_url(queue), time.time()
            found = self._aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            # Any: the stubs want literal names.
            told: Any = found["Attributes"]
            for attribute, name in _GAUGES.items():
                self._put(queue.name, name, float(told[attribute]), at)
            empty = not any(int(told[attribute]) for attribute in _GAUGES)
            oldest = self._oldest(queue.name, url, at, empty=empty)
            age = 0.0 if oldest is None else max(0.0, at - oldest)
            self._put(queue.name, "ApproximateAgeOfOldestMessage", age, at, "Seconds")

    def _oldest(self, queue: str, url: str, now: float, *, empty: bool) -> float | None:
        """Answer since when the oldest message waits, in Unix seconds."""
        if empty:
            self._found[queue] = None
        elif now >= self._look_at.get(queue, 0.0):
            began = time.monotonic()
            self._found[queue] = min(self._sent_at(url), default=None)
            # The server hands out whole messages: a long queue is looked at less often.
            self._look_at[queue] = now + _COST_FACTOR * (time.monotonic() - began)
        return self._found.get(queue)

    def _sent_at(self, url: str) -> Iterator[float]:
        """Yield since when each message waits, in Unix seconds; poison is left out."""
        asked = urllib.parse.urlencode({"QueueUrl": url})
        address = f"{self._aws.endpoint}/_ministack/sqs/messages?{asked}"
        with urllib.request.urlopen(address, timeout=_WITHIN_SECONDS) as answer:  # noqa: S310
            told = json.load(answer)
        for message in _messages(told):
            if message["ReceiveCount"] < _POISON_RECEIVES:
                yield float(message["Attributes"]["SentTimestamp"]) / 1000

    def _called(self, **told: Any) -> None:  # Any: what botocore hands to a hook.
        operation, context, parsed = told["model"].name, told["context"], told["parsed"]
        url = context.get("sekali_queue")
        if url is None or told["http_response"].status_code != 200:  # noqa: PLR2004 - OK
            return
        if operation == "ReceiveMessage":
            received = len(parsed.get("Messages") or ())
            self._put(_queue_name(url), "NumberOfMessagesReceived", received, time.time())
        elif operation in _COUNTED:
            entries = len(parsed["Successful"]) if "Successful" in parsed else 1
            self._put(_queue_name(url), _COUNTED[operation], entries, time.time())

    def _put(self, queue: str, name: str, value: float, at: float, unit: str = "Count") -> None:
        named = metric(_NAMESPACE, name, {"QueueName": queue})
        self._store.put([Datum(name=named, values=((value, 1.0),), unit=unit, at=at)])


def _remember(params: Any, context: Any, **_: Any) -> None:  # Any: as above.
    context["sekali_queue"] = params.get("QueueUrl")


def _queue_name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def _messages(told: Any) -> Iterator[Any]:  # Any JSON: by account, region and queue.
    for regions in told["messages"].values():
        for queues in regions.values():
            for messages in queues.values():
                yield from messages
