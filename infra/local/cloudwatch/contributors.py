"""Rank what log lines name most, by a Contributor Insights rule.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/ContributorInsights-RuleSyntax.html
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.local.cloudwatch.pace import MINUTE

Json = Any  # A rule's body and a log line are any JSON.

_KEPT_MINUTES: Final = 180
# CloudWatch follows this many contributors of a rule a minute.
_MOST_CONTRIBUTORS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributor:
    """One of the ranked: the values of the rule's keys, and how much it contributed."""

    keys: tuple[str, ...]
    total: float


class Ranking:
    """What one rule has seen; safe to use from any thread."""

    def __init__(self, name: str, body: Json) -> None:
        """Read the rule's body."""
        contribution = body["Contribution"]
        self.name = name
        self.log_groups = frozenset(body["LogGroupNames"])
        self.keys: tuple[str, ...] = tuple(contribution["Keys"])
        self._filters: Sequence[Json] = contribution.get("Filters") or ()
        self._value_of: str | None = (
            contribution.get("ValueOf") if body.get("AggregateOn") == "Sum" else None
        )
        self._lock = threading.Lock()
        self._minutes: deque[tuple[int, Counter[tuple[str, ...]]]] = deque(maxlen=_KEPT_MINUTES)

    def take(self, fields: Mapping[str, Json], *, log_group: str, at: float) -> None:
        """Take in a log line, at CloudWatch's seconds; one that does not match is left out."""
        if log_group not in self.log_groups:
            return
        keys = tuple(_field(fields, key) for key in self.keys)
        if None in keys or not all(_passes(fields, one) for one in self._filters):
            return
        value = 1.0 if self._value_of is None else _field(fields, self._value_of)
        if not isinstance(value, int | float):
            return
        minute = int(at // MINUTE)
        with self._lock:
            if not self._minutes or self._minutes[-1][0] < minute:
                self._minutes.append((minute, Counter()))
            counter = self._minutes[-1][1]
            named = tuple(str(key) for key in keys)
            if named in counter or len(counter) < _MOST_CONTRIBUTORS:
                counter[named] += value  # type: ignore[assignment]  # Counters add floats too.

    def top(self, number: int, *, start: float, end: float) -> list[Contributor]:
        """Answer the largest contributors of [start, end), the largest first."""
        found: Counter[tuple[str, ...]] = Counter()
        for counter in self._between(start, end).values():
            found.update(counter)
        ranked = sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))
        return [Contributor(keys=keys, total=float(total)) for keys, total in ranked[:number]]

    def series(self, metric: str, *, grid: Sequence[int], period: int) -> dict[int, float]:
        """Answer a metric of the rule: UniqueContributors, MaxContributorValue or Sum."""
        points: dict[int, float] = {}
        for begin in grid:
            found: Counter[tuple[str, ...]] = Counter()
            for counter in self._between(begin, begin + period).values():
                found.update(counter)
            if found:
                points[begin] = _METRICS[metric](found)
        return points

    def _between(self, start: float, end: float) -> dict[int, Counter[tuple[str, ...]]]:
        with self._lock:
            return {
                minute: Counter(counter)
                for minute, counter in self._minutes
                if start <= minute * MINUTE < end
            }


_METRICS: Final[Mapping[str, Callable[[Counter[tuple[str, ...]]], float]]] = {
    "MaxContributorValue": lambda found: float(max(found.values())),
    "Sum": lambda found: float(sum(found.values())),
    "UniqueContributors": lambda found: float(len(found)),
}


def _field(fields: Mapping[str, Json], path: str) -> Json:
    """Read `$.a.b`; None where it is absent."""
    value: Json = fields
    for part in path.removeprefix("$.").split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _passes(fields: Mapping[str, Json], wanted: Json) -> bool:
    value = _field(fields, wanted["Match"])
    tests = [name for name in wanted if name != "Match"]
    return all(_TESTS[name](value, wanted[name]) for name in tests)


# Any: a field of a log line, and what the rule compares it with.
_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": lambda value, other: value == other,
    "GreaterThan": lambda value, other: isinstance(value, int | float) and value > other,
    "In": lambda value, others: value in others,
    "IsPresent": lambda value, wanted: (value is not None) == wanted,
    "LessThan": lambda value, other: isinstance(value, int | float) and value < other,
    "NotEqualTo": lambda value, other: value != other,
    "NotIn": lambda value, others: value not in others,
    "StartsWith": lambda value, parts: isinstance(value, str) and value.startswith(tuple(parts)),
}
