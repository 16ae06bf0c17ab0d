"""The execution environments of one function: reused, scaled out to a limit, replaced when dead."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from infra.local.environment import Environment, InitFailed, Kind, Outcome
from infra.local.processes import NurseryClosed

_TICK_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One invocation as the platform saw it. `init_seconds` is None in a warm environment."""

    environment: int
    outcome: Outcome
    records: int
    init_seconds: float | None


class FleetClosed(RuntimeError):
    """An invocation was asked for while the stack stops."""


class Fleet:
    """Hands each event to a free environment; blocks while all of them are busy.

    Args:
        make: Starts an environment; it gets a number that is never used again.
        limit: How many may exist at once.
        on_invocation: Told of every invocation, from the thread that made it.
    """

    def __init__(
        self,
        make: Callable[[int], Environment],
        *,
        limit: int,
        on_invocation: Callable[[Invocation], None],
    ) -> None:
        self._make = make
        self._limit = limit
        self._on_invocation = on_invocation
        self._changed = threading.Condition()
        self._idle: list[Environment] = []
        self._busy: set[Environment] = set()
        self._starting = 0
        self._started = 0
        self._open = True
        self._reserved: int | None = None
        self._retired = 0

    @property
    def busy(self) -> int:
        """How many environments are at work."""
        with self._changed:
            return len(self._busy) + self._starting

    def reserve(self, concurrency: int | None) -> None:
        """Refuse what would be more at once, as reserved concurrency does; None refuses nothing."""
        with self._changed:
            self._reserved = concurrency

    def retire(self) -> None:
        """Begin nothing more in the environments that there are, as after a deployment."""
        with self._changed:
            self._retired = self._started
            idle, self._idle = self._idle, []
        for environment in idle:
            environment.close()

    @property
    def environments_started(self) -> int:
        """How many environments there were so far, the dead included."""
        return self._started

    def invoke(self, event: bytes, *, records: int) -> Outcome:
        """Run one invocation, or answer that it was throttled.

        Raises:
            FleetClosed: The stack is stopping.
        """
        number, init_seconds, started_at = 0, None, time.time()
        if self._reserved is not None and self.busy >= self._reserved:
            outcome = _none("throttled", b'{"errorType": "TooManyRequestsException"}', started_at)
            self._tell(number, outcome, records, init_seconds)
            return outcome
        environment = self._take()
        try:
            if environment is None:
                environment, init_seconds = self._start()
            number = environment.number
            outcome = environment.invoke(event)
        except InitFailed as error:
            outcome = _none("init_failed", error.payload, started_at)
        finally:
            if environment is not None:
                self._give_back(environment)
        self._tell(number, outcome, records, init_seconds)
        return outcome

    def kill_one(self, *, when: Callable[[Environment], bool], within_seconds: float) -> bool:
        """Kill, as `kill -9` does, the first busy environment for which `when` holds.

        Answers whether there was one in that time.
        """
        deadline = time.monotonic() + within_seconds
        while time.monotonic() < deadline:
            with self._changed:
                for environment in self._busy:
                    if when(environment):
                        environment.kill()
                        return True
            time.sleep(_TICK_SECONDS)
        return False

    def close(self) -> None:
        """Kill every environment, in the middle of whatever it does."""
        with self._changed:
            self._open = False
            idle, self._idle = self._idle, []
            for environment in self._busy:
                environment.kill()
            self._changed.notify_all()
        for environment in idle:
            environment.close()

    def _tell(
        self, environment: int, outcome: Outcome, records: int, init_seconds: float | None
    ) -> None:
        self._on_invocation(
            Invocation(
                environment=environment,
                outcome=outcome,
                records=records,
                init_seconds=init_seconds,
            )
        )

    def _take(self) -> Environment | None:
        """Take the environment that was used last, or None for the right to start one."""
        with self._changed:
            while self._open:
                while self._idle:
                    environment = self._idle.pop()
                    if environment.alive:
                        self._busy.add(environment)
                        return environment
                    environment.close()
                if len(self._busy) + self._starting < self._limit:
                    self._starting += 1
                    return None
                self._changed.wait()
            raise FleetClosed

    def _start(self) -> tuple[Environment, float]:
        with self._changed:
            self._started += 1
            number = self._started
        try:
            environment = self._make(number)
        except NurseryClosed as error:
            raise FleetClosed from error
        finally:
            with self._changed:
                self._starting -= 1
        with self._changed:
            self._busy.add(environment)
            if not self._open:
                environment.kill()
        try:
            return environment, environment.init()
        except InitFailed:
            self._give_back(environment)
            raise

    def _give_back(self, environment: Environment) -> None:
        with self._changed:
            self._busy.discard(environment)
            if self._open and environment.alive and environment.number > self._retired:
                self._idle.append(environment)
            else:
                environment.close()
            self._changed.notify()


def _none(kind: Kind, payload: bytes, started_at: float) -> Outcome:
    """Tell of an invocation that did not come to run."""
    return Outcome(
        kind=kind,
        request_id="",
        payload=payload,
        started_at=started_at,
        seconds=time.time() - started_at,
        round_trips=0,
    )
