"""Tell where an error was raised, without what it says.

The text of an error that a job raises is the job's own: it may hold what its payload held. So a log
line has the classes and the lines of code; the text is in the dead letter and in the job's record,
which expire and are guarded as its payload is.
"""

from __future__ import annotations

import traceback


def without_text(error: BaseException) -> str:
    """Return the traceback of `error` and of what led to it, oldest first, as classes and lines."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"{lines}{type(current).__module__}.{type(current).__qualname__}")
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return "\nled to:\n".join(reversed(parts))
