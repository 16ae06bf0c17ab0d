"""Let several draw the same batch."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sekali.telemetry.events import RecordSettled
    from sekali.telemetry.spans import BatchSpans, Spans, StepName, Traced


class SideBySide:
    """Be one drawer in front of several, in the order given."""

    def __init__(self, *spans: Spans) -> None:
        self._spans = spans

    def batch(
        self, records: Sequence[Traced], *, queue_url: str, began: float
    ) -> BatchesSideBySide | None:
        """Begin with each; None where none of them draws this batch."""
        begun = [one.batch(records, queue_url=queue_url, began=began) for one in self._spans]
        drawing = [batch for batch in begun if batch is not None]
        return BatchesSideBySide(drawing) if drawing else None

    @contextmanager
    def load(self, key: str) -> Iterator[None]:
        """Draw the block with each."""
        with ExitStack() as stack:
            for one in self._spans:
                stack.enter_context(one.load(key))
            yield


class BatchesSideBySide:
    """One batch."""

    def __init__(self, batches: Sequence[BatchSpans]) -> None:
        self._batches = batches

    def step(
        self, name: StepName, records: Sequence[Traced], *, began: float, seconds: float
    ) -> None:
        """Draw the step with each."""
        for one in self._batches:
            one.step(name, records, began=began, seconds=seconds)

    @contextmanager
    def body(self, record: Traced) -> Iterator[None]:
        """Draw the body with each."""
        with ExitStack() as stack:
            for one in self._batches:
                stack.enter_context(one.body(record))
            yield

    def end(self, record: Traced, settled: RecordSettled) -> None:
        """End the record with each."""
        for one in self._batches:
            one.end(record, settled)

    def close(self) -> None:
        """End the batch with each."""
        for one in self._batches:
            one.close()
