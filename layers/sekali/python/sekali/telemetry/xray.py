"""Draw batches as X-Ray subsegments, through the recorder of Powertools' Tracer.

    Lambda's segment ── ## process jobs ─┬─ ## delay-report ─┬─ claim
                                         │                   ├─ run ── load
                                         │                   ├─ store
                                         │                   └─ finish
                                         └─ ## delay-report ...

A queue does not carry the parent on: Lambda links this trace with those of the messages. Every
subsegment of a record carries the id of its message's trace as the annotation `trace`, so that one
search (`annotation.trace = "1-…"`) finds producer, every attempt, copies and the dead letter.

The subsegment of a record is sent by itself when it ends: below the batch's it would be walked
through again with every other one, and a batch of 10,000 would not fit the 64 KB of a document.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Tracer
from aws_xray_sdk.core.lambda_launcher import LambdaContext
from aws_xray_sdk.core.models.subsegment import Subsegment

from sekali.telemetry.shown_keys import shown
from sekali.telemetry.trace_context import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sekali.telemetry.events import RecordSettled
    from sekali.telemetry.shown_keys import Keys
    from sekali.telemetry.spans import StepName, Traced

MAX_DOCUMENT_BYTES: Final = 60_000
"""X-Ray takes 64 KB at a time: a larger tree is sent in parts."""


class CarriedContext(LambdaContext):  # type: ignore[misc]  # the SDK ships no types
    """Let the current subsegment follow threads and tasks, as other context does.

    The SDK keeps it in a thread-local list, so that a record on a thread of its own begins with
    nothing, and coroutines of one loop take each other's for theirs. What is kept in a context
    variable is copied with the context, and never changed in place.
    """

    def __init__(self) -> None:
        super().__init__()
        self._local = _Carried()

    def put_subsegment(self, subsegment: Subsegment) -> None:
        """Make it the current one, below the one before."""
        self._local.entities = list(self._local.entities if self._has_entities() else [])
        super().put_subsegment(subsegment)

    def end_subsegment(self, end_time: float | None = None) -> bool:
        """End the current one; that before it is current again."""
        if self._has_entities():
            self._local.entities = list(self._local.entities)
        return bool(super().end_subsegment(end_time))

    def clear_trace_entities(self) -> None:
        """Forget what is current in this context."""
        self._local.keep({})

    @contextmanager
    def current(self, entity: Subsegment) -> Iterator[None]:
        """Let `entity` be the current one in this context, for the block."""
        before = self._local.kept()
        self.set_trace_entity(entity)
        try:
            yield
        finally:
            self._local.keep(before)

    def _has_entities(self) -> bool:
        return bool(getattr(self._local, "entities", None))


class _Carried:
    """What the SDK keeps in a `threading.local`, in a context variable instead."""

    def __init__(self) -> None:
        kept: ContextVar[Mapping[str, Any]] = ContextVar("sekali_xray", default={})  # noqa: B039
        object.__setattr__(self, "_kept", kept)

    def __getattr__(self, name: str) -> Any:  # Any: the SDK's own entities
        try:
            return object.__getattribute__(self, "_kept").get()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:  # Any: as above
        kept = object.__getattribute__(self, "_kept")
        kept.set({**kept.get(), name: value})

    def kept(self) -> Mapping[str, Any]:
        """Return everything that this context keeps."""
        kept: Mapping[str, Any] = object.__getattribute__(self, "_kept").get()
        return kept

    def keep(self, values: Mapping[str, Any]) -> None:
        """Keep `values` and nothing else, in this context."""
        object.__getattribute__(self, "_kept").set(values)


class XRaySpans:
    """Draw through the recorder that Powertools' Tracer uses, the job's own one included."""

    def __init__(self, *, keys: Keys = "key", wall: Callable[[], float] = time.time) -> None:
        """Make the tracer, and let its context follow threads and tasks.

        Args:
            keys: how a key is shown.
            wall: unix seconds.
        """
        # Any: the provider is the SDK's recorder, which has no types.
        recorder: Any = Tracer(auto_patch=False).provider
        recorder.context = CarriedContext()
        self._recorder = recorder
        self._keys = keys
        self._wall = wall

    def batch(self, records: Sequence[Traced], *, queue_url: str, began: float) -> XRayBatch | None:
        """Begin below whatever is current: Lambda's segment, or a subsegment of the handler."""
        above = self._recorder.get_trace_entity()
        # Lambda's segment is a stand-in without type; where there is none, nothing is sampled.
        if above is None or not above.sampled or getattr(above, "initializing", False):
            return None
        queue = queue_url.rpartition("/")[2]
        batch = XRayBatch(self._recorder, above, queue, began, self._wall)
        for record in records:
            batch.add(record, began)
        return batch

    @contextmanager
    def load(self, key: str) -> Iterator[None]:
        """Draw the block below what is current in this context."""
        above = self._recorder.get_trace_entity()
        if above is None or not above.sampled:
            yield
            return
        drawn = _below(above, "load", self._wall())
        drawn.put_annotation("key", shown(key, self._keys))
        trace = getattr(above, "annotations", {}).get("trace")
        if trace:
            drawn.put_annotation("trace", trace)
        with _current(self._recorder, drawn, self._wall):
            yield
        if not hasattr(above, "namespace"):  # directly below Lambda's segment: nobody else sends it
            _send(self._recorder, drawn)


