"""Kill an execution environment in the middle of a job, as a machine that fails does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from infra.local.evidence import execution_of

if TYPE_CHECKING:
    from infra.local.environment import Environment
    from infra.local.logs import LogRecord
    from infra.local.stack import LocalStack

# By then the stack is warm, and most batches still have reports to compute.
_AFTER_BODIES: Final = 5


class KillOnce:
    """Sends SIGKILL as soon as a body has said that it starts, until one invocation died of it.

    A body that ends before the signal arrives takes nothing down with it, so the next one is tried.
    """

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._lock = threading.Lock()
        self._bodies = 0
        self._victim: str | None = None
        self._stopped = False
        stack.logs.listen(self._see)

    @property
    def killed(self) -> int:
        """How many invocations died of it."""
        return sum(invocation.outcome.kind == "died" for invocation in self._stack.invocations)

    def stop(self) -> None:
        """Kill nobody any more."""
        self._stopped = True

    def _see(self, record: LogRecord, environment: Environment) -> None:
        if self._stopped or execution_of(record.text, interrupted=False) is None:
            return
        with self._lock:
            self._bodies += 1
            if self._bodies <= _AFTER_BODIES or self._pending() or self.killed:
                return
            self._victim = record.request_id
        environment.kill()

    def _pending(self) -> bool:
        """Whether the last victim's invocation has not ended yet."""
        ended = {invocation.outcome.request_id for invocation in self._stack.invocations}
        return self._victim is not None and self._victim not in ended
