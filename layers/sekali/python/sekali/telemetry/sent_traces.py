"""Give a message that is sent the trace of whoever sends it.

Without a choice nothing is imported and nothing drawn: what Lambda or an X-Ray SDK that is in use
already knows of the running trace goes along. With OpenTelemetry a send is drawn: one span for one
message, and for a batch one of each message's creation below the one of the send.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sekali.errors import SettingInvalid
from sekali.telemetry.trace_context import TraceContext, parse, xray_header_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Tracing = Literal["xray", "opentelemetry", "off"]
SETTING = "SEKALI_TRACING"
_LAMBDA_TRACE = "_X_AMZN_TRACE_ID"


class Origin(NamedTuple):
    """What a message carries of its sender's trace: X-Ray's header, W3C's two."""

    header: str | None = None
    parent: str | None = None
    state: str | None = None


def origin_of(trace: str | None) -> Origin:
    """Return what carries `trace`, a header in either form; one that is no header goes nowhere."""
    context = parse(trace)
    return Origin(xray_header_of(trace), None if context is None else context.traceparent)


class SentTraces:
    """Tell what a message that is sent now carries: the running trace, if there is one."""

    def running(self) -> bool:
        """Tell whether a message that is sent now would carry a trace."""
        return self.origin("", alone=True) != Origin()

    @contextmanager
    def sending(self, queue_url: str, count: int) -> Iterator[None]:  # noqa: ARG002 - of the port
        """Draw nothing around the block."""
        yield

    def origin(self, queue_url: str, *, alone: bool) -> Origin:  # noqa: ARG002 - as above
        """Return the running trace, as an SDK of X-Ray or Lambda knows it."""
        return origin_of(_xray_sdk() or os.environ.get(_LAMBDA_TRACE))


class NoTraces(SentTraces):
    """Send no trace along."""

    def origin(self, queue_url: str, *, alone: bool) -> Origin:  # noqa: ARG002 - as above
        """Return nothing."""
        return Origin()


class OpenTelemetryTraces(SentTraces):
    """Draw each send through the tracer provider of this process."""

    def __init__(self, *, wall: Callable[[], float] = time.time) -> None:
        """Import OpenTelemetry; without a provider nothing is drawn, and nothing fails."""
        from sekali.telemetry.opentelemetry_sends import Sends

        self._sends = Sends(wall=wall)

    def running(self) -> bool:
        """Tell that it would: the send is drawn, and gives one."""
        return True

    @contextmanager
    def sending(self, queue_url: str, count: int) -> Iterator[None]:
        """Draw the block as the sending of `count` messages."""
        with self._sends.sending(queue_url, count):
            yield

    def origin(self, queue_url: str, *, alone: bool) -> Origin:
        """Return the context of a message: the send's where it is `alone`, else one of its own."""
        return self._sends.origin(queue_url, alone=alone)


def chosen_traces(tracing: Tracing | None) -> SentTraces:
    """Return what was chosen; None is SEKALI_TRACING, which is X-Ray where it is not set.

    Raises:
        SettingInvalid: that is none of them.
    """
    chosen: str = tracing or os.environ.get(SETTING, "xray")
    if chosen == "opentelemetry":
        return OpenTelemetryTraces()
    if chosen == "xray":
        return SentTraces()
    if chosen == "off":
        return NoTraces()
    raise SettingInvalid(SETTING, "must be one of xray, opentelemetry, off", chosen)


def _xray_sdk() -> str | None:
    """Return the header of the current subsegment, where an X-Ray SDK is in use already."""
    core: Any = sys.modules.get("aws_xray_sdk.core")  # Any: the SDK ships no types
    if core is None:
        return None
    local = core.xray_recorder.context._local  # noqa: SLF001 - asking aloud logs where there is none
    entities: Sequence[Any] = getattr(local, "entities", None) or ()
    if not entities:
        return None
    current = entities[-1]
    root = parse(f"Root={current.trace_id};Sampled={int(bool(current.sampled))}")
    if root is None:
        return None
    return TraceContext(root.trace_id, current.id, root.sampled).xray_header
