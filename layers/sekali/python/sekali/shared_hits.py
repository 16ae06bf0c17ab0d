"""Answer what is shared and fresh in one exchange, in as few steps as there are.

After the local hits (see `hits`) this is what a warm container does most: the first read of a key.
The long ways (`loading`, `reading`) are generators that know every turn; a hit takes none of them:

    a key that this container does not hold, that nobody loads here, and that is not asked for
    from within a load; its log was read in this invocation; no option but a TTL was given

        claim or GET: readable, without tags, not due     the value, by the short way
        anything else                                     the long way goes on from that answer

Both ways send the same commands, and take and keep a value in the same place (`served`). The long
one is handed what the short one was answered, so nothing is asked or drawn twice. Which one was
taken cannot be told from outside: the suites of the cache run on both (tests/valkey/conftest.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sekali.answers import new_token
from sekali.calls import call_of
from sekali.clock import Moment
from sekali.entries import MISSING
from sekali.errors import SharedUnavailable
from sekali.flights import LOADING
from sekali.hits import Way
from sekali.keys import CACHE_NAME
from sekali.lifetimes import LONGEST_TTL_SECONDS
from sekali.local import PLAIN_PREFIX
from sekali.packing import PLAIN
from sekali.scripts import Command
from sekali.served import Taken, take
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sekali.calls import Call, Result, Tiers
    from sekali.flights import Flight, Flights
    from sekali.hits import ShortWay
    from sekali.shared import Shared

    GoOn = Callable[[Call, Flight[Result[Any]], "Opening"], Result[Any]]
    Claim = Callable[[str, str, Callable[[], None]], "Taken | Opening"]
    Current = Callable[[str, Taken], object]

_log = logging.getLogger(__name__)

_NUMBERS: Final = frozenset({int, float})
_SERVED_PARTS: Final = 3


class Opening(NamedTuple):
    """A claim that was sent by the short way, for the long one to go on from.

    `reply` is the script's, a refusal, or why there is none. `taken` is what was taken of it, where
    it was a value that can be read.
    """

    token: str
    sent: Moment
    sent_at: float
    drops: int
    reply: Any  # Any: as the client hands it over
    taken: Taken | None


class SharedHits:
    """The short way of one invocation."""

    __slots__ = ("get", "get_or_load")

    get_or_load: ShortWay
    """Return the value of a key, loaded where it is missing."""
    get: Callable[[str], object]
    """Return the value of a key, or MISSING."""

    def __init__(
        self,
        tiers: Tiers,
        shared: Shared,
        flights: Flights[Result[Any]],
        *,
        go_on: GoOn,
        current: Current,
    ) -> None:
        """Keep what a hit needs in the cells of functions, as `hits` does.

        `go_on` leads a flight from an opening to its end. `current` returns the value of one that
        carries tags if it is fresh by them, else MISSING.
        """
        self.get_or_load = _get_or_load(tiers, flights, _claim(tiers, shared), go_on)
        self.get = _get(tiers, shared, current)


def _get_or_load(
    tiers: Tiers, flights: Flights[Result[Any]], claim: Claim, go_on: GoOn
) -> ShortWay:
    held, emit, loading, owner = tiers.local.plain, tiers.emit, LOADING, id(flights)
    join, close = flights.join, flights.close

    def get_or_load(
        key: str,
        loader: Callable[[], Any],
        ttl_seconds: float | None,
        options: Mapping[str, Any],  # Any: the options of `Tiered.look_up`
    ) -> object:
        if (
            options
            or type(key) is not str
            or key in held
            or loading.get()
            or not callable(loader)  # type: ignore[redundant-expr]  # whoever has no mypy
            or not (
                ttl_seconds is None
                or (type(ttl_seconds) in _NUMBERS and 0 <= ttl_seconds <= LONGEST_TTL_SECONDS)
            )
        ):
            return Way.LONG
        scoped = PLAIN_PREFIX + key
        flight, leads = join(scoped)
        if not leads:
            return Way.LONG
        read: events.CacheRead | None = None

        def meanwhile() -> None:
            nonlocal read
            read = _read(key)

        inside = loading.set(frozenset(((owner, scoped),)))
        try:
            found = claim(key, scoped, meanwhile)
            if isinstance(found, Taken):
                emit(read or _read(key))
                waiting = close(scoped, flight)
                if waiting is not None:
                    waiting.set_result(found.result)
                return found.value
            call = call_of(key, loader, ttl_seconds=ttl_seconds)
        except BaseException as error:
            flights.fail(scoped, flight, error)
            raise
        finally:
            loading.reset(inside)
        return go_on(call, flight, found).value

    return get_or_load


def _claim(tiers: Tiers, shared: Shared) -> Claim:
    local, invocation, ask = tiers.local, tiers.invocation, shared.claim
    now, deadline, loads = invocation.now, invocation.deadline, invocation.claims.loads(tiers.terms)
    packed, command = loads.packed, loads.command
    wall, monotonic = tiers.clock.wall, tiers.clock.monotonic

    def claim(key: str, scoped: str, meanwhile: Callable[[], None]) -> Taken | Opening:
        token, drops, sent_at = new_token(), local.drops, now()
        sent, taken = Moment(wall(), monotonic()), None
        left = deadline - sent_at
        try:
            reply = ask(
                packed(key, token, sent.wall),
                lambda: command(key, token),
                max(left, 0.0),
                sent,
                meanwhile,
            )
        except SharedUnavailable as error:
            reply = error
        if type(reply) is list and len(reply) == _SERVED_PARTS and reply[0] == b"served":
            taken = take(
                tiers,
                scoped,
                reply[1],
                remaining_seconds=max(reply[2], 0) / 1000,
                sent=sent,
                drops=drops,
                packing=PLAIN,
                most_seconds=None,
            )
            if (
                taken is not None
                and not taken.epochs
                and taken.left_seconds > 0
                and taken.due_seconds > 0
            ):
                return taken
        return Opening(token, sent, sent_at, drops, reply, taken)

    return claim


def _get(tiers: Tiers, shared: Shared, current: Current) -> Callable[[str], object]:
    local, invocation, emit, flush = tiers.local, tiers.invocation, tiers.emit, shared.flush
    held, slot_of = local.plain, invocation.claims.keyspace.of
    remaining_seconds, wall, monotonic = (
        invocation.remaining_seconds,
        tiers.clock.wall,
        tiers.clock.monotonic,
    )

    def get(key: str) -> object:
        if type(key) is not str or key in held:
            return Way.LONG
        name = slot_of(CACHE_NAME, key, key).value
        drops, sent = local.drops, Moment(wall(), monotonic())
        try:
            # In this order: see `reading`.
            left_ms, stored = flush(
                (Command(("PTTL", name)), Command(("GET", name))),
                operation="get",
                within_seconds=max(remaining_seconds(), 0.0),
                began=sent,
            )
            if type(left_ms) is not int or type(stored) is not bytes or left_ms <= 0:
                return MISSING
            taken = take(
                tiers,
                PLAIN_PREFIX + key,
                stored,
                remaining_seconds=left_ms / 1000,
                sent=sent,
                drops=drops,
                packing=PLAIN,
                most_seconds=None,
            )
            if taken is None or taken.left_seconds <= 0:
                return MISSING
            value = current(key, taken) if taken.epochs else taken.value
        except SharedUnavailable as error:
            tell_not_looked_up(1, error)
            return MISSING
        if value is not MISSING:
            emit(_read(key))
        return value

    return get


def _read(key: str) -> events.CacheRead:
    return events.CacheRead(source="shared", name=CACHE_NAME, key=key)


def tell_not_looked_up(number: int, error: SharedUnavailable) -> None:
    """Log that keys were not looked up, which nobody hears of otherwise."""
    _log.warning("%d keys were not looked up: %s", number, error)
