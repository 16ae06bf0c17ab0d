"""Show how far a run is: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

from rich.live import Live

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from infra.local.stack import LocalStack

_PLAIN_EVERY_SECONDS: Final = 5.0


class Progress:
    """Counts of a running stack, shown until the block ends."""

    def __init__(self, console: Console, stack: LocalStack) -> None:
        self._console = console
        self._stack = stack
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self.sent = 0
        self.waiting = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def show(self) -> None:
        """Show the counts as they are now; cheap to call often."""
        now = time.monotonic()
        if self._console.is_terminal:
            self._live.update(self._line(now))
        elif now - self._shown_at >= _PLAIN_EVERY_SECONDS:
            self._shown_at = now
            self.say(self._line(now))

    def _line(self, now: float) -> str:
        stack = self._stack
        finished = sum(delivery.deleted for delivery in stack.deliveries)
        environments = sum(fleet.environments_started for fleet in stack.fleets.values())
        return (
            f"{now - self._started:6.1f} s   sent {self.sent}   finished {finished}   "
            f"waiting {self.waiting}   batches {len(stack.invocations)}   "
            f"environments {environments}"
        )
