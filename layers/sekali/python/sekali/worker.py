"""Register jobs and be the Lambda handler of an SQS queue.

::

    worker = Worker("flight-reports")

    @worker.job("monthly-delays", key="{payload[month]}/{payload[carrier]}", ttl_seconds=3600)
    def monthly_delays(job):
        ...

    handler = worker.handler

For each batch the handler decodes, claims, runs, records, finishes and settles (see `batch`); it
returns the messages that must come back, as Lambda's partial batch response. Each record that runs
goes through Powertools' `idempotent_function` with our persistence layer, and Powertools' batch
utility builds the response, which is then amended: what was settled by a dead letter or a delayed
copy leaves it, and what the last flush could not confirm enters it.

What is *not* guaranteed: that a job's function starts once. Effects on foreign systems take
`job.id` as their idempotency key.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sekali import warm
from sekali.batch import Batch
from sekali.caching import current_cache
from sekali.departures import Departures
from sekali.drawing import Drawing
from sekali.errors import SettingInvalid
from sekali.idempotency import PreparedLayer
from sekali.invocation import CURRENT
from sekali.jobs import Job, JobSpec, validate_permanent, validate_rules
from sekali.keys import check_job_name
from sekali.message import NO_WRAPPING
from sekali.powertools_idempotency import NoOpSerializer, idempotent_function
from sekali.running import Running, run_body, run_records
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.degraded import Policy
    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.jobs import KeyRule, TagRule
    from sekali.settings import Settings
    from sekali.telemetry.events import Hook
    from sekali.tiered import Tiered
    from sekali.warm import Container
    from sekali.wrappings import Unwrap

_log = logging.getLogger(__name__)

Function = TypeVar("Function", bound="Callable[[Job], object]")

DISABLED_VARIABLE = "POWERTOOLS_IDEMPOTENCY_DISABLED"
LONGEST_LEASE_SECONDS = 900
MOST_CONCURRENT = 1000
UNTIMED_SECONDS = 60.0
"""The time an invocation gets where its context cannot tell (a test that passes none)."""


class Worker:
    """The jobs of one function. Registering needs no environment; the first batch reads it."""

    def __init__(
        self,
        service: str,
        *,
        concurrency: int = 1,
        hooks: Sequence[Hook] | None = None,
        unwrap: Unwrap = NO_WRAPPING,
    ) -> None:
        """Name the service.

        Args:
            service: dimension of the metrics, unless SEKALI_SERVICE says otherwise.
            concurrency: bodies of one batch that may run at once, each on a thread; `async def`
                jobs run on one loop beside them. Jobs must be safe for that.
            hooks: who is told every event; None is Powertools' Logger, Metrics and Tracer.
            unwrap: which of SNS, EventBridge and S3 stand between the senders and the queue.
        """
        if not 1 <= concurrency <= MOST_CONCURRENT:
            raise SettingInvalid("concurrency", "must be between 1 and 1000", str(concurrency))
        self.service = service
        self._concurrency = concurrency
        self._hooks = hooks
        self._unwrap = unwrap
        self._specs: dict[str, JobSpec] = {}
        self._run_idempotently = idempotent_function(
            run_body,
            data_keyword_argument="running",
            persistence_store=PreparedLayer(),
            # Else it makes one for each record.
            output_serializer=NoOpSerializer(),  # type: ignore[no-untyped-call]  # as it says
        )
        self._lock = threading.Lock()
        warm.prepare()

    def job(
        self,
        name: str,
        *,
        key: KeyRule = None,
        ttl_seconds: float = 0.0,
        tags: TagRule = (),
        permanent: Sequence[type[Exception]] = (),
        max_attempts: int | None = None,
        lease_seconds: float | None = None,
        degraded: Policy | None = None,
        after_crash: Literal["rerun", "in_doubt"] = "rerun",
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the job `name`.

        Args:
            name: what messages call it; letters, digits, `_.-`, at most 64.
            key: what is computed, as a template over `payload` or a function of it; None is the id.
            ttl_seconds: life of the key's value in both tiers; 0 keeps none.
            tags: what invalidates the key's value, as templates over `payload` or a function of it.
            permanent: exceptions after which no retry is made.
            max_attempts: bodies that may start before the job is quarantined, None as set.
            lease_seconds: length of its leases, None as set.
            degraded: what happens while the shared cache is away (see `degraded`), None as set.
            after_crash: whether a job whose body was cut off is run again, or becomes a dead
                letter with the reason `in_doubt`, for effects that must never happen twice.

        Raises:
            KeyInvalid: the name cannot be used.
            SettingInvalid: the name is taken, a number is out of its bounds, or a template can be
                filled by no payload.
        """
        check_job_name(name)
        if name in self._specs:
            raise SettingInvalid(f"job {name}", "must be registered once", name)
        validate_rules(key, tags)
        if ttl_seconds < 0:
            raise SettingInvalid("ttl_seconds", "must be 0 (keep none) or more", str(ttl_seconds))
        if max_attempts is not None and max_attempts < 1:
            raise SettingInvalid("max_attempts", "must be at least 1", str(max_attempts))
        if lease_seconds is not None and not 1 <= lease_seconds <= LONGEST_LEASE_SECONDS:
            raise SettingInvalid("lease_seconds", "must be between 1 and 900", str(lease_seconds))

        def register(function: Function) -> Function:
            self._specs[name] = JobSpec(
                name=name,
                function=function,
                key=key,
                ttl_seconds=ttl_seconds,
                permanent=validate_permanent(permanent),
                max_attempts=max_attempts,
                lease_seconds=lease_seconds,
                degraded=degraded,
                after_crash=after_crash,
                tags=tags,
            )
            return function

        return register

    def handler(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Take one SQS event; return the messages that must come back.

        Raises:
            SettingInvalid: the environment cannot work; the whole batch returns to the queue.
            PartialBatchOff: the event source would delete failed messages.
        """
        records = _records(event)
        container = warm.container(self._observers)
        container.wake()
        container.settings.for_worker()
        _refuse_disabled()
        self._refuse_unprovable(container.settings)
        invocation = container.invocation(
            owner=warm.owner_name(str(getattr(context, "aws_request_id", "-"))),
            remaining_seconds=_remaining_seconds(context),
        )
        current = CURRENT.set(invocation)
        try:
            return self._process(container, invocation, records)
        finally:
            CURRENT.reset(current)
            container.cache = None
            invocation.heartbeat.stop()
            container.rest()
            left = max(invocation.remaining_seconds(), 0.0)
            container.emit(events.InvocationEnded(remaining_seconds=left))

    def _refuse_unprovable(self, settings: Settings) -> None:
        for spec in self._specs.values():
            if settings.durable_mode != "redis":
                continue
            if spec.after_crash == "in_doubt":
                rule = "must not be redis where a job says after_crash='in_doubt'"
                raise SettingInvalid("SEKALI_DURABLE_MODE", rule, spec.name)
            if spec.degraded == "durable":
                rule = "must not be redis where a job says degraded='durable'"
                raise SettingInvalid("SEKALI_DURABLE_MODE", rule, spec.name)

    def _observers(self, settings: Settings) -> Sequence[Hook]:
        if self._hooks is not None:
            return self._hooks
        from sekali.telemetry.observing import observers

        return observers(settings, self.service)

    def _process(
        self,
        container: Container,
        invocation: Invocation,
        records: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        response: dict[str, Any] = {"batchItemFailures": []}
        cache = container.tiered(invocation)
        drawing = Drawing(container, invocation)

        def run(items: Sequence[Item], each: Callable[[Item], None]) -> None:
            answer = run_records(items, each, concurrency=self._concurrency)
            response["batchItemFailures"] += answer["batchItemFailures"]

        def perform(item: Item) -> None:
            self._run_idempotently(running=Running(item, container, invocation, cache, drawing))

        batch = Batch(
            container,
            self._specs,
            invocation,
            run=run,
            perform=perform,
            unwrap=self._unwrap,
            drawing=drawing,
        )
        try:
            items = batch.process(records)
            returning = Departures(container, invocation, drawing=drawing).settle(items)
        finally:
            drawing.close()
        cache.end()
        return _amend(response, items, returning)

    @property
    def cache(self) -> Tiered:
        """Return the tiers of the invocation under way, as `job.cache` does inside a job."""
        return current_cache(self._observers)


def _refuse_disabled() -> None:
    disabled = os.environ.get(DISABLED_VARIABLE)
    if (disabled or "").lower() in {"1", "true", "yes", "on"}:
        rule = "must not be set: the worker would run every job without its claim"
        raise SettingInvalid(DISABLED_VARIABLE, rule, disabled)


def _amend(response: dict[str, Any], items: Sequence[Item], returning: set[str]) -> dict[str, Any]:
    """Name exactly the messages that must come back, in the order of the batch."""
    failed = dict.fromkeys(item.message_id for item in items if item.message_id in returning)
    response["batchItemFailures"] = [{"itemIdentifier": message_id} for message_id in failed]
    return response


def _records(event: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list) or not all(map(_names_its_message, records)):
        raise SettingInvalid(
            "event",
            "must be an SQS event: a list Records, each with a messageId",
            type(event).__name__,
        )
    return records


def _names_its_message(record: object) -> bool:
    message_id = record.get("messageId") if isinstance(record, dict) else None
    return type(message_id) is str and message_id != ""


def _remaining_seconds(context: Any) -> float:
    ask = getattr(context, "get_remaining_time_in_millis", None)
    if ask is None:
        return UNTIMED_SECONDS
    remaining = ask() if callable(ask) else ask
    if not isinstance(remaining, (int, float)) or not math.isfinite(remaining):
        rule = "must tell the remaining time as a number of milliseconds"
        raise SettingInvalid("context", rule, type(remaining).__name__)
    return remaining / 1000
