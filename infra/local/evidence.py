"""What was seen of a run from outside the library: the checker's only input beside the plan.

| evidence | where it is seen |
|---|---|
| rows | the results table, read at the end |
| writes | the table's accepted writes, on the wire |
| executions | one line that the job's body writes as it starts, so that a killed body counts too |
| dead letters | the dead letter queue, received at the end |
| measures | the wire (round trips), and the metrics that the functions emit |
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

EXECUTION: Final = "computing report"

Item = dict[str, dict[str, Any]]
"""A table item as the DynamoDB client answers it; Any: each attribute's type stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A job's body started. `at` is in Unix seconds, by the function's own clock.

    `interrupted` means that its invocation did not end by itself: killed, or timed out.
    """

    job_id: str
    key: str
    at: float
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The table accepted an outcome, at Unix seconds where that was seen."""

    item_key: str
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message of the dead letter queue, with its text attributes."""

    body: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Numbers that are handed on into the report.

    Round trips are per batch of records, cold where at least one body started in it. `sent_at`
    holds Unix seconds of the first send of each id. Hits and misses are of the values that were
    asked for. `takeovers` is what the functions reported.
    """

    seconds: float = 0.0
    cold_round_trips: Sequence[int] = ()
    warm_round_trips: Sequence[int] = ()
    local_hits: int = 0
    shared_hits: int = 0
    misses: int = 0
    takeovers: int = 0
    sent_at: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was seen; `fetch` reads an object that an item points to.

    `faults` are the spans (Unix seconds) in which something was injected that the guarantee speaks
    of: the cache was away, the table refused, a month was invalidated.
    """

    rows: Iterable[Item]
    writes: Sequence[Write]
    executions: Sequence[Execution]
    dead_letters: Sequence[DeadLetter]
    left_in_queue: int = 0
    faults: Sequence[tuple[float, float]] = ()
    fetch: Callable[[str], bytes] | None = None
    measures: Measures = field(default_factory=Measures)


def execution_of(line: str, *, interrupted: bool) -> Execution | None:
    """Read a function's log line; None where it tells of something else."""
    if EXECUTION not in line:
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("message") != EXECUTION:
        return None
    return Execution(job_id=told["job_id"], key=told["key"], at=told["at"], interrupted=interrupted)


def outcome_write(item: Item, *, at: float | None = None) -> Write | None:
    """Read an accepted write of the table; None where it does not settle an id."""
    if item.get("st", {}).get("S") not in {"done", "failed"}:
        return None
    return Write(item_key=item["pk"]["S"], at=at)