class XRayBatch:
    """One batch."""

    def __init__(
        self,
        recorder: Any,  # Any: the SDK's recorder, as above
        above: Any,  # Any: a segment or subsegment of the SDK
        queue: str,
        began: float,
        wall: Callable[[], float],
    ) -> None:
        self._recorder = recorder
        self._wall = wall
        self._drawn = _apart(above, f"## process {queue}", began)
        self._open: dict[int, Traced] = {}

    def add(self, record: Traced, began: float) -> None:
        """Begin the subsegment of a record."""
        drawn = _apart(self._drawn, f"## {record.name or 'undecoded'}", began)
        trace = parse(record.trace)
        _annotate(
            drawn,
            job=record.name,
            id=record.id,
            message_id=record.message_id,
            trace=trace.xray_id if trace else "",
        )
        record.span = drawn
        self._open[id(record)] = record

    def step(
        self, name: StepName, records: Sequence[Traced], *, began: float, seconds: float
    ) -> None:
        """Draw one subsegment for each record, all with the same times."""
        for record in records:
            if record.span is None:
                continue
            drawn = _below(record.span, name, began)
            drawn.put_annotation("trace", record.span.annotations.get("trace", ""))
            drawn.close(began + seconds)

    @contextmanager
    def body(self, record: Traced) -> Iterator[None]:
        """Draw the body, with whatever it traces by itself below."""
        drawn = _below(record.span, "run", self._wall())
        drawn.put_annotation("trace", record.span.annotations.get("trace", ""))
        with _current(self._recorder, drawn, self._wall):
            yield

    def end(self, record: Traced, settled: RecordSettled) -> None:
        """Send the record's subsegment with everything below it."""
        drawn, record.span = record.span, None
        self._open.pop(id(record), None)
        if drawn is None:
            return
        _annotate(
            drawn,
            outcome=settled.outcome,
            reason=settled.reason,
            source=settled.source,
            attempt=settled.attempt,
        )
        if settled.outcome in {"return", "dead_letter"}:
            drawn.add_fault_flag()
        drawn.close(self._wall())
        _send(self._recorder, drawn)

    def close(self) -> None:
        """End the batch's subsegment; a record that nobody ended is sent as a fault."""
        for record in list(self._open.values()):
            drawn, record.span = record.span, None
            drawn.add_fault_flag()
            drawn.close(self._wall())
            _send(self._recorder, drawn)
        self._open.clear()
        self._drawn.close(self._wall())
        _send(self._recorder, self._drawn)


def _apart(above: Any, name: str, began: float) -> Any:  # Any: the SDK has no types, here and below
    """Return a subsegment that names `above` as its parent and is sent by itself."""
    drawn = Subsegment(name, "local", getattr(above, "parent_segment", above))
    drawn.parent_id = above.id
    drawn.start_time = began
    return drawn


def _below(above: Any, name: str, began: float) -> Any:
    """Return a subsegment that is sent together with `above`, if that is one."""
    drawn = _apart(above, name, began)
    if hasattr(above, "parent_segment"):
        above.subsegments.append(drawn)
    return drawn


def _annotate(drawn: Any, **values: str | int) -> None:
    for name, value in values.items():
        if value != "":
            drawn.put_annotation(name, value)


@contextmanager
def _current(recorder: Any, drawn: Any, wall: Callable[[], float]) -> Iterator[None]:
    """Let `drawn` be the current subsegment of this context, and end it with the block.

    An error is told by its class alone: its text may hold what no trace should.
    """
    try:
        with recorder.context.current(drawn):
            yield
    except BaseException as error:
        drawn.add_fault_flag()
        drawn.put_annotation("error", type(error).__name__)
        raise
    finally:
        if drawn.in_progress:
            drawn.close(wall())


def _send(recorder: Any, drawn: Any) -> None:
    """Hand a tree to the daemon, in parts if it is too large for one document."""
    if len(drawn.subsegments) and len(drawn.serialize()) > MAX_DOCUMENT_BYTES:
        children, drawn.subsegments = drawn.subsegments, []
        for child in children:
            _send(recorder, child)
    recorder.emitter.send_entity(drawn)
