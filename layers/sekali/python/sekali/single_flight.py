"""Take each key through the tiers once in this process, and give everybody who waits the outcome.

The first caller leads: a thread takes the way itself; on an event loop a task of nobody's does,
so that a caller who is cancelled leaves without stopping it. Whoever waits has a bound of its own,
and gets a value of its own: nothing that can be changed has two owners.
"""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sekali.calls import Result
from sekali.errors import SekaliError
from sekali.flights import Abandoned
from sekali.lifetimes import Loaded
from sekali.loading import Loading
from sekali.loading_many import LoadingMany
from sekali.steps import Run, at_bound, bound_seconds, old_of
from sekali.telemetry.spans import note_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from sekali.calls import Call, Tiers
    from sekali.driving import Driver
    from sekali.flights import Flight, Flights
    from sekali.shared_hits import Opening
    from sekali.steps import Step

    Steps = Generator[Step, Any, Result[Any]]
    Leading = dict[str, tuple[Call, Flight[Result[Any]]]]

_log = logging.getLogger(__name__)


class SingleFlight:
    """The flights of one container, as one invocation takes part in them."""

    def __init__(
        self,
        tiers: Tiers,
        driver: Driver,
        flights: Flights[Result[Any]],
        *,
        is_due: Callable[[], bool],
        postpone: Callable[[Call], bool],
    ) -> None:
        """Keep what a leader needs; `is_due` tells whether the log's tail was not read yet."""
        self._tiers = tiers
        self._driver = driver
        self._flights = flights
        self._is_due = is_due
        self._postpone = postpone
        self._number = flights.draw()
        self._tasks: set[asyncio.Task[None]] = set()

    def _steps(self, call: Call, until: float | None, opening: Opening | None = None) -> Steps:
        return Loading(
            self._tiers, call, due=self._is_due(), postpone=self._postpone, until=until
        ).steps(opening)

    def _promised(self, call: Call) -> int:
        """Return the number before which nothing may have fallen that the call is given.

        What the level promises to have seen ends with this call, with the beginning of the
        invocation, or nowhere.
        """
        if call.level == "strict":
            return self._flights.draw()
        return self._number if call.level == "per_invocation" else 0

    def _land(self, call: Call, flight: Flight[Result[Any]], result: Result[Any]) -> None:
        """End a flight: what was not loaded in it is only as good as its leader's level."""
        if result.source != "loaded" and call.level != "strict":
            flight.seen = self._promised(call)
        self._flights.land(call.scoped, flight, result)

    def until(self, call: Call) -> float:
        """Return when a wait that begins now is over."""
        return self._tiers.invocation.now() + bound_seconds(call, self._tiers)

    def look_up(self, call: Call, *, until: float | None = None) -> Result[Any]:
        """Return the call's value: lead its flight, or wait for whoever does.

        There is one bound for all of it: what was waited for a leader that left is not waited once
        more for another container. It begins with the first wait, unless `until` says it.
        """
        if self._flights.inside(call.scoped):
            return self._driver.drive(_through(call))
        promised = self._promised(call)
        while True:
            flight, leads = self._flights.join(call.scoped)
            if leads:
                return self._lead(call, flight, until)
            if flight.loop is not None and flight.loop is _running_loop():
                return self._driver.drive(_through(call))  # the load waits for this very thread
            if until is None:
                until = self.until(call)
            began = self._tiers.invocation.now()
            try:
                result = flight.wait(until - began)
            except Exception as error:
                if isinstance(error, TimeoutError) and not flight.awaited().done():
                    return self._driver.drive(self._out_of_time(call))
                if isinstance(error, Abandoned) or flight.seen < promised:
                    continue
                raise
            finally:
                note_wait(self._tiers.invocation.now() - began)
            if flight.seen >= promised and _is_allowed(call, result):
                return self._driver.drive(_own(call, result))

    def go_on(self, call: Call, flight: Flight[Result[Any]], opening: Opening) -> Result[Any]:
        """Lead a flight whose claim was sent by the short way (see `shared_hits`)."""
        return self._lead(call, flight, None, opening)

    def _lead(
        self,
        call: Call,
        flight: Flight[Result[Any]],
        until: float | None,
        opening: Opening | None = None,
    ) -> Result[Any]:
        try:
            with self._flights.loading(call.scoped):
                result = self._driver.drive(self._steps(call, until, opening))
        except BaseException as error:
            self._flights.fail(call.scoped, flight, error)
            raise
        self._land(call, flight, result)
        return result

    async def look_up_async(self, call: Call) -> Result[Any]:
        """Return the call's value as `look_up` does, on the running loop."""
        if self._flights.inside(call.scoped):
            return await self._driver.drive_async(_through(call))
        until, promised = self.until(call), self._promised(call)
        while True:
            flight, leads = self._flights.join(call.scoped)
            task = self._start(call, flight, until) if leads else None
            wait = None if leads else max(until - self._tiers.invocation.now(), 0.0)
            landing = asyncio.wrap_future(flight.awaited())
            landing.add_done_callback(_hear)
            began = self._tiers.invocation.now()
            try:
                result = await asyncio.wait_for(asyncio.shield(landing), wait)
            except Exception as error:
                if isinstance(error, TimeoutError) and not flight.awaited().done():
                    return await self._driver.drive_async(self._out_of_time(call))
                if task is not None:
                    await task  # its loader was cancelled, or worse: that is this caller's to hear
                    raise
                if isinstance(error, Abandoned) or flight.seen < promised:
                    continue
                raise
            finally:
                if not leads:
                    note_wait(self._tiers.invocation.now() - began)
            if leads:
                return result
            if flight.seen >= promised and _is_allowed(call, result):
                return await self._driver.drive_async(_own(call, result))

    def _start(self, call: Call, flight: Flight[Result[Any]], until: float) -> asyncio.Task[None]:
        """Lead a flight in a task of nobody's."""
        flight.awaited()
        flight.loop = asyncio.get_running_loop()
        task = asyncio.create_task(self._lead_async(call, flight, until))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _lead_async(self, call: Call, flight: Flight[Result[Any]], until: float) -> None:
        try:
            with self._flights.loading(call.scoped):
                result = await self._driver.drive_async(self._steps(call, until))
        except BaseException as error:
            self._flights.fail(call.scoped, flight, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._land(call, flight, result)

    def _out_of_time(self, call: Call) -> Steps:
        seen = self._tiers.local.look(call.scoped)
        allowed = call.lifetime.stale_seconds
        old = None
        if seen is not None and allowed > 0 and seen.left_seconds > -allowed:
            old = old_of(seen, trusted=False)
        return at_bound(self._tiers, call, old)

    # Many keys.

    def load_many(
        self,
        calls: Sequence[Call],
        loader: Callable[[list[str]], Mapping[str, Any]],
        found: dict[str, Any],
    ) -> list[str]:
        """Load into `found` what nobody else does; return the keys that have to be waited for."""
        leading: Leading = {}
        waiting: list[str] = []
        for call in calls:
            flight, leads = None, False
            if not self._flights.inside(call.scoped):
                flight, leads = self._flights.join(call.scoped)
            if leads and flight is not None:
                leading[call.key] = (call, flight)
            else:
                waiting.append(call.key)
        if leading:
            waiting += self._lead_many(leading, loader, found)
        return waiting

    def _lead_many(
        self,
        leading: Leading,
        loader: Callable[[list[str]], Mapping[str, Any]],
        found: dict[str, Any],
    ) -> list[str]:
        """Load what this process leads; return what another container computes."""
        calls = [call for call, _ in leading.values()]
        steps = LoadingMany(
            self._tiers, calls, loader, due=self._is_due(), postpone=self._postpone
        ).steps()
        failure: BaseException = Abandoned()
        results: dict[str, Result[Any]] = {}
        try:
            with self._flights.loading(*(call.scoped for call in calls)):
                results, busy = self._driver.drive(steps)
        except BaseException as error:
            failure = error
            raise
        finally:
            for key, (call, flight) in leading.items():
                if key in results:
                    self._land(call, flight, results[key])
                else:
                    self._flights.fail(call.scoped, flight, failure)
        found.update({key: result.value for key, result in results.items()})
        return busy


def _is_allowed(call: Call, result: Result[Any]) -> bool:
    """Tell whether the call would have taken this result itself."""
    return result.source != "stale" or call.lifetime.stale_seconds > 0


def _own(call: Call, result: Result[Any]) -> Steps:
    """Give a waiter a value of its own: nothing that can be changed has two owners."""
    try:
        value = call.packing.copy(result.value)
    except SekaliError:  # its codec does not carry it, so it is in no tier either
        try:
            value = deepcopy(result.value)
        except Exception:  # noqa: BLE001 - an edge: what a value does when it is copied
            _log.debug("the value of %s cannot be copied: each waiter loads it", call.key)
            return (yield from _through(call))
    return replace(result, value=value)


def _hear(landing: asyncio.Future[Any]) -> None:
    """Hear of an error that nobody may wait for any more, or the loop would complain of it."""
    if not landing.cancelled():
        landing.exception()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that this thread is in the middle of, if it is."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _through(call: Call) -> Steps:
    """Compute for this caller alone."""
    returned = yield Run(call.loader, key=call.key)
    value = returned.value if isinstance(returned, Loaded) else returned
    return Result(value, "loaded", 0.0)
