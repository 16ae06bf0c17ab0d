"""Build by hand what one would build without this library: the peer of the worker's benchmarks.

Powertools' batch utility around Powertools' idempotency over its cache persistence layer; in the
body a two-tier cache of cachetools and Redis, with redis-py's Lock against stampedes. It is written
as a careful engineer would: local look-ups first, a second look under the lock, one client for all,
Powertools' local cache of finished records on. It lacks what the library is for: its completion and
deletion are unconditional, its lock is neither renewed nor fenced.

A cold record waits for the cache seven times: in-progress record, look, lock, second look, fill,
unlock, completed record.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Protocol

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer
from cachetools import TTLCache
from redis import Redis
from redis.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

TTL_SECONDS = 60
LOCAL_ENTRIES = 10_000
LOCK_SECONDS = 12
WAIT_SECONDS = 5


class Telling(Protocol):
    """What is told about the records of a batch."""

    def record(self, job_id: str) -> None:
        """Take one finished record."""
        ...

    def batch(self) -> None:
        """Write what was summed up."""
        ...


class HandMade:
    """The worker, by hand."""

    def __init__(
        self,
        cache_url: str,
        compute: Callable[[Mapping[str, Any]], object],  # Any: the payload's own JSON
        *,
        record: Callable[[str, str], None] | None = None,
        telling: Telling | None = None,
    ) -> None:
        """Take the job's own function, and optionally a durable write and telemetry."""
        client: Any = Redis.from_url(cache_url)  # Any: redis-py's replies vary by client
        self._client = client
        self._compute = compute
        self._record = record
        self._telling = telling
        self._local: TTLCache[str, object] = TTLCache(LOCAL_ENTRIES, TTL_SECONDS)
        self._local_lock = threading.Lock()
        self._config = IdempotencyConfig(
            event_key_jmespath="id",
            use_local_cache=True,
            local_cache_max_items=LOCAL_ENTRIES,
            expires_after_seconds=3600,
        )
        self._once = idempotent_function(
            self._run,
            data_keyword_argument="message",
            config=self._config,
            persistence_store=CachePersistenceLayer(client=client),
        )
        self._processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)

    def handler(self, event: dict[str, Any], context: Any) -> Any:  # Any: Lambda's own JSON
        """Take one SQS event."""
        self._config.register_lambda_context(context)
        answer = process_partial_response(
            event=event,
            record_handler=self._record_handler,
            processor=self._processor,
            context=context,
        )
        if self._telling is not None:
            self._telling.batch()
        return answer

    def _record_handler(self, record: SQSRecord) -> None:
        message = json.loads(record.body)
        self._once(message=message)
        if self._telling is not None:
            self._telling.record(message["id"])

    def _run(self, *, message: dict[str, Any]) -> object:  # Any: the message's own JSON
        result = self._cached(f"square/{message['payload']['n']}", message["payload"])
        if self._record is not None:
            self._record(message["id"], json.dumps(result))
        return result

    def _cached(self, key: str, payload: Mapping[str, Any]) -> object:  # Any: as above
        with self._local_lock:
            known = self._local.get(key)
        if known is not None:
            return known
        value = self._shared(key)
        if value is None:
            lock = Lock(
                self._client, f"lock:{key}", timeout=LOCK_SECONDS, blocking_timeout=WAIT_SECONDS
            )
            with lock:
                value = self._shared(key)
                if value is None:
                    value = self._compute(payload)
                    self._client.set(key, json.dumps(value), ex=TTL_SECONDS)
        with self._local_lock:
            self._local[key] = value
        return value

    def _shared(self, key: str) -> object:
        stored = self._client.get(key)
        return None if stored is None else json.loads(stored)
