"""Answer the queries of the runbooks from the log lines of a local stack.

The part of CloudWatch Logs Insights that the pages use, and nothing else: what it does not know is
an error, so that no query passes unread.

    filter FIELD = 'TEXT' | FIELD != 'TEXT' | FIELD in ['A', 'B'], joined by `and`
    stats count(*) as N, max(FIELD) as M, avg(FIELD) as A by FIELD, FIELD
    fields A, B      sort FIELD asc|desc      limit N
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = dict[str, Any]  # Any: whatever a log line holds

_CONDITION = re.compile(r"(\w+) (=|!=|in) ('[^']*'|\[[^\]]*\])")
_STATISTIC = re.compile(r"(count|max|avg)\((\*|\w+)\) as (\w+)")


class QueryUnknown(ValueError):
    """A query says something that is not known here."""


def answer(query: str, lines: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of a query over structured log lines."""
    rows = [dict(line) for line in lines]
    for part in re.split(r"\s*\n?\|\s*", query.strip()):
        verb, _, rest = part.partition(" ")
        step = _STEPS.get(verb)
        if step is None:
            raise QueryUnknown(part)
        rows = step(rows, rest.strip())
    return rows


def _filter(rows: Sequence[Row], text: str) -> list[Row]:
    conditions = [_CONDITION.fullmatch(one) for one in re.split(r" and (?![^\[]*\])", text)]
    kept = list(rows)
    for found in conditions:
        if found is None:
            raise QueryUnknown(text)
        name, sign, value = found.groups()
        values = re.findall(r"'([^']*)'", value)
        if sign == "!=":
            # A line without the field has no value that could differ.
            kept = [row for row in kept if name in row and str(row[name]) not in values]
        else:
            kept = [row for row in kept if name in row and str(row[name]) in values]
    return kept


def _stats(rows: Sequence[Row], text: str) -> list[Row]:
    told, _, by = text.partition(" by ")
    names = by.split(", ")
    statistics = [_STATISTIC.fullmatch(one) for one in told.split(", ")]
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)  # Any: values of lines
    for row in rows:
        groups[tuple(row.get(name) for name in names)].append(row)
    answered = []
    for key, members in groups.items():
        answer = dict(zip(names, key, strict=True))
        for found in statistics:
            if found is None:
                raise QueryUnknown(text)
            how, of, name = found.groups()
            answer[name] = _value(how, of, members)
        answered.append(answer)
    return answered


def _value(how: str, of: str, rows: Sequence[Row]) -> float:
    if how == "count":
        return len(rows)
    values = [float(row[of]) for row in rows if of in row]
    if not values:
        return 0.0
    return max(values) if how == "max" else sum(values) / len(values)


def _fields(rows: Sequence[Row], text: str) -> list[Row]:
    return [{name: row[name] for name in text.split(", ") if name in row} for row in rows]


def _sort(rows: Sequence[Row], text: str) -> list[Row]:
    name, order = text.split(" ")
    return sorted(rows, key=lambda row: row[name], reverse=order == "desc")


def _limit(rows: Sequence[Row], text: str) -> list[Row]:
    return list(rows)[: int(text)]


_STEPS = {"filter": _filter, "stats": _stats, "fields": _fields, "sort": _sort, "limit": _limit}
