"""Check the functions and what feeds the worker: settings, mapping, concurrency, rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sekali.cli.examining import Finding, Unread
from sekali.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sekali.cli.examining import Examined

# What all functions of one stack must agree in, or they do not see each other.
_SHARED: Final = (
    "SEKALI_NAMESPACE",
    "SEKALI_BUCKETS",
    "SEKALI_CACHE_URL",
    "SEKALI_TABLE_NAME",
)
_OF_QUEUE: Final = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "SendMessage")
_OF_TABLE: Final = ("BatchGetItem", "PutItem", "UpdateItem")
_MEBIBYTE: Final = 1024 * 1024


def settings(stack: Examined) -> Iterator[Finding]:
    """Check that every function can start with its settings, and they agree in what they share."""
    worker = stack.place.worker
    for function in (worker, *stack.place.others):
        found = stack.settings_of(function)
        if isinstance(found, SettingInvalid):
            remedy = f"correct {found.variable} of {function.name} and deploy (docs/settings.md)"
            yield Finding(check="settings", state="wrong", found=str(found), remedy=remedy)
    differing = [
        f"{name} of {other.name} is {other.variables.get(name)!r}, the worker's is {own!r}"
        for other in stack.place.others
        for name in _SHARED
        if (own := worker.variables.get(name)) != other.variables.get(name)
    ]
    for found_text in differing:
        remedy = "deploy all functions with one environment: they do not see each other's keys"
        yield Finding(check="shared settings", state="wrong", found=found_text, remedy=remedy)


def mapping(stack: Examined) -> Iterator[Finding]:
    """Check that the worker's own queue feeds it, and failed messages come back."""
    fed = stack.place.mapping
    if fed is None:
        yield Finding(
            check="event source",
            state="wrong",
            found=f"no queue of SEKALI_QUEUE_URL feeds {stack.place.worker.name}",
            remedy="map the queue to the function, and set SEKALI_QUEUE_URL to that queue",
        )
        return
    if not fed.enabled:
        yield Finding(
            check="event source",
            state="wrong",
            found="the event source mapping is disabled: nothing is processed",
            remedy="aws lambda update-event-source-mapping --enabled",
        )
    queue = stack.variable("SEKALI_QUEUE_URL").rpartition("/")[2]
    if fed.queue_arn.rpartition(":")[2] != queue:
        yield Finding(
            check="event source",
            state="wrong",
            found=f"{fed.queue_arn} feeds the worker, which sends its copies to {queue}",
            remedy="set SEKALI_QUEUE_URL to the queue that feeds the worker",
        )
    if not fed.partial_batches:
        yield Finding(
            check="partial responses",
            state="wrong",
            found="the mapping does not report batch item failures: failed messages are deleted",
            remedy="set FunctionResponseTypes of the mapping to ReportBatchItemFailures",
        )


def partial_batch(stack: Examined) -> Iterator[Finding]:
    """Check that the worker is told that failures are reported, or it refuses to run."""
    if stack.variable("SEKALI_PARTIAL_BATCH") != "true":
        yield Finding(
            check="partial responses",
            state="wrong",
            found="SEKALI_PARTIAL_BATCH is not true: the worker refuses every batch",
            remedy="set it to true once the mapping reports batch item failures",
        )


def concurrency(stack: Examined) -> Iterator[Finding]:
    """Check that no reservation throttles the pollers."""
    fed = stack.place.mapping
    reserved = None if stack.place.local else stack.reserved_concurrency
    if isinstance(reserved, int) and fed is not None and reserved < fed.max_concurrency:
        yield Finding(
            check="concurrency",
            state="wrong",
            found=f"{reserved} executions are reserved, the mapping invokes {fed.max_concurrency}",
            remedy="reserve at least MaximumConcurrency: a throttled batch spends a receive",
        )
    elif isinstance(reserved, Unread):
        yield unknown("concurrency", reserved)


def memory(stack: Examined) -> Iterator[Finding]:
    """Check that the local cache leaves the function room to work."""
    found = stack.settings
    if isinstance(found, SettingInvalid):
        return
    most = stack.place.worker.memory_mib * _MEBIBYTE // 2
    if found.local_max_bytes > most:
        yield Finding(
            check="memory",
            state="wrong",
            found=f"the local cache may take {found.local_max_bytes} bytes of"
            f" {stack.place.worker.memory_mib} MiB",
            remedy=f"set SEKALI_LOCAL_MAX_BYTES to at most {most}, or give the function more",
        )


def rights(stack: Examined) -> Iterator[Finding]:
    """Check that the worker's role may do what the worker does."""
    if stack.place.local or not stack.place.worker.role:
        return
    queue, letters, table = stack.queue, stack.dead_letters, stack.table
    needed: list[tuple[str, str]] = []
    if not isinstance(queue, Unread):
        needed += [(f"sqs:{action}", queue["QueueArn"]) for action in _OF_QUEUE]
    if not isinstance(letters, Unread):
        needed.append(("sqs:SendMessage", letters["QueueArn"]))
    if not isinstance(table, Unread):
        needed += [(f"dynamodb:{action}", table["TableArn"]) for action in _OF_TABLE]
    # Without a resource to ask about nothing was asked: that is not an answer.
    refused = stack.refused_actions(needed) if needed else queue
    if isinstance(refused, Unread):
        yield unknown("rights", refused)
    elif refused:
        yield Finding(
            check="rights",
            state="wrong",
            found=f"the worker's role may not: {', '.join(refused)}",
            remedy="deploy the stack's own role (infra/stack.py), or allow these actions",
        )


def unknown(check: str, fact: Unread) -> Finding:
    """Return the finding of a fact that could not be read."""
    if fact.denied:
        remedy = "ask with a profile that may read it (docs/cli.md lists the actions)"
        return Finding(check=check, state="unknown", found=fact.text, remedy=remedy)
    return Finding(check=check, state="unknown", found=f"{fact.code}: {fact.text}")
