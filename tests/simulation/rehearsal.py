"""The same messages through the real worker: genuine runtime client, queue server, cache, table.

The jobs are those of the chaos suite: they sleep for as long as their payload says.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.local.stack import LocalStack
from tests.chaos.deployment import Deployment, write
from tests.simulation.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infra.local.fleet import Invocation
    from tests.simulation.inputs import Asked, Policy

JOB: Final = "lasting"
_PER_CALL: Final = 10
_DRAINED_WITHIN_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A stack of this machine that takes loads one after the other."""

    stack: LocalStack

    def run(self, messages: Sequence[Asked], *, name: str) -> tuple[Outcome, list[Invocation]]:
        """Send everything, let it be worked off, and tell what came of it.

        `name` keeps ids and keys apart from those of other runs.
        """
        before = len(self.stack.invocations), len(self.stack.deliveries), self._bodies(name)
        queue = self.stack.source_queue()
        began = time.time()
        sent = self._send(messages, name)
        self.stack.wait_until_drained(queue, within_seconds=_DRAINED_WITHIN_SECONDS)
        # The last batch is deleted before it is told of.
        invocations = self._invocations(before[0])
        outcome = Outcome(invocations=len(invocations))
        settled: dict[str, float] = {}
        for delivery in self.stack.deliveries[before[1] :]:
            # A delayed copy comes after what it is a copy of, so the last one counts.
            if delivery.deleted:
                settled[json.loads(delivery.body)["id"]] = delivery.at
        outcome.seconds = max(settled.values()) - began
        outcome.latencies = [at - sent[job_id] for job_id, at in settled.items()]
        outcome.bodies = self._bodies(name)
        return outcome, invocations

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

    def _send(self, messages: Sequence[Asked], name: str) -> dict[str, float]:
        """Send each message at its second and return when its id was sent first."""
        sent: dict[str, float] = {}
        url = self.stack.aws.queue_url(self.stack.source_queue())
        began = time.monotonic()
        for first in range(0, len(messages), _PER_CALL):
            chunk = messages[first : first + _PER_CALL]
            # Those that are due later wait for nobody: a chunk leaves when its last one is due.
            time.sleep(max(0.0, chunk[-1].at - (time.monotonic() - began)))
            for asked in chunk:
                sent.setdefault(f"{name}-{asked.id}", time.time())
            entries: list[Any] = [
                {"Id": str(index), "MessageBody": _body(asked, name)}
                for index, asked in enumerate(chunk)
            ]
            self.stack.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)
        return sent


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
