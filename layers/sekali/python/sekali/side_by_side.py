"""Make blocking calls side by side and stop waiting for them at a deadline.

A client's timeouts are fixed when it is built; an invocation's remaining time is not. A call that
has to end by a deadline therefore runs on a thread, and the caller leaves at the deadline:

    t=0    deadline is t=3; the call is sent
    t=3    no answer: the caller goes on with `StoreUnavailable`
    t=5    the call ends on its thread, unheard

so whatever is called here must be safe to repeat and harmless when it arrives late.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from sekali.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from sekali.clock import Clock

T = TypeVar("T")


class SideBySide:
    """Run calls on a bounded number of threads, which are started when first needed."""

    def __init__(self, *, threads: int, clock: Clock) -> None:
        """Say how many calls may run at once."""
        self._most = threads
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget the threads; after a fork there are none."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def one(self, operation: str, call: Callable[[], T], deadline: float | None) -> T:
        """Return what a single call returns, or raise what it raises."""
        [answer] = self.all(operation, [call], deadline)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    def all(
        self, operation: str, calls: Sequence[Callable[[], T]], deadline: float | None
    ) -> list[T | StoreUnavailable]:
        """Return one answer for each call, in order; `StoreUnavailable` stands in its place."""
        if deadline is None and len(calls) == 1:
            return [_heard(calls[0])]
        if self.left_seconds(deadline) == 0.0:
            return [StoreUnavailable(operation, "no time left") for _ in calls]
        pool = self._started()
        futures = [pool.submit(_heard, call) for call in calls]
        return [self._awaited(operation, future, deadline) for future in futures]

    def left_seconds(self, deadline: float | None) -> float | None:
        """Return the time until `deadline`, never below zero, or None where there is none."""
        return None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)

    def in_time(self, operation: str, deadline: float | None) -> None:
        """Raise `StoreUnavailable` instead of sending what nobody waits for any more."""
        if self.left_seconds(deadline) == 0.0:
            raise StoreUnavailable(operation, "no time left")

    def _awaited(
        self,
        operation: str,
        future: Future[T | StoreUnavailable],
        deadline: float | None,
    ) -> T | StoreUnavailable:
        try:
            return future.result(timeout=self.left_seconds(deadline))
        except TimeoutError:
            future.cancel()
            return StoreUnavailable(operation, "no answer by the deadline")

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="sekali-store")
            return self._pool


def _heard(call: Callable[[], T]) -> T | StoreUnavailable:
    try:
        return call()
    except StoreUnavailable as error:
        return error
