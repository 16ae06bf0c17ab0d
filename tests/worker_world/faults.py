"""Say what goes wrong, and where.

A *point* is a boundary that a batch crosses: `claim`, `renew`, `finish` and `other` (flushes of the
shared cache), `ask` and `record` (the table), `send` (the queue) and `body` (a job's function). At
each one a `Plan` is asked which fault happens, if any.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, Protocol

from sekali import running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Point = Literal["claim", "renew", "finish", "other", "ask", "record", "send", "body"]
Fault = Literal[
    "", "down", "lost", "half", "refused", "die_before", "die_after", "stop", "stop_after"
]
"""`down` nothing arrives; `lost` it is done and its reply lost; `half` the first half arrives and
the connection breaks; `refused` the server refuses one command; `die_before` and `die_after` the
container is killed; `stop` it is stopped and others go on, `stop_after` between the deed and its
reply (a flush or a write only)."""


class Killed(BaseException):
    """End a container on the spot: no handler of the library may catch it."""


running.ENDING = (*running.ENDING, Killed)


class Plan(Protocol):
    """Decide about faults."""

    def at(self, point: Point) -> Fault:
        """Return what goes wrong at this crossing of `point`; empty is nothing."""
        ...


class Script:
    """Name the faults of each crossing, in order; nothing goes wrong after the last one.

    ```python
    Script(claim=["", "lost"], finish=["down"] * 4)
    ```
    """

    def __init__(self, **faults: Sequence[Fault]) -> None:
        self.faults: Mapping[str, Sequence[Fault]] = faults
        self.crossed: Counter[str] = Counter()

    def at(self, point: Point) -> Fault:
        """Return the next fault of `point`."""
        planned = self.faults.get(point, ())
        number = self.crossed[point]
        self.crossed[point] += 1
        return planned[number] if number < len(planned) else ""
