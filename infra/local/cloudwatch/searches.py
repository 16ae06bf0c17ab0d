"""Read the search part of SEARCH, and find the metrics that it means.

    {Namespace,DimensionOne,DimensionTwo} MetricName="Exact" DimensionOne="value" words ...

Every word must be part of the namespace, the name, or a dimension's name or value; words next to
each other, and `AND` between them, must all be found; `OR` and `NOT` bind as in SEARCH itself.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from infra.local.cloudwatch.names import MetricName
from infra.local.cloudwatch.timeseries import MathUndefined

_MOST_FOUND: Final = 500
_SCHEMA: Final = re.compile(r"\s*\{([^}]*)\}\s*")
_TERM: Final = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<word>(?:AND|OR|NOT)\b)
      |(?P<key>[A-Za-z_][\w.:-]*)\s*=\s*(?:"(?P<exact>[^"]*)"|(?P<one>[^\s()]+))
      |"(?P<quoted>[^"]*)"|(?P<plain>[^\s()"]+))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A text to look for: in one property where `key` is set, anywhere else."""

    text: str
    key: str = ""
    exact: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A namespace with the exact names of the dimensions, and alternatives of terms."""

    namespace: str | None
    dimensions: frozenset[str] | None
    alternatives: tuple[tuple[Term, ...], ...]


def read_search(text: str) -> Search:
    """Read the first argument of SEARCH.

    Raises:
        MathUndefined: It uses parentheses, which this copy does not read.
    """
    namespace, dimensions = None, None
    schema = _SCHEMA.match(text)
    if schema is not None:
        namespace, *keys = (part.strip().strip('"') for part in schema[1].split(","))
        dimensions = frozenset(keys)
        text = text[schema.end() :]
    alternatives: list[list[Term]] = [[]]
    negated = False
    for found in _TERM.finditer(text.rstrip()):
        if found["open"] or found["close"]:
            raise MathUndefined(f"parentheses in SEARCH are not read here: {text}")
        if found["word"]:
            negated = found["word"] == "NOT"
            if found["word"] == "OR":
                alternatives.append([])
            continue
        wanted = next(found[g] for g in ("exact", "one", "quoted", "plain") if found[g] is not None)
        exact = found["exact"] is not None
        alternatives[-1].append(
            Term(text=wanted, key=found["key"] or "", exact=exact, negated=negated)
        )
        negated = False
    return Search(
        namespace=namespace,
        dimensions=dimensions,
        alternatives=tuple(tuple(terms) for terms in alternatives),
    )


def matching(search: Search, names: Iterable[MetricName]) -> list[MetricName]:
    """Answer the metrics that are meant, in the order of their names."""
    found = [name for name in names if _matches(search, name)]
    return sorted(found, key=str)[:_MOST_FOUND]


def _matches(search: Search, name: MetricName) -> bool:
    if search.namespace is not None and name.namespace != search.namespace:
        return False
    if search.dimensions is not None:
        keys = {key for key, _ in name.dimensions}
        if keys != search.dimensions:
            return False
    return any(
        all(_holds(term, name) is not term.negated for term in terms)
        for terms in search.alternatives
    )


def _holds(term: Term, name: MetricName) -> bool:
    properties = {"Namespace": name.namespace, "MetricName": name.name, **dict(name.dimensions)}
    if term.key:
        value = properties.get(term.key, "")
        return value == term.text if term.exact else term.text.lower() in value.lower()
    return any(term.text.lower() in part.lower() for pair in properties.items() for part in pair)
