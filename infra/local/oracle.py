"""Compute each report directly from the CSV: what the results of the stack are compared with.

Written apart from the handlers on purpose, in exact arithmetic. It shares nothing with them except
what a report has to say:

    mean           the sum over the count
    median         the middle value, or the mean of the two in the middle
    percentile_90  linear between the two values beside rank 0.9 · (n − 1)
    worst_routes   the five greatest mean arrival delays of routes with five arrivals or more, equal
                   ones by name
    by_hour        mean departure delay by scheduled hour

and that minutes are rounded to two decimals.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LISTED_ROUTES: Final = 5
_FEWEST_ARRIVALS: Final = 5

Report = dict[str, Any]  # JSON.
Row = dict[str, str]


class Oracle:
    """Answers reports of the given months; each month is parsed at its first question."""

    def __init__(self, months: Mapping[str, bytes]) -> None:
        self._texts = months
        self._months: dict[str, Mapping[str, Sequence[Row]]] = {}
        self._reports: dict[tuple[str, str, str | None], Report] = {}

    def report(self, month: str, carrier: str, origin: str | None) -> Report:
        """Answer the right report."""
        question = (month, carrier, origin)
        if question not in self._reports:
            rows = self._by_carrier(month).get(carrier, ())
            wanted = [row for row in rows if origin in {None, row["origin"]}]
            self._reports[question] = _report(wanted, carrier, origin)
        return self._reports[question]

    def _by_carrier(self, month: str) -> Mapping[str, Sequence[Row]]:
        if month not in self._months:
            carriers: defaultdict[str, list[Row]] = defaultdict(list)
            for row in csv.DictReader(self._texts[month].decode().splitlines()):
                carriers[row["carrier"]].append(row)
            self._months[month] = carriers
        return self._months[month]


def _report(rows: Sequence[Row], carrier: str, origin: str | None) -> Report:
    departed = [row for row in rows if row["dep_delay"].lstrip("-").isdigit()]
    arrived = [row for row in rows if row["arr_delay"].lstrip("-").isdigit()]
    hours = sorted({int(row["hour"]) for row in departed})
    routes = {(row["origin"], row["dest"]) for row in arrived}
    ranked: list[Report] = []
    for start, end in routes:
        late = [
            int(row["arr_delay"]) for row in arrived if (row["origin"], row["dest"]) == (start, end)
        ]
        if len(late) >= _FEWEST_ARRIVALS:
            route = f"{start}-{end}"
            ranked.append({"route": route, "flights": len(late), "mean_arrival_delay": _mean(late)})
    ranked.sort(key=lambda entry: str(entry["route"]))
    ranked.sort(key=lambda entry: entry["mean_arrival_delay"], reverse=True)
    return {
        "carrier": carrier,
        "origin": origin,
        "flights": len(rows),
        "cancelled": len(rows) - len(departed),
        "departure_delay": _delays([int(row["dep_delay"]) for row in departed]),
        "arrival_delay": _delays([int(row["arr_delay"]) for row in arrived]),
        "worst_routes": ranked[:_LISTED_ROUTES],
        "by_hour": {
            str(hour): _mean(
                [int(row["dep_delay"]) for row in departed if int(row["hour"]) == hour]
            )
            for hour in hours
        },
    }


def _delays(minutes: list[int]) -> dict[str, float | None]:
    if not minutes:
        return {"mean": None, "median": None, "percentile_90": None}
    return {
        "mean": _mean(minutes),
        "median": _at_rank(minutes, Fraction(1, 2)),
        "percentile_90": _at_rank(minutes, Fraction(9, 10)),
    }


def _mean(minutes: Sequence[int]) -> float:
    return _rounded(Fraction(sum(minutes), len(minutes)))


def _at_rank(minutes: Sequence[int], share: Fraction) -> float:
    ordered = sorted(minutes)
    rank = share * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return _rounded(ordered[below] + (ordered[above] - ordered[below]) * (rank - below))


def _rounded(minutes: Fraction) -> float:
    # Through the nearest double, so that a tie falls as it does for whoever divided floats.
    return round(float(minutes), 2)
