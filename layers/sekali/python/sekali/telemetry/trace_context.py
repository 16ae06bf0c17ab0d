"""Read and write where a message comes from: the same trace id in X-Ray's form and in W3C's.

    X-Ray    Root=1-67891233-abcdef012345678912345678;Parent=53995c3f42cd8ad8;Sampled=1
    W3C      00-67891233abcdef012345678912345678-53995c3f42cd8ad8-01

A header that cannot be read is no error of a job: whoever asks gets None, and the job runs.
"""

from __future__ import annotations

import re

from sekali.light_dataclass import dataclass

TRACEPARENT = "traceparent"
"""Name of the message attribute that carries W3C's form."""
TRACESTATE = "tracestate"

_W3C = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_SPAN = re.compile("[0-9a-f]{16}")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16
_NEVER = "ff"
_SAMPLED_BIT = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace: 32 hexadecimal digits of the trace, 16 of the span.

    `span_id` is empty where an X-Ray header names no parent. `sampled` is None where nobody has
    decided yet.
    """

    trace_id: str
    span_id: str
    sampled: bool | None

    @property
    def xray_id(self) -> str:
        """Return the trace id as X-Ray writes it."""
        return f"1-{self.trace_id[:8]}-{self.trace_id[8:]}"

    @property
    def xray_header(self) -> str:
        """Return the X-Ray header, as the system attribute AWSTraceHeader carries it."""
        parts = [f"Root={self.xray_id}"]
        if self.span_id:
            parts.append(f"Parent={self.span_id}")
        if self.sampled is not None:
            parts.append(f"Sampled={int(self.sampled)}")
        return ";".join(parts)

    @property
    def traceparent(self) -> str | None:
        """Return W3C's form; None without a span, which it must have."""
        if not self.span_id:
            return None
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(text: str | None) -> TraceContext | None:
    """Read either form; None for anything else."""
    if not text:
        return None
    found = _W3C.fullmatch(text)
    return _from_w3c(found) if found else _from_xray(text)


def trace_id_of(text: str | None) -> str | None:
    """Return the trace id of a header in the header's own form, for a log line."""
    context = parse(text)
    if context is None or text is None:
        return None
    return context.trace_id if _W3C.fullmatch(text) else context.xray_id


def xray_header_of(text: str | None) -> str | None:
    """Return what the system attribute AWSTraceHeader takes, which knows no other form.

    A header in X-Ray's own form stays as it is, with all fields.
    """
    if text is None or text.startswith("Root="):
        return text
    context = parse(text)
    return None if context is None else context.xray_header


def _from_w3c(found: re.Match[str]) -> TraceContext | None:
    version, trace_id, span_id, flags, rest = found.groups()
    if version == _NEVER or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    if version == "00" and rest is not None:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED_BIT))


def _from_xray(text: str) -> TraceContext | None:
    fields = dict(part.strip().split("=", 1) for part in text.split(";") if part.count("=") == 1)
    root = _ROOT.fullmatch(fields.get("Root", ""))
    if root is None:
        return None
    parent = fields.get("Parent", "")
    sampled = fields.get("Sampled")
    return TraceContext(
        "".join(root.groups()),
        parent if _SPAN.fullmatch(parent) and parent != _NO_SPAN else "",
        sampled == "1" if sampled in {"0", "1"} else None,
    )
