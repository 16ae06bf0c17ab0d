"""The same messages through the real worker: genuine runtime client, queue server, cache, table.

The jobs are those of the chaos suite: they sleep for as long as their payload says.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.local.stack import LocalStack
from tests.chaos.deployment import Deployment, write
from tests.simulation.inputs import SENT_TOGETHER
from tests.simulation.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infra.local.event_source import Delivery
    from infra.local.fleet import Invocation
    from tests.simulation.inputs import Asked, Policy

JOB: Final = "lasting"
_DRAINED_WITHIN_SECONDS: Final = 120.0
_APART_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the platform saw of one load."""

    outcome: Outcome
    invocations: Sequence[Invocation]
    deliveries: Sequence[Delivery]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A stack of this machine that takes loads one after the other."""

    stack: LocalStack

    def run(self, messages: Sequence[Asked], *, name: str, apart: bool = False) -> Run:
        """Send everything, let it be worked off, and tell what came of it.

        `name` keeps ids and keys apart from those of other runs. `apart`: each message is sent
        alone, at a moment of its own, when nothing else is in the queue.
        """
        before = len(self.stack.invocations), len(self.stack.deliveries), self._bodies(name)
        began = time.time()
        if apart:
            chance = random.Random(len(messages))
            for message in messages:
                time.sleep(chance.uniform(0.0, _APART_SECONDS))
                self._send([message], name)
                self._drain()
        else:
            self._send(messages, name)
            self._drain()
        # The last batch is deleted before it is told of.
        invocations = self._invocations(before[0])
        deliveries = self.stack.deliveries[before[1] :]
        outcome = Outcome(
            seconds=max(one.at for one in deliveries) - began,
            latencies=list(latencies(deliveries)),
            deferrals=sum(_copied_from(one) is not None for one in deliveries),
            invocations=len(invocations),
            bodies=self._bodies(name) - before[2],
        )
        return Run(outcome=outcome, invocations=invocations, deliveries=deliveries)

    def _drain(self) -> None:
        queue = self.stack.source_queue()
        self.stack.wait_until_drained(queue, within_seconds=_DRAINED_WITHIN_SECONDS)

    def _invocations(self, first: int) -> list[Invocation]:
        count = -1
        while count != len(self.stack.invocations):
            count = len(self.stack.invocations)
            time.sleep(0.2)
        return self.stack.invocations[first:]

    def _bodies(self, name: str) -> Counter[int]:
        starts = (record.fields for record in self.stack.logs.records())
        return Counter(
            int(start["key"].rpartition("/")[2])
            for start in starts
            if start.get("chaos") == "start" and start["id"].startswith(f"{name}-")
        )

    def _send(self, messages: Sequence[Asked], name: str) -> None:
        """Send each message at its second."""
        url = self.stack.aws.queue_url(self.stack.source_queue())
        began = time.monotonic()
        for first in range(0, len(messages), SENT_TOGETHER):
            chunk = messages[first : first + SENT_TOGETHER]
            # Those that are due later wait for nobody: a chunk leaves when its last one is due.
            time.sleep(max(0.0, chunk[-1].at - (time.monotonic() - began)))
            entries: list[Any] = [
                {"Id": str(index), "MessageBody": _body(asked, name)}
                for index, asked in enumerate(chunk)
            ]
            self.stack.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)


def latencies(deliveries: Sequence[Delivery]) -> Iterator[float]:
    """Yield, for each message that was sent, the seconds until it or its last copy was gone.

    A copy names its original by the id and the second at which that one was sent; two that were
    sent together are one as good as the other.

        sent ──> deferred: deleted, its copy is sent ──> deleted
        └──────────────────── latency ───────────────────────┘
    """
    gone: dict[tuple[str, float], list[float]] = {}
    originals: Counter[tuple[str, float]] = Counter()
    for delivery in deliveries:
        if delivery.deleted:
            copied_from = _copied_from(delivery)
            sent_at = delivery.sent_at if copied_from is None else copied_from
            message = json.loads(delivery.body)["id"], round(sent_at, 3)
            gone.setdefault(message, []).append(delivery.at)
            originals[message] += copied_from is None
    for message, at in gone.items():
        for last in sorted(at)[-originals[message] :]:
            yield last - message[1]


def _copied_from(delivery: Delivery) -> float | None:
    """Return the unix second at which the original of a copy was sent; None: it is no copy."""
    first_sent: float | None = json.loads(delivery.body).get("first_sent")
    return first_sent


@contextmanager
def rehearsing(policy: Policy) -> Iterator[Rehearsal]:
    """Start a stack with these numbers, its pollers running."""
    deployment = Deployment(
        timeout_seconds=30,
        visibility_seconds=round(policy.visibility_seconds),
        batch_size=policy.batch_size,
        max_concurrency=policy.concurrency,
        lease_seconds=policy.lease_seconds,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = write(Path(temporary) / "cdk.out", deployment, sources=Path(temporary))
        with LocalStack(folder) as stack:
            yield Rehearsal(stack=stack)


def _body(asked: Asked, name: str) -> str:
    return json.dumps(
        {
            "sekali": 1,
            "id": f"{name}-{asked.id}",
            "name": JOB,
            "key": f"{name}/{asked.key}",
            "payload": {"key": f"{name}/{asked.key}", "seconds": round(asked.seconds, 4)},
        }
    )
