"""Send jobs to the queue.

Light on purpose: importing this module imports neither Powertools nor a Redis client, and boto3
comes with the first send. A resend is harmless, because the job id stays the same: where it is not
known whether a message arrived, it is sent again.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sekali.clock import SystemClock
from sekali.errors import MessageInvalid
from sekali.message import Message, decode, derive_id, encode
from sekali.outgoing import MAX_MESSAGE_BYTES, Outgoing, batches, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mypy_boto3_sqs.client import SQSClient

    from sekali.clock import Clock

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_CLIENT_ERROR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job to be sent, for `Producer.send_many`.

    `id` says which sends are one job; left out, equal name, key and payload are. `group` is the
    message group of a FIFO queue (left out: the id, so that jobs do not wait for each other) or the
    tenant of a fair queue.
    """

    name: str
    payload: Mapping[str, object]
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


@dataclass(slots=True, kw_only=True)
class _Send:
    request: Request
    job_id: str
    outgoing: Outgoing


class _Failure(NamedTuple):
    send: _Send
    code: str
    error: str


@dataclass(slots=True, kw_only=True)
class _Progress:
    ids: list[str] = field(default_factory=list)
    unsent: list[Unsent] = field(default_factory=list)

    def give_up(self, failures: Iterable[_Failure]) -> None:
        self.unsent.extend(
            Unsent(request=send.request, code=code, error=error) for send, code, error in failures
        )


class Producer:
    """Put jobs on one queue.

    Safe to keep for the life of a process and to share between threads once it has sent.

    Example:
        producer = Producer(queue_url)
        job_id = producer.send("monthly-delays", {"month": "2013-01", "carrier": "UA"})
    """

    def __init__(
        self,
        queue_url: str,
        client: SQSClient | None = None,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue_url = queue_url
        self._client = client
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._fifo = queue_url.endswith(".fifo")

    def send(
        self,
        name: str,
        payload: Mapping[str, object],
        *,
        id: str | None = None,  # noqa: A002 - the contract's own word
        key: str | None = None,
        delay_seconds: int = 0,
        group: str | None = None,
        trace: str | None = None,
    ) -> str:
        """Send one job and return its id.

        Raises:
            MessageInvalid: the job breaks the message contract; nothing was sent.
            botocore.exceptions.ClientError: the queue refused it, after the client's own retries.
        """
        request = Request(
            name=name,
            payload=payload,
            id=id,
            key=key,
            delay_seconds=delay_seconds,
            group=group,
            trace=trace,
        )
        send = self._prepare(request)
        fields = self._entry("0", send)
        del fields["Id"]
        self._sqs().send_message(QueueUrl=self._queue_url, **fields)
        return send.job_id

    def send_many(self, requests: Iterable[Request], *, budget_seconds: float = 20.0) -> Sent:
        """Send jobs in batches; what fails for a passing reason is sent again within the budget.

        Never raises for single jobs: an invalid, refused or unconfirmed one is reported in `unsent`
        and keeps nobody else back. `requests` may be a generator; it is read one batch ahead. A job
        that is sent again comes after the rest of its batch, on a FIFO queue too.

        Args:
            requests: the jobs, in any number.
            budget_seconds: how long the whole call may spend on repeats.
        """
        progress = _Progress()
        give_up_at = self._clock.monotonic() + budget_seconds
        sends = self._prepared(requests, progress)
        for batch in batches(sends, size_bytes=lambda send: send.outgoing.size_bytes):
            self._send_until(give_up_at, batch, progress)
        return Sent(ids=progress.ids, unsent=progress.unsent)

    def _prepared(self, requests: Iterable[Request], progress: _Progress) -> Iterator[_Send]:
        for request in requests:
            try:
                yield self._prepare(request)
            except MessageInvalid as invalid:
                unsent = Unsent(request=request, code=invalid.reason, error=str(invalid))
                progress.unsent.append(unsent)

    def _prepare(self, request: Request) -> _Send:
        now = self._clock.wall()
        try:
            job_id = request.id
            if job_id is None:
                job_id = derive_id(request.name, request.payload, key=request.key)
            body = encode(
                Message(
                    id=job_id,
                    name=request.name,
                    payload=request.payload,
                    key=request.key,
                    first_sent=now,
                    enqueued_at=now,
                )
            )
        except (TypeError, ValueError, RecursionError) as error:
            rule = f"must be JSON ({error})"
            found = type(request.payload).__name__
            raise MessageInvalid("wrong_type", "payload", rule, found) from error
        # The contract is checked by its own reader: what is sent here is what a worker accepts.
        decode({"body": body}, default_job=None)
        outgoing = Outgoing(body, {})
        if outgoing.size_bytes > MAX_MESSAGE_BYTES:
            rule = f"must have at most {MAX_MESSAGE_BYTES} bytes"
            raise MessageInvalid("payload_rejected", "body", rule, outgoing.size_bytes)
        return _Send(request=request, job_id=job_id, outgoing=outgoing)

    def _entry(self, entry_id: str, send: _Send) -> dict[str, Any]:  # Any: fields of a boto3 call
        group, deduplication = send.request.group, None
        if self._fifo:
            group = group or _digest(send.job_id)
            deduplication = _digest(f"{send.request.name}/{send.job_id}")
        return entry(
            send.outgoing,
            entry_id=entry_id,
            delay_seconds=send.request.delay_seconds,
            group=group,
            deduplication=deduplication,
            # The Lambda runtime keeps the current trace there; elsewhere it is not set.
            trace=send.request.trace or os.environ.get("_X_AMZN_TRACE_ID"),
        )

    def _send_until(self, give_up_at: float, batch: list[_Send], progress: _Progress) -> None:
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

    def _send_batch(self, batch: list[_Send], progress: _Progress) -> list[_Failure]:
        """Send once; return what may be tried again."""
        from botocore.exceptions import BotoCoreError, ClientError

        # Any: the client's stubs type an entry by its literal keys.
        entries: Any = [self._entry(str(index), send) for index, send in enumerate(batch)]
        try:
            reply = self._sqs().send_message_batch(QueueUrl=self._queue_url, Entries=entries)
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

    def _sqs(self) -> SQSClient:
        if self._client is None:
            import boto3

            self._client = boto3.client("sqs")
        return self._client


def _is_ours(response: Mapping[str, Any], code: str) -> bool:  # Any: as botocore types it
    """Tell whether a whole request was refused for what it is, not for its moment."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return int(status) // 100 == _CLIENT_ERROR and "hrottl" not in code


def _digest(text: str) -> str:
    # Group and deduplication ids are 128 narrow characters at most; a job id may be anything.
    return hashlib.sha256(text.encode()).hexdigest()
