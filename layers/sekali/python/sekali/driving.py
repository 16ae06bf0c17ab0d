"""Do the steps that `loading` asks for: in a thread, or on an event loop.

Both take the same way through the same generators. On a loop the blocking flush of the shared cache
runs in a thread of the default pool, a pause is the loop's, and a loader may be a coroutine
function.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sekali.errors import LoadTimeout
from sekali.leases import LOADING, HeldLease
from sekali.steps import WAIT_SHARE, Flush, Pause, Run
from sekali.telemetry.spans import note_load, note_wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

    from sekali.flights import Gate
    from sekali.invocation import Invocation
    from sekali.shared import Shared
    from sekali.steps import Step
    from sekali.telemetry.spans import Spans

T = TypeVar("T")

_GATE_PAUSE_SECONDS: Final = 0.02


class Driver:
    """Do steps within one invocation's time."""

    def __init__(
        self, shared: Shared, invocation: Invocation, gate: Gate, spans: Spans | None = None
    ) -> None:
        """Keep the door to the shared cache, the time, and the limit on unshared loads.

        `spans` draws each load, None where nothing is traced.
        """
        self._spans = spans
        self._shared = shared
        self._invocation = invocation
        self._gate = gate

    def drive(self, steps: Generator[Step, Any, T]) -> T:  # Any: as in loading
        """Do the steps here and now; return what the generator returns."""
        try:
            step = next(steps)
            while True:
                try:
                    outcome = self._do(step)
                except BaseException as error:  # noqa: BLE001 - the generator decides about it
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def drive_async(self, steps: Generator[Step, Any, T]) -> T:  # Any: as in loading
        """Do the steps on the running loop."""
        try:
            step = next(steps)
            while True:
                try:
                    outcome = await self._do_async(step)
                except BaseException as error:  # noqa: BLE001 - the generator decides about it
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def flush(self, step: Flush) -> list[Any]:  # Any: as in Shared.flush
        """Send one pipeline, within what is left of the invocation."""
        left = max(self._invocation.remaining_seconds(), 0.0)
        return self._shared.flush(step.commands, operation=step.operation, within_seconds=left)

    def _do(self, step: Step) -> Any:  # Any: replies, or whatever the loader returns
        match step:
            case Flush():
                return self.flush(step)
            case Pause(seconds=seconds):
                note_wait(seconds)
                return self._invocation.pause(seconds)
            case Run(loader=loader, gated=False):
                with self._loading(step):
                    return _called_here(loader)
            case Run(loader=loader):
                if not self._gate.enter(self._gate_seconds()):
                    raise LoadTimeout("(any key: too many loads at once)", self._gate_seconds())
                try:
                    with self._loading(step):
                        return _called_here(loader)
                finally:
                    self._gate.leave()

    async def _do_async(self, step: Step) -> Any:  # Any: as in _do
        match step:
            case Flush():
                return await asyncio.to_thread(self.flush, step)
            case Pause(seconds=seconds):
                note_wait(seconds)
                return await asyncio.sleep(seconds)
            case Run(loader=loader, gated=False):
                with self._loading(step):
                    return await _called(loader)
            case Run(loader=loader):
                await self._enter_gate()
                try:
                    with self._loading(step):
                        return await _called(loader)
                finally:
                    self._gate.leave()

    @contextmanager
    def _loading(self, run: Run) -> Iterator[None]:
        """Let `load_lease` answer with the lease of this load; time it, and draw it if traced."""
        held = None if run.lease is None else HeldLease(run.lease, self._invocation, self._shared)
        token = LOADING.set(held)
        began = self._invocation.now()
        try:
            with self._spans.load(run.key) if self._spans is not None else nullcontext():
                yield
        finally:
            LOADING.reset(token)
            note_load(self._invocation.now() - began)

    async def _enter_gate(self) -> None:
        until = self._invocation.now() + self._gate_seconds()
        while not self._gate.enter(0.0):
            if self._invocation.now() >= until:
                raise LoadTimeout("(any key: too many loads at once)", self._gate_seconds())
            await asyncio.sleep(_GATE_PAUSE_SECONDS)

    def _gate_seconds(self) -> float:
        return max(self._invocation.remaining_seconds(), 0.0) * WAIT_SHARE


def _called_here(loader: Callable[[], T]) -> T:
    """Call a loader where nobody can await what it returns.

    Raises:
        TypeError: it returned what has to be awaited.
    """
    outcome = loader()
    if inspect.isawaitable(outcome):
        if inspect.iscoroutine(outcome):
            outcome.close()
        kind = type(outcome).__name__
        raise TypeError(f"the loader returned a {kind}: use get_or_load_async for such loaders")
    return outcome


async def _called(loader: Callable[[], T | Awaitable[T]]) -> T:
    outcome = loader()
    if inspect.isawaitable(outcome):
        awaited: T = await outcome
        return awaited
    return outcome
