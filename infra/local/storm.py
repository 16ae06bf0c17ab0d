"""Faults in their order, at a running stack: what `make demo ARGS="--chaos"` lets one watch.

Each lasts a few seconds, and the stack has time to recover before the next one.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from infra.local.faults import Strike, slow_objects, throttled_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from infra.local.stack import LocalStack

_KILLS: Final = 3
_SLOW_SECONDS: Final = 1.5
_FIND_BUSY_SECONDS: Final = 2.0
_CALM_SECONDS: Final = 5.0

SECONDS: Final = 62.0
"""About how long the whole storm takes."""


class Storm:
    """Strikes one stack, from `start` to its end or `stop`.

    Args:
        stack: A watched one, with jobs going through it.
        months: The objects whose change is one of the faults, by their keys.
    """

    def __init__(self, stack: LocalStack, months: Mapping[str, bytes]) -> None:
        self._stack = stack
        self._months = months
        self._lock = threading.Lock()
        self._strikes: list[Strike] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storm", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End what is on, and strike no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_over(self) -> bool:
        """Tell whether the last fault has passed."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait until the last fault has passed."""
        self._thread.join()

    def strikes(self) -> list[Strike]:
        """Answer the faults so far."""
        with self._lock:
            return list(self._strikes)

    def spans(self) -> list[tuple[float, float]]:
        """Answer from when to when each fault lasted, in Unix seconds."""
        now = time.time()
        return [(one.began_at, one.ended_at or now) for one in self.strikes()]

    def _run(self) -> None:
        for name, seconds, begin, end in self._faults():
            if self._stopping.wait(_CALM_SECONDS):
                return
            self._strike(name, seconds, begin, end)

    def _strike(
        self, name: str, seconds: float, begin: Callable[[], None], end: Callable[[], None]
    ) -> None:
        strike = Strike(name=name, began_at=time.time())
        with self._lock:
            self._strikes.append(strike)
        try:
            begin()
            self._stopping.wait(seconds)
        finally:
            end()
            with self._lock:
                self._strikes[-1] = replace(strike, ended_at=time.time())

    def _faults(self) -> Iterator[tuple[str, float, Callable[[], None], Callable[[], None]]]:
        climate, fleets = self._stack.climate, self._stack.fleets

        def cut() -> None:
            climate.cache.cut = True

        def mend() -> None:
            climate.cache.cut = False

        def throttle() -> None:
            climate.aws.refused = throttled_table

        def serve() -> None:
            climate.aws.refused = lambda _: b""

        def reserve(concurrency: int | None) -> None:
            for fleet in fleets.values():
                fleet.reserve(concurrency)

        yield "environments killed", 1.0, self._kill, _nothing
        yield "every month's file changed", 2.0, self.change_months, _nothing
        yield "the shared cache is away", 7.0, cut, mend
        yield "the table throttles", 6.0, throttle, serve
        yield "objects come late", 6.0, self.slow_objects, self.quick_objects
        yield "Lambda refuses to start more", 5.0, lambda: reserve(1), lambda: reserve(None)
        yield "a deployment", 1.0, self._stack.redeploy, _nothing

    def _kill(self) -> None:
        for fleet in self._stack.fleets.values():
            for _ in range(_KILLS):
                fleet.kill_one(
                    when=lambda busy: busy.request_id != "", within_seconds=_FIND_BUSY_SECONDS
                )

    def slow_objects(self) -> None:
        """Let each load take long, and every month be loaded again."""
        self._stack.climate.aws.delay = slow_objects(_SLOW_SECONDS)
        self.change_months()

    def quick_objects(self) -> None:
        """Let loads be quick again."""
        self._stack.climate.aws.delay = lambda _: 0.0

    def change_months(self) -> None:
        """Write each month again: the same flights, but nobody can know that."""
        (bucket,) = self._stack.template.buckets.values()
        for key, content in self._months.items():
            self._stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


def _nothing() -> None:
    """End a fault that ends by itself."""
