"""Put prepared jobs on a queue: in batches by count and bytes, and again only what failed.

A resend is harmless, because the job id stays the same: where it is not known whether a message
arrived, it is sent again.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sekali.light_dataclass import dataclass
from sekali.outgoing import MAX_MESSAGE_BYTES, Outgoing, batches, entry
from sekali.telemetry.sent_traces import origin_of
from sekali.telemetry.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mypy_boto3_sqs.client import SQSClient

    from sekali.clock import Clock
    from sekali.payloads import Payload
    from sekali.telemetry.sent_traces import SentTraces

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_CLIENT_ERROR = 4
_TRACE_BYTES = 640
"""What a traceparent and the longest tracestate add to a message, beside its own size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job to be sent, for `Producer.send_many`.

    `id` says which sends are one job; left out, equal name, key and payload are. `group` is the
    message group of a FIFO queue (left out: the id, so that jobs do not wait for each other) or the
    tenant of a fair queue.
    """

    name: str
    payload: Payload
    id: str | None = None
    key: str | None = None
    delay_seconds: int = 0
    group: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """One request that is not known to have arrived, and why."""

    request: Request
    code: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of the requests: the ids of the accepted ones, as they came, and the rest."""

    ids: Sequence[str]
    unsent: Sequence[Unsent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One request that was found to be a message; `trace` is the X-Ray header that it carries."""

    request: Request
    job_id: str
    outgoing: Outgoing
    trace: str | None = None


class _Failure(NamedTuple):
    send: Prepared
    code: str
    error: str


@dataclass(slots=True, kw_only=True)
class Progress:
    """What became of the requests so far."""

    ids: list[str] = field(default_factory=list)
    unsent: list[Unsent] = field(default_factory=list)

    def refuse(self, request: Request, *, code: str, error: str) -> None:
        """Report a request that is not sent (any more)."""
        self.unsent.append(Unsent(request=request, code=code, error=error))

    def give_up(self, failures: Iterable[_Failure]) -> None:
        """Report what was tried in vain."""
        for send, code, error in failures:
            self.refuse(send.request, code=code, error=error)


class Sender:
    """Send to one queue."""

    def __init__(
        self,
        queue_url: str,
        client: Callable[[], SQSClient],
        *,
        clock: Clock,
        sleep: Callable[[float], None],
        traces: SentTraces,
    ) -> None:
        """Name the queue; nothing is connected before the first message.

        `traces` tells what a message carries of its sender's trace.
        """
        self._traces = traces
        self._queue_url = queue_url
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self.fifo = queue_url.endswith(".fifo")

    def send(self, send: Prepared) -> None:
        """Send one job; raises what the client raises, after the client's own retries."""
        with self._traces.sending(self._queue_url, 1):
            traced = self._traced(send, alone=True)
            fields = self._entry("0", traced)
            del fields["Id"]
            self._client().send_message(QueueUrl=self._queue_url, **fields)

    def send_all(
        self, sends: Iterable[Prepared], progress: Progress, *, budget_seconds: float
    ) -> None:
        """Send jobs, one batch after the other; `progress` tells what became of each."""
        give_up_at = self._clock.monotonic() + budget_seconds
        for batch in batches(sends, size_bytes=self._size_bytes):
            with self._traces.sending(self._queue_url, len(batch)):
                alone = len(batch) == 1
                traced = [self._traced(send, alone=alone) for send in batch]
                self._send_until(give_up_at, traced, progress)

    def _size_bytes(self, send: Prepared) -> int:
        carries = send.request.trace is not None or self._traces.running()
        return send.outgoing.size_bytes + (_TRACE_BYTES if carries else 0)

    def _traced(self, send: Prepared, *, alone: bool) -> Prepared:
        """Give the message the trace that its sender named, else the running one."""
        if send.request.trace is not None:
            origin = origin_of(send.request.trace)
        else:
            origin = self._traces.origin(self._queue_url, alone=alone)
        beside = {TRACEPARENT: origin.parent, TRACESTATE: origin.state}
        attributes = {
            name: {"DataType": "String", "StringValue": text}
            for name, text in beside.items()
            if text
        }
        outgoing = Outgoing(send.outgoing.body, {**send.outgoing.attributes, **attributes})
        if outgoing.size_bytes > MAX_MESSAGE_BYTES:
            outgoing = send.outgoing
        return replace(send, outgoing=outgoing, trace=origin.header)

    def _entry(self, entry_id: str, send: Prepared) -> dict[str, Any]:  # Any: of a boto3 call
        group, deduplication = send.request.group, None
        if self.fifo:
            group = group or _digest(send.job_id)
            deduplication = _digest(f"{send.request.name}/{send.job_id}")
        return entry(
            send.outgoing,
            entry_id=entry_id,
            delay_seconds=send.request.delay_seconds,
            group=group,
            deduplication=deduplication,
            trace=send.trace,
        )

    def _send_until(self, give_up_at: float, batch: list[Prepared], progress: Progress) -> None:
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            failures = self._send_batch(batch, progress)
            if not failures:
                return
            paused_seconds = random.uniform(pause_seconds / 2, pause_seconds)
            if self._clock.monotonic() + paused_seconds >= give_up_at:
                progress.give_up(failures)
                return
            self._sleep(paused_seconds)
            pause_seconds = min(_LONGEST_PAUSE_SECONDS, pause_seconds * 2)
            batch = [failure.send for failure in failures]

    def _send_batch(self, batch: list[Prepared], progress: Progress) -> list[_Failure]:
        """Send once; return what may be tried again."""
        from botocore.exceptions import BotoCoreError, ClientError

        # Any: the client's stubs type an entry by its literal keys.
        entries: Any = [self._entry(str(index), send) for index, send in enumerate(batch)]
        try:
            reply = self._client().send_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except ClientError as error:
            code = error.response["Error"].get("Code", "unknown")
            failures = [_Failure(send, code, str(error)) for send in batch]
            if not _is_ours(error.response, code):
                return failures
            progress.give_up(failures)
            return []
        except BotoCoreError as error:
            return [_Failure(send, type(error).__name__, str(error)) for send in batch]
        waiting = {str(index): send for index, send in enumerate(batch)}
        progress.ids.extend(waiting.pop(done["Id"]).job_id for done in reply.get("Successful", []))
        again = []
        for failed in reply.get("Failed", []):
            send = waiting.pop(failed["Id"])
            failure = _Failure(send, failed["Code"], failed.get("Message", ""))
            if failed["SenderFault"]:
                progress.give_up([failure])
            else:
                again.append(failure)
        return again + [_Failure(send, "NoAnswer", "") for send in waiting.values()]


def _is_ours(response: Mapping[str, Any], code: str) -> bool:  # Any: as botocore types it
    """Tell whether a whole request was refused for what it is, not for its moment."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return int(status) // 100 == _CLIENT_ERROR and "hrottl" not in code


def _digest(text: str) -> str:
    # Group and deduplication ids are 128 narrow characters at most; a job id may be anything.
    return hashlib.sha256(text.encode()).hexdigest()
