"""Log every step of some traces, for debugging: a share of them, and of each every attempt.

The line has the level INFO: Lambda itself drops lines below the level that is configured for the
function, whatever was sampled. It holds times and names, as the canonical line; never a payload.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sekali.telemetry.log_lines import SAMPLED_MESSAGE, Lines, canonical, is_sampled
from sekali.telemetry.shown_keys import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.telemetry.events import RecordSettled
    from sekali.telemetry.shown_keys import Keys
    from sekali.telemetry.spans import StepName, Traced

Step = dict[str, object]

_STEPS: ContextVar[tuple[float, list[Step]] | None] = ContextVar("sekali_steps", default=None)
"""When the batch of the record of this context began, and its steps so far; None where not kept."""


class SampledLines:
    """Draw into the log."""

    def __init__(
        self,
        service: str,
        *,
        rate: float,
        keys: Keys = "key",
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Name the service.

        Args:
            service: field of each line.
            rate: share of traces, 0 to 1.
            keys: how a key is shown.
            wall: unix seconds.
        """
        self._lines = Lines(service, wall=wall)
        self._rate = rate
        self._keys = keys
        self._wall = wall

    def batch(
        self,
        records: Sequence[Traced],
        *,
        queue_url: str,  # noqa: ARG002 - of the port
        began: float,
    ) -> SampledBatch | None:
        """Keep the steps of those records whose trace is among the share."""
        kept = [record for record in records if is_sampled(record.trace, self._rate)]
        if not kept:
            return None
        return SampledBatch(self._lines, kept, began=began, keys=self._keys, wall=self._wall)

    @contextmanager
    def load(self, key: str) -> Iterator[None]:
        """Keep the block as a step of the record that it runs for."""
        with _kept("load", self._wall, key=shown(key, self._keys)):
            yield


class SampledBatch:
    """The kept records of one batch."""

    def __init__(
        self,
        lines: Lines,
        records: Sequence[Traced],
        *,
        began: float,
        keys: Keys,
        wall: Callable[[], float],
    ) -> None:
        self._lines = lines
        self._began = began
        self._keys = keys
        self._wall = wall
        self._steps: dict[int, list[Step]] = {id(record): [] for record in records}

    def step(
        self, name: StepName, records: Sequence[Traced], *, began: float, seconds: float
    ) -> None:
        """Keep the step for each of `records` that is kept."""
        for record in records:
            steps = self._steps.get(id(record))
            if steps is not None:
                steps.append(_step(name, began - self._began, seconds, records=len(records)))

    @contextmanager
    def body(self, record: Traced) -> Iterator[None]:
        """Keep the block, and the loads in it."""
        steps = self._steps.get(id(record))
        token = _STEPS.set(None if steps is None else (self._began, steps))
        try:
            with _kept("run", self._wall):
                yield
        finally:
            _STEPS.reset(token)

    def end(self, record: Traced, settled: RecordSettled) -> None:
        """Write the line."""
        steps = self._steps.pop(id(record), None)
        if steps is not None:
            steps.sort(key=_at)
            self._lines.write(SAMPLED_MESSAGE, {**canonical(settled, self._keys), "steps": steps})

    def close(self) -> None:
        """Forget what was not ended."""
        self._steps.clear()


@contextmanager
def _kept(name: str, wall: Callable[[], float], **fields: object) -> Iterator[None]:
    kept, start = _STEPS.get(), wall()
    error = ""
    try:
        yield
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        if kept is not None:
            began, steps = kept
            failed = {"error": error} if error else {}
            steps.append(_step(name, start - began, wall() - start, **fields, **failed))


def _step(name: str, at: float, seconds: float, **fields: object) -> Step:
    return {"step": name, "at_ms": round(at * 1000, 3), "ms": round(seconds * 1000, 3), **fields}


def _at(step: Step) -> float:
    at = step["at_ms"]
    return at if isinstance(at, float) else 0.0
