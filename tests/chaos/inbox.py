"""The poller's way to its queue, where messages are delivered again although they are at work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class Inbox:
    """Stands in for the client that a poller gets: the two calls that it makes."""

    def __init__(self, sqs: SQSClient) -> None:
        self._sqs = sqs
        self._lock = threading.Lock()
        self._in_flight: dict[str, tuple[str, str]] = {}
        self._lose = 0
        self.lost_deletes = 0

    def receive_message(self, **arguments: Any) -> Any:  # Any: as the client's own
        """Receive, and remember what is in flight."""
        answer = self._sqs.receive_message(**arguments)
        with self._lock:
            for message in answer.get("Messages", []):
                self._in_flight[message["ReceiptHandle"]] = (
                    arguments["QueueUrl"],
                    message["ReceiptHandle"],
                )
        return answer

    def delete_message_batch(self, **arguments: Any) -> Any:  # Any: as the client's own
        """Delete, unless this deletion is to be lost."""
        with self._lock:
            for entry in arguments["Entries"]:
                self._in_flight.pop(entry["ReceiptHandle"], None)
            lose, self._lose = self._lose > 0, max(self._lose - 1, 0)
            self.lost_deletes += lose
        return {} if lose else self._sqs.delete_message_batch(**arguments)

    def deliver_again(self) -> int:
        """Make everything that is in flight visible, and lose the next deletion."""
        with self._lock:
            handles, self._lose = list(self._in_flight.values()), 1
            self._in_flight.clear()
        for start in range(0, len(handles), 10):
            entries: list[Any] = [  # Any: the stubs want a type for what is a plain dict
                {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": 0}
                for index, (_, handle) in enumerate(handles[start : start + 10])
            ]
            self._sqs.change_message_visibility_batch(QueueUrl=handles[0][0], Entries=entries)
        return len(handles)
