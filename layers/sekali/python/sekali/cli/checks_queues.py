"""Check the two queues: their numbers decide whether work is repeated, lost or kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sekali.cli.checks_functions import unknown
from sekali.cli.examining import Finding, Unread
from sekali.errors import SettingInvalid
from sekali.outgoing import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.examining import Examined, Facts

# AWS' own advice for an event source mapping (Lambda guide, "Using Lambda with Amazon SQS").
VISIBILITY_PER_TIMEOUT: Final = 6
LEAST_RECEIVES: Final = 5
LONGEST_RETENTION_SECONDS: Final = 1_209_600


def queues_exist(stack: Examined) -> Iterator[Finding]:
    """Check that both queues are there."""
    for variable, fact in (
        ("SEKALI_QUEUE_URL", stack.queue),
        ("SEKALI_DEAD_LETTER_QUEUE_URL", stack.dead_letters),
    ):
        if isinstance(fact, Unread) and fact.denied:
            yield unknown("queues", fact)
        elif isinstance(fact, Unread):
            yield Finding(
                check="queues",
                state="wrong",
                found=f"the queue of {variable} is not there: {fact.code}",
                remedy=f"deploy the queue, or set {variable} to its URL",
            )


def visibility(stack: Examined) -> Iterator[Finding]:
    """Check that a batch that still runs is not delivered again."""
    fed, queue = stack.place.mapping, _facts(stack.queue)
    if queue is None or fed is None:
        return
    timeout = stack.place.worker.timeout_seconds
    least = int(VISIBILITY_PER_TIMEOUT * timeout + fed.window_seconds)
    seconds = int(queue.get("VisibilityTimeout", 30))
    if seconds < least:
        yield Finding(
            check="visibility",
            state="wrong",
            found=f"the queue hides a message for {seconds} s; the function may take {timeout:g} s"
            f" and waits {fed.window_seconds:g} s for a batch",
            remedy=f"set the queue's VisibilityTimeout to at least {least} (6 × timeout + window)",
        )
    said = stack.variable("SEKALI_VISIBILITY_SECONDS")
    if said and float(said) != seconds:
        yield Finding(
            check="visibility",
            state="wrong",
            found=f"SEKALI_VISIBILITY_SECONDS is {said}, the queue's timeout is {seconds}",
            remedy="deploy both from one number",
        )


def retention(stack: Examined) -> Iterator[Finding]:
    """Check that the worker knows when the queue forgets a message, and acts before it."""
    queue, found = _facts(stack.queue), stack.settings
    if queue is None or isinstance(found, SettingInvalid):
        return
    seconds = int(queue.get("MessageRetentionPeriod", 345_600))
    if found.retention_seconds != seconds:
        yield Finding(
            check="retention",
            state="wrong",
            found=f"SEKALI_RETENTION_SECONDS is {found.retention_seconds:.0f}, the queue keeps"
            f" messages for {seconds} s",
            remedy="deploy both from one number: a message that waits too long is lost in silence",
        )
    if found.record_ttl_seconds < seconds:
        yield Finding(
            check="retention",
            state="wrong",
            found=f"records live for {found.record_ttl_seconds:.0f} s, messages for {seconds} s",
            remedy=f"set SEKALI_RECORD_TTL_SECONDS to at least {seconds}: a message that outlives"
            " its record starts its job again",
        )


def redrive(stack: Examined) -> Iterator[Finding]:
    """Check that what no worker could end goes to the dead letters, and not too early."""
    queue, letters, found = _facts(stack.queue), _facts(stack.dead_letters), stack.settings
    if queue is None:
        return
    policy: Mapping[str, Any] = json.loads(queue.get("RedrivePolicy") or "{}")  # Any: JSON
    if not policy:
        yield Finding(
            check="redrive",
            state="wrong",
            found="the queue has no redrive policy: a message that kills its container comes back"
            " until it is forgotten",
            remedy="give it a RedrivePolicy to the dead letter queue",
        )
        return
    if letters is not None and policy.get("deadLetterTargetArn") != letters["QueueArn"]:
        yield Finding(
            check="redrive",
            state="wrong",
            found=f"the queue redrives to {policy.get('deadLetterTargetArn')}, the worker sends its"
            f" dead letters to {letters['QueueArn']}",
            remedy="name one dead letter queue in both",
        )
    if isinstance(found, SettingInvalid):
        return
    least = LEAST_RECEIVES + found.max_attempts
    receives = int(policy.get("maxReceiveCount", 0))
    if receives < least:
        yield Finding(
            check="redrive",
            state="wrong",
            found=f"maxReceiveCount is {receives}: neighbours' crashes alone kill healthy jobs",
            remedy=f"set it to at least {least} (5 + SEKALI_MAX_ATTEMPTS)",
        )


def dead_letters(stack: Examined) -> Iterator[Finding]:
    """Check that dead letters outlive the time that people need, and somebody looks at them."""
    letters, queue = _facts(stack.dead_letters), _facts(stack.queue)
    if letters is None:
        return
    seconds = int(letters.get("MessageRetentionPeriod", 345_600))
    source = int(queue.get("MessageRetentionPeriod", 345_600)) if queue else 0
    if seconds <= source or seconds < LONGEST_RETENTION_SECONDS:
        # SQS keeps the time of the first send when it moves a message by itself.
        yield Finding(
            check="dead letters",
            state="wrong",
            found=f"dead letters are kept for {seconds} s, counted from their first send",
            remedy=f"set the dead letter queue's MessageRetentionPeriod to"
            f" {LONGEST_RETENTION_SECONDS} (14 days)",
        )
    waiting = int(letters.get("ApproximateNumberOfMessages", 0))
    if waiting:
        yield Finding(
            check="dead letters",
            state="warning",
            found=f"{waiting} dead letters wait",
            remedy="sekali dlq stats",
        )


def message_size(stack: Examined) -> Iterator[Finding]:
    """Check that a copy, which is a little longer than its original, still fits."""
    for what, fact in (("queue", stack.queue), ("dead letter queue", stack.dead_letters)):
        found = _facts(fact)
        most = int(found.get("MaximumMessageSize", MAX_MESSAGE_BYTES)) if found else None
        if most is not None and most < MAX_MESSAGE_BYTES:
            yield Finding(
                check="message size",
                state="warning",
                found=f"the {what} takes messages of {most} bytes only",
                remedy=f"set its MaximumMessageSize to {MAX_MESSAGE_BYTES}: a delayed copy or a"
                " dead letter is longer than its original",
            )


def _facts(fact: Facts | Unread) -> Facts | None:
    return None if isinstance(fact, Unread) else fact
