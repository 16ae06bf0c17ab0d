"""What is known of a month's flights, and the delay report of one carrier made of it.

Both are plain JSON, because both are cached. A month is kept by carrier in columns, one entry per
flight, with only what a report needs, so that it takes a part of what its CSV did.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Group = TypeVar("Group", str, int)

WORST_ROUTES = 5
# A mean over fewer flights says more about the weather of one day than about the route.
MIN_ROUTE_FLIGHTS = 5
_NOT_AVAILABLE = frozenset({"", "NA"})


class Flights(TypedDict):
    """The flights of one carrier, in columns of equal length.

    `route` is an index into the month's routes, `hour` the scheduled hour of departure. Delays are
    minutes, negative when early; a cancelled flight has none, a diverted one has no arrival.
    """

    route: list[int]
    hour: list[int]
    departure: list[int | None]
    arrival: list[int | None]


class Month(TypedDict):
    """All flights of a month by carrier, and the routes `origin-destination` that they flew."""

    routes: list[str]
    carriers: dict[str, Flights]


class Delays(TypedDict):
    """Minutes over the flights that have the delay; None where there are none."""

    mean: float | None
    median: float | None
    percentile_90: float | None


class RouteDelay(TypedDict):
    """A route, how many of its flights arrived, and their mean arrival delay in minutes."""

    route: str
    flights: int
    mean_arrival_delay: float


class Report(TypedDict):
    """How late a carrier was; `by_hour` is the mean departure delay by scheduled hour."""

    carrier: str
    origin: str | None
    flights: int
    cancelled: int
    departure_delay: Delays
    arrival_delay: Delays
    worst_routes: list[RouteDelay]
    by_hour: dict[str, float]


def month_tag(month: str) -> str:
    """Return the tag of everything that was computed from the flights of a month."""
    return f"flights:{month}"


def parse_flights(text: str) -> Month:
    """Read a month's flights from CSV with a header line.

    Raises:
        ValueError: a column is missing or a number is none; the line is named.
    """
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    try:
        columns = [header.index(name) for name in ("carrier", "origin", "dest", "hour")]
        delays = [header.index(name) for name in ("dep_delay", "arr_delay")]
    except ValueError as error:
        raise ValueError(f"flights need a header with all columns: {error}") from error

    routes: dict[str, int] = {}
    carriers: defaultdict[str, Flights] = defaultdict(_no_flights)
    for row in reader:
        try:
            carrier, origin, destination, hour = (row[column] for column in columns)
            departure, arrival = (_minutes(row[column]) for column in delays)
            flights = carriers[carrier]
            flights["hour"].append(int(hour))
        except (IndexError, ValueError) as error:
            raise ValueError(f"line {reader.line_num} is no flight: {error}") from error
        flights["route"].append(routes.setdefault(f"{origin}-{destination}", len(routes)))
        flights["departure"].append(departure)
        flights["arrival"].append(arrival)
    return {"routes": list(routes), "carriers": dict(carriers)}


def delay_report(month: Month, *, carrier: str, origin: str | None = None) -> Report:
    """Summarise the flights of a carrier, of one airport where `origin` is given.

    A carrier that did not fly gets a report of no flights.
    """
    flights = month["carriers"].get(carrier) or _no_flights()
    routes = month["routes"]
    wanted = [
        (routes[route], hour, departure, arrival)
        for route, hour, departure, arrival in zip(
            flights["route"],
            flights["hour"],
            flights["departure"],
            flights["arrival"],
            strict=True,
        )
        if origin is None or routes[route].startswith(f"{origin}-")
    ]
    departed = [(hour, delay) for _, hour, delay, _ in wanted if delay is not None]
    arrived = [(route, delay) for route, _, _, delay in wanted if delay is not None]
    return {
        "carrier": carrier,
        "origin": origin,
        "flights": len(wanted),
        "cancelled": len(wanted) - len(departed),
        "departure_delay": _delays([delay for _, delay in departed]),
        "arrival_delay": _delays([delay for _, delay in arrived]),
        "worst_routes": _worst_routes(_grouped(arrived)),
        "by_hour": {
            str(hour): _mean(delays) for hour, delays in sorted(_grouped(departed).items())
        },
    }


def _no_flights() -> Flights:
    return {"route": [], "hour": [], "departure": [], "arrival": []}


def _minutes(text: str) -> int | None:
    return None if text in _NOT_AVAILABLE else int(text)


def _delays(minutes: Sequence[int]) -> Delays:
    if not minutes:
        return {"mean": None, "median": None, "percentile_90": None}
    # `quantiles` needs two values; of one, every quantile is that one.
    values = minutes if len(minutes) > 1 else [*minutes, *minutes]
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return {
        "mean": _mean(minutes),
        "median": float(statistics.median(minutes)),
        "percentile_90": round(tenths[8], 2),
    }


def _mean(minutes: Sequence[int]) -> float:
    return round(statistics.fmean(minutes), 2)


def _grouped(pairs: Iterable[tuple[Group, int]]) -> Mapping[Group, list[int]]:
    groups: defaultdict[Group, list[int]] = defaultdict(list)
    for group, minutes in pairs:
        groups[group].append(minutes)
    return groups


def _worst_routes(delays: Mapping[str, Sequence[int]]) -> list[RouteDelay]:
    frequent = {route: late for route, late in delays.items() if len(late) >= MIN_ROUTE_FLIGHTS}
    # Equal means are told apart by name, so that a report is always the same.
    ranked = sorted((-_mean(late), route) for route, late in frequent.items())
    return [
        {"route": route, "flights": len(frequent[route]), "mean_arrival_delay": -mean}
        for mean, route in ranked[:WORST_ROUTES]
    ]
