"""Send jobs to the queue, and wait for what became of them.

Light on purpose: importing this module imports neither Powertools nor a Redis client, and boto3
comes with the first send.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sekali.aws_clients import AwsClients, aws_client
from sekali.clock import SystemClock
from sekali.codec import payload_hash
from sekali.contract import read_id, read_name, read_text
from sekali.errors import MessageInvalid, SettingInvalid, StoreUnavailable
from sekali.message import Message, decode, derive_id, encode
from sekali.outgoing import MAX_MESSAGE_BYTES, Outgoing
from sekali.payloads import plain
from sekali.sending import Prepared, Progress, Request, Sender, Sent
from sekali.telemetry.sent_traces import chosen_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mypy_boto3_sqs.client import SQSClient

    from sekali.aws_clients import Service
    from sekali.clock import Clock
    from sekali.payload_bucket import Payloads
    from sekali.payloads import Payload
    from sekali.results import Wait
    from sekali.store import Store
    from sekali.telemetry.sent_traces import Tracing

OFFLOAD_ABOVE_BYTES: Final = 256 * 1024
"""Lambda takes 6 MB of messages at a time: ten of this size still fit, with room."""
MAX_DELAY_SECONDS: Final = 900
# SQS: letters, digits and punctuation.
_GROUP: Final = re.compile(r"[!-~]{1,128}")


class Producer:
    """Put jobs on one queue.

    Safe to keep for the life of a process and to share between threads; what it connects to is
    connected at the first use.

    Example:
        producer = Producer(queue_url, table_name=table_name)
        job_id = producer.send("delay-report", {"month": "2013-01", "carrier": "UA"})
        report = producer.wait(job_id, name="delay-report")
    """

    def __init__(
        self,
        queue_url: str,
        client: SQSClient | None = None,
        *,
        bucket: str | None = None,
        table_name: str | None = None,
        offload_above_bytes: int = OFFLOAD_ABOVE_BYTES,
        client_factory: Callable[[Service], Any] | None = None,  # Any: boto3's run-time classes
        tracing: Tracing | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name the queue.

        Args:
            queue_url: where jobs go; a name that ends in `.fifo` is a FIFO queue.
            client: an SQS client of your own.
            bucket: the worker's bucket. With it larger payloads are left there, and larger results
                are read from there; without it they are refused and unreadable.
            table_name: the worker's table of results, for `wait`.
            offload_above_bytes: size of a message above which its payload goes into the bucket.
            client_factory: makes the other clients, and this one where none was given.
            tracing: whose trace goes along with each message: `xray`, `opentelemetry` or `off`;
                None is SEKALI_TRACING, which is X-Ray where it is not set.
            clock: tells the time.
            sleep: pauses between repeats.

        Raises:
            SettingInvalid: `offload_above_bytes` is more than a message may have, or `tracing` is
                none of these.
        """
        if not 0 <= offload_above_bytes <= MAX_MESSAGE_BYTES:
            rule = f"must be between 0 and {MAX_MESSAGE_BYTES}"
            raise SettingInvalid("offload_above_bytes", rule, str(offload_above_bytes))
        self._bucket = bucket
        self._table_name = table_name
        self._offload_above_bytes = offload_above_bytes
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._lock = threading.Lock()
        self._clients = AwsClients(client_factory or aws_client)
        if client is not None:
            self._clients.put("sqs", client)
        self._sender = Sender(
            queue_url,
            lambda: self._clients.of("sqs"),
            clock=self._clock,
            sleep=sleep,
            traces=chosen_traces(tracing),
        )
        self._payloads = self._new_payloads()
        self._store: Store | None = None

    def send(
        self,
        name: str,
        payload: Payload,
        *,
        id: str | None = None,  # noqa: A002 - the contract's own word
        key: str | None = None,
        delay_seconds: int = 0,
        group: str | None = None,
        trace: str | None = None,
    ) -> str:
        """Send one job and return its id.

        Args:
            name: which job.
            payload: what it is given: a mapping, a dataclass, a msgspec Struct or a pydantic model.
            id: who asks; None derives it from name, key and payload: a repeat is no new job.
            key: what is computed; None leaves it to the job's own rule.
            delay_seconds: how long nobody sees it, up to 900; 0 on a FIFO queue.
            group: message group of a FIFO queue, tenant of a fair one.
            trace: an X-Ray header or a W3C traceparent; None is the running trace, if any.

        Raises:
            MessageInvalid: the job breaks the message contract; nothing was sent.
            StoreUnavailable: its payload belongs into the bucket, which did not take it.
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
        prepared = self._prepare(request)
        self._sender.send(prepared)
        return prepared.job_id

    def send_many(self, requests: Iterable[Request], *, budget_seconds: float = 20.0) -> Sent:
        """Send jobs in batches; what fails for a passing reason is sent again within the budget.

        Never raises for single jobs: an invalid, refused or unconfirmed one is reported in `unsent`
        and keeps nobody else back. `requests` may be a generator; it is read one batch ahead. A job
        that is sent again comes after the rest of its batch, on a FIFO queue too.

        Args:
            requests: the jobs, in any number.
            budget_seconds: how long the whole call may spend on repeats.
        """
        progress = Progress()
        prepared = self._prepared(requests, progress)
        self._sender.send_all(prepared, progress, budget_seconds=budget_seconds)
        return Sent(ids=progress.ids, unsent=progress.unsent)

    def wait(
        self,
        job_id: str,
        *,
        name: str,
        timeout_seconds: float = 60.0,
    ) -> Any:  # Any: whatever the job returned
        """Return the result of a job as the table has it, waiting until it is there.

        Raises:
            JobFailed: it failed for good.
            ResultTimeout: nothing is recorded in that time; the job may still run.
            StoreUnavailable: the table could not be read at the end of it.
            SettingInvalid: this producer was not told the table.
        """
        waiting = self.waiting(job_id, name=name, timeout_seconds=timeout_seconds)
        while (pause_seconds := waiting.look()) is not None:
            self._sleep(pause_seconds)
        return waiting.result

    def waiting(self, job_id: str, *, name: str, timeout_seconds: float) -> Wait:
        """Begin a wait whose pauses are the caller's own (an event loop's, say)."""
        from sekali.results import Wait

        return Wait(
            self._results(),
            name=name,
            job_id=job_id,
            timeout_seconds=timeout_seconds,
            clock=self._clock,
        )

    def _prepared(self, requests: Iterable[Request], progress: Progress) -> Iterator[Prepared]:
        for request in requests:
            try:
                yield self._prepare(request)
            except MessageInvalid as invalid:
                progress.refuse(request, code=invalid.reason, error=str(invalid))
            except StoreUnavailable as unavailable:
                progress.refuse(request, code="StoreUnavailable", error=str(unavailable))

    def _prepare(self, request: Request) -> Prepared:
        self._check_options(request)
        payload = plain(request.payload)
        payload_hash(payload)  # Names the place of what JSON cannot carry.
        read_name(request.name)
        key = None if request.key is None else read_text(request.key, "key")
        job_id = request.id
        if job_id is None:
            job_id = derive_id(request.name, payload, key=key)
        now = self._clock.wall()
        message = Message(
            id=read_id(job_id),
            name=request.name,
            payload=payload,
            key=key,
            first_sent=now,
            enqueued_at=now,
        )
        outgoing = Outgoing(encode(message), {})
        # The contract is checked by its own reader: what is sent here is what a worker accepts.
        decode({"body": outgoing.body}, default_job=None)
        if self._payloads is not None and outgoing.size_bytes > self._offload_above_bytes:
            written = self._payloads.put(request.name, payload)
            outgoing = Outgoing(encode(replace(message, payload=written)), {})
        if outgoing.size_bytes > MAX_MESSAGE_BYTES:
            rule = f"must have at most {MAX_MESSAGE_BYTES} bytes"
            raise MessageInvalid("payload_rejected", "body", rule, outgoing.size_bytes)
        return Prepared(request=request, job_id=job_id, outgoing=outgoing)

    def _check_options(self, request: Request) -> None:
        delay_seconds, group = request.delay_seconds, request.group
        longest = 0 if self._sender.fifo else MAX_DELAY_SECONDS
        if type(delay_seconds) is not int or not 0 <= delay_seconds <= longest:
            rule = f"must be whole seconds between 0 and {longest}"
            rule += " (a FIFO queue delays no single message)" if self._sender.fifo else ""
            raise MessageInvalid("wrong_type", "delay_seconds", rule, delay_seconds)
        if group is not None and not _GROUP.fullmatch(group):
            rule = "must be 1 to 128 letters, digits and punctuation marks of ASCII"
            raise MessageInvalid("wrong_type", "group", rule, group)

    def _new_payloads(self) -> Payloads | None:
        if self._bucket is None:
            return None
        from sekali.payload_bucket import Payloads

        return Payloads(self._bucket, lambda: self._clients.of("s3"))

    def _results(self) -> Store:
        if self._table_name is None:
            raise SettingInvalid("table_name", "must be given to wait for results", None)
        from sekali.store import Store

        with self._lock:
            self._store = self._store or Store(
                self._table_name,
                clock=self._clock,
                bucket=self._bucket,
                client_factory=self._clients.of,
            )
            return self._store
