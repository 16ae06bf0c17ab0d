"""The durable table of the world: in memory, with faults, and with a memory of what it accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekali.errors import ResultTooLarge, StoreUnavailable
from sekali.store_rows import Accepted
from sekali.testing import MemoryStore
from tests.worker_world.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sekali.clock import Clock
    from sekali.store_rows import Answer, JobId, Outcome, Row
    from tests.worker_world.faults import Fault, Point


class FaultyStore(MemoryStore):
    """One container's view of the table."""

    def __init__(
        self,
        shared: MemoryStore,
        *,
        clock: Clock,
        decide: Callable[[Point], Fault],
        stop: Callable[[], None],
        accepted: list[Outcome],
    ) -> None:
        super().__init__(clock=clock)
        self._shelf = shared._shelf  # noqa: SLF001 two views of one store
        self._decide = decide
        self._stop = stop
        self._accepted = accepted

    def get_many(self, ids: Sequence[JobId], *, deadline: float | None = None) -> dict[JobId, Row]:
        """Read rows, or fail as the plan says."""
        fault = self._decide("ask")
        if fault.startswith("die"):
            raise Killed
        if fault in {"down", "lost", "half", "refused"}:
            raise StoreUnavailable("read", fault)
        return super().get_many(ids, deadline=deadline)

    def record_many(
        self, outcomes: Sequence[Outcome], *, deadline: float | None = None
    ) -> list[Answer | StoreUnavailable | ResultTooLarge]:
        """Write outcomes, or fail as the plan says."""
        fault = self._decide("record")
        if fault == "die_before":
            raise Killed
        answers: list[Answer | StoreUnavailable | ResultTooLarge] = []
        for number, outcome in enumerate(outcomes):
            failing = fault == "down" or (fault == "half" and number % 2 == 1)
            if failing or (fault == "refused" and number == 0):
                answers.append(StoreUnavailable("record", "ThrottlingException"))
                continue
            [answer] = super().record_many([outcome], deadline=deadline)
            if isinstance(answer, Accepted) and not answer.repeated:
                self._accepted.append(outcome)
            answers.append(StoreUnavailable("record", "lost") if fault == "lost" else answer)
        if fault == "die_after":
            raise Killed
        if fault == "stop_after":
            self._stop()
        return answers

    def row(self, name: str, job_id: str) -> Row | None:
        """Return a row past every fault and every expiry."""
        rows: dict[Any, Row] = super().get_many([(name, job_id)])
        return rows.get((name, job_id))
