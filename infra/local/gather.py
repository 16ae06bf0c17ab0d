"""Turn a running stack, seen from outside, into the evidence that the checker wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from infra.local.evidence import (
    DeadLetter,
    Evidence,
    Execution,
    Item,
    Measures,
    Write,
    execution_of,
    outcome_write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infra.local.stack import LocalStack

_PER_CALL: Final = 10
_INTERRUPTED: Final = frozenset({"died", "timed_out"})
# What the functions say about each record, and where its answer came from.
SETTLED: Final = "record settled"
_FROM_LOCAL: Final = frozenset({"local", "local_record"})
_FROM_SHARED: Final = frozenset({"shared", "record", "followed"})
COMPUTED: Final = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What only the driver of a run knows: its length, when it first sent each id, the faults."""

    seconds: float
    sent_at: Mapping[str, float]
    faults: Sequence[tuple[float, float]] = ()


def gather(stack: LocalStack, run: Run) -> Evidence:
    """Read the stack's table, queues, logs and wires; it must have come to rest."""
    (table,) = (table.name for table in stack.template.tables)
    (bucket,) = stack.template.buckets.values()
    queue = stack.source_queue()
    executions = list(_executions(stack))

    def fetch(key: str) -> bytes:
        return stack.aws.s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    return Evidence(
        rows=_rows(stack, table),
        writes=list(_writes(stack, table)),
        executions=executions,
        dead_letters=list(_dead_letters(stack)),
        left_in_queue=stack.waiting(queue),
        faults=run.faults,
        fetch=fetch,
        measures=_measures(stack, run),
    )


def _rows(stack: LocalStack, table: str) -> list[Item]:
    pages = stack.aws.dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    # The stubs type an attribute by its kind, evidence as any of them.
    found: list[Any] = [item for page in pages for item in page["Items"]]
    return found


def _writes(stack: LocalStack, table: str) -> Iterator[Write]:
    for at, item in stack.calls.accepted_writes(table):
        if (write := outcome_write(_without_base64(item), at=at)) is not None:
            yield write


def _without_base64(item: Item) -> Item:
    """Drop the binary attributes: on the wire they are base64, and no outcome is read from them."""
    return {name: value for name, value in item.items() if "B" not in value}


def _executions(stack: LocalStack) -> Iterator[Execution]:
    interrupted = {
        invocation.outcome.request_id
        for invocation in stack.invocations
        if invocation.outcome.kind in _INTERRUPTED
    }
    for record in stack.logs.records():
        cut_off = record.request_id in interrupted
        if (execution := execution_of(record.text, interrupted=cut_off)) is not None:
            yield execution


def _dead_letters(stack: LocalStack) -> Iterator[DeadLetter]:
    """Take every message out of the dead letter queue."""
    queue = stack.dead_letter_queue(stack.source_queue())
    while True:
        answer = stack.aws.sqs.receive_message(
            QueueUrl=stack.aws.queue_url(queue),
            MaxNumberOfMessages=_PER_CALL,
            # Long enough that none of them comes twice.
            VisibilityTimeout=600,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            return
        for message in messages:
            attributes = {
                name: attribute["StringValue"]
                for name, attribute in message.get("MessageAttributes", {}).items()
                if "StringValue" in attribute
            }
            yield DeadLetter(body=message["Body"], attributes=attributes)


def _measures(stack: LocalStack, run: Run) -> Measures:
    computing = {
        record.request_id
        for record in stack.logs.records()
        if execution_of(record.text, interrupted=False) is not None
    }
    ended = [
        invocation.outcome
        for invocation in stack.invocations
        if invocation.outcome.kind == "answered"
    ]
    sources = [
        record.fields.get("source")
        for record in stack.logs.records()
        if record.fields.get("message") == SETTLED
    ]
    total = stack.logs.total
    return Measures(
        seconds=run.seconds,
        cold_round_trips=[o.round_trips for o in ended if o.request_id in computing],
        warm_round_trips=[o.round_trips for o in ended if o.request_id not in computing],
        local_hits=int(total("CacheLocalHits")) + sum(s in _FROM_LOCAL for s in sources),
        shared_hits=int(total("CacheSharedHits")) + sum(s in _FROM_SHARED for s in sources),
        misses=int(total("CacheLoads") + total("CacheMisses")) + sources.count(COMPUTED),
        takeovers=int(total("LeasesTakenOver")),
        sent_at=run.sent_at,
    )
