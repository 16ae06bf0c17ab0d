"""Record which calls a function made to the AWS interfaces and how each was answered.

Read off the wire, so that it holds whatever the function believes: a write counts once the server
has accepted it. Only heads, the bodies of requests, and the kind of a refusal are looked at.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.local.kept import ENOUGH, Kept

_HEAD_END: Final = b"\r\n\r\n"
_WRITES: Final = frozenset(
    {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
)
# What a batch holds, by the call that sends it.
_ENTRIES: Final = {"DeleteMessageBatch": "Entries", "SendMessageBatch": "Entries"}
_REFUSAL: Final = re.compile(rb'"__type"\s*:\s*"([^"]+)"')
_CONTINUE: Final = 100
_OK: Final = 200
_REDIRECT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCall:
    """One answered call. `items` are (table, item or key) of a write, as DynamoDB JSON.

    `at` is when the answer came, in Unix seconds. `targets` are the tables, or the queue's URL;
    `entries` is how many messages or keys it is about. `refusal` names the error of an answer that
    is one.
    """

    service: str
    operation: str
    status: int
    at: float
    items: tuple[tuple[str, Any], ...]  # DynamoDB's typed JSON.
    targets: tuple[str, ...] = ()
    entries: int = 1
    request_bytes: int = 0
    seconds: float = 0.0
    refusal: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the server did what it was asked for."""
        return _OK <= self.status < _REDIRECT


class AwsCalls:
    """The newest `kept` calls of the stack's functions, in the order of their answers."""

    def __init__(self, *, kept: int = ENOUGH) -> None:
        self._calls: Kept[AwsCall] = Kept("calls", limit=kept)
        self._listeners: list[Callable[[AwsCall], None]] = []
        self.unreadable = 0

    def listen(self, listener: Callable[[AwsCall], None]) -> None:
        """Call `listener` with every call, from the thread that sees it."""
        self._listeners.append(listener)

    def observe(self) -> "HttpObserver":
        """Watch one more connection."""
        return HttpObserver(self)

    def add(self, call: AwsCall) -> None:
        """Take in an answered call."""
        self._calls.add(call)
        for listener in self._listeners:
            listener(call)

    def limit(self, kept: int) -> None:
        """Keep so many calls from now on."""
        self._calls.limit(kept)

    def all(self) -> list[AwsCall]:
        """Answer the calls so far.

        Raises:
            HistoryCut: There were more than are kept.
        """
        return self._calls.all()

    def accepted_writes(self, table: str) -> list[tuple[float, Any]]:  # DynamoDB's typed JSON.
        """Answer when, and which item or key, for every write that `table` accepted."""
        return [
            (call.at, item)
            for call in self.all()
            if call.accepted
            for name, item in call.items
            if name == table
        ]


class HttpObserver:
    """One HTTP/1.1 connection: requests and answers take turns."""

    def __init__(self, calls: AwsCalls) -> None:
        self._calls = calls
        self._request = bytearray()
        self._answer = bytearray()
        self._answered = True
        self._began = 0.0

    def sent(self, data: bytes) -> None:
        """Collect the request; the first byte after an answer begins a new one."""
        if self._answered:
            self._request.clear()
            self._answer.clear()
            self._answered = False
            self._began = time.monotonic()
        self._request += data

    def settled(self, *, client: int) -> bool:
        """Hold nothing back."""
        del client
        return True

    def received(self, data: bytes) -> None:
        """Read the answer's status, once its head is there."""
        if self._answered:
            return
        self._answer += data
        while (end := self._answer.find(_HEAD_END)) >= 0:
            try:
                status = int(self._answer[:end].split(b" ", 2)[1])
                if _CONTINUE <= status < _OK:
                    # "Go on with the body": the answer is still to come.
                    del self._answer[: end + len(_HEAD_END)]
                    continue
                refusal = _refusal(self._answer[end:]) if status >= _REDIRECT else ""
                seconds = time.monotonic() - self._began
                self._calls.add(_call(bytes(self._request), status, refusal, seconds))
            except (ValueError, IndexError):
                self._calls.unreadable += 1
            self._answered = True
            return


def _call(request: bytes, status: int, refusal: str, seconds: float) -> AwsCall:
    head, _, body = request.partition(_HEAD_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    target = headers.get("x-amz-target", "")
    service, _, operation = target.partition(".")
    if not target:
        # S3 names its operations by method and path.
        return AwsCall(
            service="s3",
            operation=first.split(" ")[0],
            status=status,
            at=time.time(),
            items=(),
            seconds=seconds,
        )
    asked = json.loads(body) if body else {}
    return AwsCall(
        service=service.partition("_")[0].lower().removeprefix("amazon"),
        operation=operation,
        status=status,
        at=time.time(),
        items=tuple(_written(asked)) if operation in _WRITES else (),
        targets=_targets(asked),
        entries=_entries(operation, asked),
        request_bytes=len(body),
        seconds=seconds,
        refusal=refusal,
    )


def _refusal(answer: bytearray) -> str:
    found = _REFUSAL.search(answer)
    return "" if found is None else found[1].decode(errors="replace").rpartition("#")[2]


def _targets(body: Any) -> tuple[str, ...]:  # Any JSON.
    if "QueueUrl" in body:
        return (str(body["QueueUrl"]),)
    if "TableName" in body:
        return (str(body["TableName"]),)
    return tuple(body.get("RequestItems") or ())


def _entries(operation: str, body: Any) -> int:  # Any JSON.
    if operation in _ENTRIES:
        return len(body.get(_ENTRIES[operation]) or ())
    if operation == "BatchGetItem":
        return sum(
            len(asked.get("Keys") or ()) for asked in (body.get("RequestItems") or {}).values()
        )
    return 1


def _written(body: Any) -> Iterator[tuple[str, Any]]:  # DynamoDB's typed JSON.
    """Yield (table, item or key) of each write that a request asks for."""
    if "TableName" in body:
        yield body["TableName"], body.get("Item") or body.get("Key")
    for table, requests in (body.get("RequestItems") or {}).items():
        for request in requests:
            for write in request.values():
                yield table, write.get("Item") or write.get("Key")
    for action in body.get("TransactItems") or ():
        for kind, write in action.items():
            if kind != "ConditionCheck":
                yield write["TableName"], write.get("Item") or write.get("Key")
