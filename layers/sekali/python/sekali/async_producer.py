"""Send jobs from an event loop, without blocking it.

The AWS client is synchronous, so each call runs on a thread of the loop's pool; there is no second
client library to install and to trust. A call that is cancelled is no longer waited for, but what
it has begun to send is sent: its ids make a repeat harmless.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any, Final

from sekali.sending import Sent

if TYPE_CHECKING:
    from sekali.payloads import Payload
    from sekali.producer import Producer
    from sekali.sending import Request, Unsent

_PER_THREAD: Final = 100
"""Requests of an asynchronous iterable that are handed to a thread at a time."""


class AsyncProducer:
    """A `Producer` for coroutines, with the same arguments, results and errors.

    Example:
        producer = AsyncProducer(Producer(queue_url, table_name=table_name))
        job_id = await producer.send("delay-report", {"month": "2013-01", "carrier": "UA"})
    """

    def __init__(self, producer: Producer) -> None:
        """Take the producer that does the work; it may be used beside this one."""
        self._producer = producer

    async def send(
        self,
        name: str,
        payload: Payload,
        *,
        id: str | None = None,  # noqa: A002 - the contract's own word
        key: str | None = None,
        delay_seconds: int = 0,
        group: str | None = None,
        trace: str | None = None,
    ) -> str:
        """Send one job and return its id, as `Producer.send`."""
        return await asyncio.to_thread(
            self._producer.send,
            name,
            payload,
            id=id,
            key=key,
            delay_seconds=delay_seconds,
            group=group,
            trace=trace,
        )

    async def send_many(
        self,
        requests: Iterable[Request] | AsyncIterable[Request],
        *,
        budget_seconds: float = 20.0,
    ) -> Sent:
        """Send jobs in batches, as `Producer.send_many`; they may come from an async generator.

        An ordinary iterable is read on the thread that sends.
        """
        if isinstance(requests, Iterable):
            return await asyncio.to_thread(
                self._producer.send_many, requests, budget_seconds=budget_seconds
            )
        give_up_at = time.monotonic() + budget_seconds
        ids: list[str] = []
        unsent: list[Unsent] = []

        async def send(chunk: list[Request]) -> None:
            left_seconds = max(give_up_at - time.monotonic(), 0.0)
            sent = await asyncio.to_thread(
                self._producer.send_many, chunk, budget_seconds=left_seconds
            )
            ids.extend(sent.ids)
            unsent.extend(sent.unsent)

        chunk: list[Request] = []
        async for request in requests:
            chunk.append(request)
            if len(chunk) == _PER_THREAD:
                await send(chunk)
                chunk = []
        if chunk:
            await send(chunk)
        return Sent(ids=ids, unsent=unsent)

    async def wait(
        self, job_id: str, *, name: str, timeout_seconds: float = 60.0
    ) -> Any:  # Any: whatever the job returned
        """Return the result of a job, as `Producer.wait`; no thread is held between two looks."""
        waiting = self._producer.waiting(job_id, name=name, timeout_seconds=timeout_seconds)
        # The table tells nobody when it changes.
        while (pause_seconds := await asyncio.to_thread(waiting.look)) is not None:  # noqa: ASYNC110
            await asyncio.sleep(pause_seconds)
        return waiting.result
