"""Run the bodies of a batch through Powertools: one at a time, on threads, or on one event loop.

    batch utility    calls each record, catches what it raises, builds the partial response
    idempotency      asks the layer before a body, and tells it how the body ended
    Running          is what the layer asks and tells: one record with its claim

With `concurrency` above 1 each record runs on a thread in a copy of the caller's context, so that
trace, logger keys and the claim follow it. A job that is a coroutine runs on one loop that lives as
long as the container, because clients made on it are bound to it; its thread waits meanwhile.
"""

from __future__ import annotations

import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from sekali import codec
from sekali.answers import Ask, Lease
from sekali.errors import LeaseLost, ResultUnencodable, SekaliError
from sekali.jobs import Job
from sekali.leases import HeldLease
from sekali.settling import encode_error
from sekali.tracebacks import without_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.drawing import Drawing
    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.telemetry.spans import BatchSpans
    from sekali.tiered import Tiered
    from sekali.warm import Container

_log = logging.getLogger(__name__)


ENDING: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
"""What ends the invocation, wherever it is raised: somebody at a terminal wants that."""


class BodyExited(SekaliError):
    """Stand for what a job's function raised that is no `Exception` (`sys.exit`, a cancellation).

    The record fails with it and is tried again; the batch goes on.
    """


class RecordFailed(SekaliError):
    """Tell Powertools' batch utility of a failure without the text of a user's class.

    The utility reads that text, and a class whose `__str__` fails would end the whole batch.
    """


class Running:
    """One record on its way through Powertools: the layer tells it how its body ended."""

    __slots__ = ("_cache", "_container", "_drawing", "_invocation", "_item", "_raised")

    def __init__(
        self,
        item: Item,
        container: Container,
        invocation: Invocation,
        cache: Tiered,
        drawing: Drawing,
    ) -> None:
        self._item = item
        self._drawing = drawing
        self._invocation = invocation
        self._container = container
        self._cache = cache
        self._raised: Exception | None = None

    def __deepcopy__(self, _: dict[int, Any]) -> Running:  # Any: what was copied so far, by id
        """Return itself: Powertools copies its data, and of each record there is one."""
        return self

    def known(self) -> bool:
        """Tell whether the outcome is known already: the id is done, or its key was served."""
        return self._item.lease is None and self._item.table_claim is None

    def run(self) -> bytes:
        """Run the body and encode its result, so that only what can be stored counts as success.

        Once: Powertools calls again where a body raises an error of its own idempotency utility.
        """
        if self._raised is not None:
            raise self._raised
        try:
            return self._run()
        except Exception as error:
            self._raised = error
            raise

    def _run(self) -> bytes:
        item, message = self._item, self._item.message
        if item.spec is None or message is None:
            raise LeaseLost(item.key)
        job = Job(
            name=item.name,
            id=item.id,
            key=item.key,
            payload=dict(message.payload),
            attempt=item.attempt,
            deferrals=message.deferrals,
            trace=item.trace,
            lease=self._held(),
            cache=self._cache,
            remaining_seconds=self._invocation.remaining_seconds,
        )
        try:
            drawn = self._drawing.batch
            if drawn is not None:
                return codec.encode(self._drawn(drawn, item.spec.function, job), job=item.name)
            result = item.spec.function(job)
            if inspect.iscoroutine(result):
                result = self._container.loop.run(result)
        except BaseException as error:
            if isinstance(error, (Exception, *ENDING)):
                raise
            # Powertools would leave the batch without an outcome, and every other record with it.
            raise BodyExited(f"the job raised {error!r}") from error
        return codec.encode(result, job=item.name)

    def _drawn(self, batch: BatchSpans, function: Callable[[Job], object], job: Job) -> object:
        with batch.body(self._item):
            result = function(job)
            return self._container.loop.run(result) if inspect.iscoroutine(result) else result

    def _held(self) -> HeldLease:
        item, shared = self._item, self._container.shared
        held = item.lease
        if held is not None:
            return HeldLease(held, self._invocation, shared)
        if item.table_claim is None:
            raise LeaseLost(item.key)
        lease = Lease(
            ask=Ask(
                name=item.name,
                id=item.id,
                key=item.key,
                payload_hash=item.payload_hash,
                token=item.table_claim.token,
                terms=self._container.default_terms(),
            ),
            fence=item.table_claim.fence,
            expires_at=self._invocation.deadline,
        )
        return HeldLease(lease, self._invocation, shared, renewable=False)

    def succeed(self, result: object) -> None:
        """Keep the encoded result for the flush."""
        if not isinstance(result, bytes):
            raise ResultUnencodable(self._item.name, type(result).__name__)
        self._item.source = "body"
        self._item.end("D", result=result, computed=True)

    def fail(self, error: Exception) -> None:
        """Keep the error for the flush: permanent, or to be tried again."""
        item = self._item
        item.failure = type(error).__name__
        if self._container.settings.log_error_text:
            _log.warning("job %s failed", item.name, exc_info=error)
        else:
            _log.warning("job %s failed:\n%s", item.name, without_text(error))
        if item.spec is not None and item.spec.is_permanent(error):
            item.end("X", result=encode_error("permanent", error))
        elif isinstance(error, LeaseLost):
            item.end("W")
        else:
            item.end("T", result=encode_error("retry", error))


class _NoFailures(dict[str, Any]):  # Any: as Powertools writes its response
    """Powertools' empty response, which it copies twice per batch with all the care of `copy`."""

    def __deepcopy__(self, _: dict[int, Any]) -> dict[str, Any]:  # Any: see above
        return {"batchItemFailures": []}


class SerialProcessor(BatchProcessor):
    """Process the records of a batch one after the other."""

    # Any: Powertools has a typed dictionary there, which could not say how it is copied.
    DEFAULT_RESPONSE: Any = _NoFailures(batchItemFailures=[])

    def __init__(self) -> None:
        """Take records of SQS; that all of them failed is an answer, not an error."""
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)


class PooledProcessor(SerialProcessor):
    """Process the records of a batch on threads, each in a copy of the caller's context."""

    def __init__(self, threads: int) -> None:
        """Bound the number of records that run at once."""
        super().__init__()
        self._threads = threads

    # Any: Powertools' own tuples.
    def process(self) -> list[tuple[Any, ...]]:
        """Call the record handler for each record; answers keep the order of the records."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sekali-job") as pool:
            running = [
                pool.submit(copy_context().run, self._process_record, record)
                for record in self.records
            ]
            return [one.result() for one in running]


def run_body(*, running: Running) -> bytes:
    """Run the body of a record, which is what Powertools takes for its data."""
    return running.run()


def run_records(
    items: Sequence[Item], each: Callable[[Item], None], *, concurrency: int
) -> Mapping[str, Any]:  # Any: Lambda's partial batch response
    """Call `each` for every item through Powertools' batch utility and return its response."""
    # By the record itself: nobody promises that a message is in a batch only once.
    by_record = {id(item.raw): item for item in items}
    threads = min(concurrency, len(items))

    def handle(record: Any) -> None:  # Any: Powertools' view of a record
        try:
            each(by_record[id(record.raw_event)])
        except Exception as error:
            raise RecordFailed(type(error).__name__) from error

    # Without Lambda's context: given one, it looks for the handler's parameters in each batch.
    answer = process_partial_response(
        event={"Records": [item.raw for item in items]},
        record_handler=handle,
        processor=PooledProcessor(threads) if threads > 1 else SerialProcessor(),
    )
    return dict(answer)
