"""A whole worker's surroundings in one process: queue, table, clock, and a real cache.

```python
with Jobs("valkey://127.0.0.1:6379") as jobs:
    job_id = jobs.send("ship", {"weight": 3})
    jobs.run(handler)                       # until the queue is empty
    assert jobs.result("ship", job_id) == "parcel 1"
```

The pytest fixture `sekali_jobs` is one of these (docs/pytest.md). The cache is genuine, because the
protocol's steps are scripts that run in it; the rest is in memory. Time stands still but for what a
run skips: if all that waits is delayed, the clock moves to when the first of it is due.

What is not like Lambda: nothing is frozen or killed, no heartbeat runs, and one batch is handled
after the other. `make demo` and docs/tutorial.md run the genuine thing.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from sekali import warm
from sekali.connections import full_client
from sekali.durable import Durable
from sekali.outbox import Outbox
from sekali.producer import Producer
from sekali.results import Wait
from sekali.settings import Settings
from sekali.telemetry.hooks import Hooks
from sekali.testing.clock import FrozenClock
from sekali.testing.containers import ContainerOnClock
from sekali.testing.events import LambdaContext
from sekali.testing.queue import MemoryQueue
from sekali.testing.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from sekali.telemetry.events import Event
    from sekali.testing.queue import Waiting

    Handler = Callable[[Any, Any], Mapping[str, Any]]  # Any: an event, a context, an answer

MOST_BATCHES: Final = 100
_COOLED_SECONDS: Final = 0.003


class QueueNotEmpty(RuntimeError):
    """A run did not come to an end; `waiting` messages are left.

    Raised by `Jobs.run` after a hundred batches. A job that is busy or fails goes on as a delayed
    copy, and its attempts end at three by default: look for one that is deferred for ever.
    """

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        super().__init__(f"{waiting} messages still wait after {MOST_BATCHES} batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that was given up: why, by which error, and what was asked for."""

    reason: str
    error_type: str | None
    error: str | None
    body: Any  # Any: the sender's own JSON, or text that is none


class Jobs:
    """Send jobs to a worker of yours, run it, and look at what came of them.

    While the block lasts, `sekali.cache`, `sekali.lease`, `@cached` and `worker.handler` of this
    process use it; no variable of the environment is read.
    """

    def __init__(
        self,
        cache_url: str,
        *,
        clock: FrozenClock | None = None,
        queue: MemoryQueue | None = None,
        table: MemoryStore | None = None,
        **settings: Any,  # Any: fields of Settings
    ) -> None:
        """Take the cache's address and, where a test has its own, the parts.

        Args:
            cache_url: of a server that may be emptied: the block begins with an empty one.
            clock: whose time it is; moved by `run` where only delayed messages wait.
            queue: where jobs and dead letters go.
            table: where outcomes are recorded.
            settings: any setting, as in `Settings`.
        """
        self.clock: FrozenClock = clock or FrozenClock()
        self.queue: MemoryQueue = queue or MemoryQueue(clock=self.clock)
        self.table: MemoryStore = table or MemoryStore(clock=self.clock)
        self.events: list[Event] = []
        about: dict[str, Any] = {
            "cache_url": cache_url,
            "table_name": "results",
            "queue_url": self.queue.url,
            "dead_letter_queue_url": self.queue.dead_letter_url,
            "partial_batch": True,
            # The server's clock is the machine's: see `_skip`.
            "cooling_base_seconds": 0.001,
            "cooling_cap_seconds": 0.001,
            "heartbeat": False,
        }
        self.settings: Settings = Settings(**{**about, **settings})
        # Any: the queue is a part of what boto3's client is.
        client: Any = self.queue
        self.producer: Producer = Producer(
            self.queue.url, client, clock=self.clock, sleep=self.clock.sleep
        )
        self._inside = ExitStack()

    def __enter__(self) -> Self:
        """Empty the cache and begin with a cold container."""
        client = full_client(self.settings)()
        client.flushall()
        client.close()
        self.cold_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the container."""
        self._inside.close()

    def cold_start(self) -> None:
        """Go on in a container that knows nothing; cache, table and queue keep what they have."""
        self._inside.close()
        container = ContainerOnClock(
            self.settings, emit=Hooks(self.events.append), clock=self.clock
        )
        container.store = None
        container.durable = Durable(
            self.table, ttl_seconds=self.settings.record_ttl_seconds, wall=self.clock.wall
        )
        client: Any = self.queue  # Any: as above
        container.outbox = Outbox(lambda: client)
        self._inside.enter_context(warm.inside(container))
        self._inside.callback(container.close)

    def send(self, name: str, payload: Any, **options: Any) -> str:  # Any: as in Producer.send
        """Send one job as `Producer.send` does; return its id."""
        return self.producer.send(name, payload, **options)

    def run(self, handler: Handler, *, batch_size: int = 10) -> int:
        """Hand batches to `handler` until the queue is empty; return how many it took.

        Raises:
            QueueNotEmpty: a hundred batches did not suffice.
        """
        for batches in range(MOST_BATCHES):
            waiting = self.queue.waiting
            if not waiting:
                return batches
            self._skip(min(one.visible_at for one in waiting))
            records = self.queue.receive(most=batch_size)
            answer = handler({"Records": records}, LambdaContext())
            failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
            received = [one["messageId"] for one in records]
            self.queue.delete([one for one in received if one not in failed])
        raise QueueNotEmpty(len(self.queue.waiting))

    def result(self, name: str, job_id: str) -> Any:  # Any: whatever the job returned
        """Return what a job returned, as the table has it.

        Raises:
            JobFailed: it failed for good.
            ResultTimeout: nothing is recorded.
        """
        # Any: of the table, `Wait` uses what this one has.
        table: Any = self.table
        waiting = Wait(table, name=name, job_id=job_id, timeout_seconds=0.0, clock=self.clock)
        waiting.look()
        return waiting.result

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Return what was given up, in order."""
        return [_dead_letter(one) for one in self.queue.dead_letters]

    def _skip(self, until: float) -> None:
        missing = until - self.clock.wall()
        if missing > 0:
            self.clock.sleep(missing)
            # A failed job cools for a millisecond of the server's time.
            time.sleep(_COOLED_SECONDS)


def _dead_letter(message: Waiting) -> DeadLetter:
    try:
        body = json.loads(message.body)
    except ValueError:
        body = message.body
    return DeadLetter(
        reason=message.text("sekali.reason") or "",
        error_type=message.text("sekali.error_type"),
        error=message.text("sekali.error"),
        body=body,
    )
