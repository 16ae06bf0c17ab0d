"""Help tests of programs that use this library. It ships, and imports nothing but the library.

`CacheContainer` is an execution environment with both cache tiers, on a clock of the test's.
`FrozenClock` stands in for time, `Proxy` for the network, `FakeLoader` for the database behind a
cache, `MemoryStore` for the durable table, `MemoryQueue` for SQS; `Jobs` is all that a worker
needs, in one process. docs/testing.md and docs/pytest.md show them at work.
"""

from __future__ import annotations

from sekali.testing.clock import FrozenClock
from sekali.testing.containers import CacheContainer
from sekali.testing.events import LambdaContext, sqs_event, sqs_record
from sekali.testing.jobs import DeadLetter, Jobs, QueueNotEmpty
from sekali.testing.loader import FakeLoader
from sekali.testing.proxy import Proxy
from sekali.testing.queue import MemoryQueue
from sekali.testing.store import MemoryStore

__all__ = [
    "CacheContainer",
    "DeadLetter",
    "FakeLoader",
    "FrozenClock",
    "Jobs",
    "LambdaContext",
    "MemoryQueue",
    "MemoryStore",
    "Proxy",
    "QueueNotEmpty",
    "sqs_event",
    "sqs_record",
]
