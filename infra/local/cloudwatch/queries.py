"""What a widget or an alarm asks for: metrics and expressions over them, each with an id."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from infra.local.cloudwatch import functions
from infra.local.cloudwatch.formulas import Call, Listed, Name, Node, Number, Operation, Text, parse
from infra.local.cloudwatch.names import MetricName
from infra.local.cloudwatch.searches import matching, read_search
from infra.local.cloudwatch.store import MetricStore
from infra.local.cloudwatch.timeseries import MathUndefined, TimeSeries, Value, many

_WORDS: Final = frozenset({"REPEAT", "LINEAR", "ASC", "DESC", *functions.REDUCTIONS})
InsightMetric = Callable[[str, str, Sequence[int], int], Mapping[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One line of a widget or an alarm: either a metric or an expression."""

    id: str
    metric: MetricName | None = None
    statistic: str = "Average"
    period: int = 300
    unit: str | None = None
    expression: str = ""
    label: str = ""
    shown: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The periods of a request: `grid` are their beginnings."""

    start: int
    end: int
    period: int

    @property
    def grid(self) -> range:
        """Answer the beginning of every period."""
        return range(self.start, self.end, self.period)


class Evaluation:
    """Evaluates the queries of one request, each once.

    Args:
        queries: All of them; expressions may name each other.
        store: Where the metrics are.
        window: Which periods.
        insight: Answers a metric of a Contributor Insights rule (rule, metric, grid, period).

    Raises:
        MathUndefined: An id is unknown, names itself, or an expression makes no sense.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        *,
        store: MetricStore,
        window: Window,
        insight: InsightMetric | None = None,
    ) -> None:
        self._queries = {query.id: query for query in queries}
        self._store = store
        self._window = window
        self._insight = insight
        self._known: dict[str, Value] = {}
        self._open: set[str] = set()

    def series(self, name: str) -> list[TimeSeries]:
        """Answer what a query comes to: a number is drawn as a level line."""
        query, value = self._queries[name], self._value(name)
        if isinstance(value, float):
            value = TimeSeries(values=dict.fromkeys(self._window.grid, value))
        several = isinstance(value, list)
        return [replace(each, label=_label(query, each, several=several)) for each in many(value)]

    def _value(self, name: str) -> Value:
        if name in self._known:
            return self._known[name]
        if name not in self._queries:
            raise MathUndefined(f"the id {name} is nowhere defined")
        if name in self._open:
            raise MathUndefined(f"the id {name} is defined by itself")
        self._open.add(name)
        query = self._queries[name]
        value: Value
        if query.metric is not None:
            value = self._read(query.metric, query.statistic, query.id, unit=query.unit)
        else:
            value = self._node(parse(query.expression))
        self._open.discard(name)
        self._known[name] = value
        return value

    def _read(
        self, metric: MetricName, statistic: str, query: str, *, unit: str | None = None
    ) -> TimeSeries:
        window = self._window
        values = self._store.read(
            metric,
            statistic=statistic,
            period=window.period,
            start=window.start,
            end=window.end,
            unit=unit,
        )
        return TimeSeries(values=values, label=metric.name, query=query, period=window.period)

    def _node(self, node: Node) -> Value:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._value(node.value)
        if isinstance(node, Listed):
            return [series for item in node.items for series in many(self._node(item))]
        if isinstance(node, Operation):
            return functions.operate(node.sign, self._node(node.left), self._node(node.right))
        if isinstance(node, Call):
            return self._call(node)
        raise MathUndefined(f"a text alone means nothing: {node.value!r}")

    def _call(self, call: Call) -> Value:
        name, arguments = call.function, call.arguments
        if name in {"METRICS", "SEARCH", "INSIGHT_RULE_METRIC"}:
            return self._found(name, [_text(argument) for argument in arguments])
        if name == "FILL":
            wanted, filler = arguments
            return functions.filled(
                self._node(wanted), _word(filler) or self._node(filler), self._window.grid
            )
        if name == "SORT":
            wanted, by, direction, *most = arguments
            limit = _number(self._node(most[0])) if most else None
            return functions.ordered(self._node(wanted), _word(by), _word(direction), limit)
        values = [self._node(argument) for argument in arguments]
        if name == "IF":
            condition, then, *otherwise = values
            return functions.chosen(condition, then, otherwise[0] if otherwise else None)
        if name == "SLICE":
            series, start, *end = values
            return many(series)[int(_number(start)) : int(_number(end[0])) if end else None]
        if name == "TIME_SERIES":
            return TimeSeries(
                values=dict.fromkeys(self._window.grid, _number(values[0])),
                period=self._window.period,
            )
        (value,) = values
        return self._function(name, value)

    def _function(self, name: str, value: Value) -> Value:
        real = self._store.pace.unix
        if name in functions.REDUCTIONS:
            return functions.reduced(name, value)
        if name in functions.UNARY:
            return functions.unary(name, value)
        if name == "PERIOD":
            return real(self._window.period)
        if name == "RATE":
            return functions.rates(value, real_seconds=real)
        if name == "DIFF_TIME":
            return functions.gaps(value, real_seconds=real)
        if name in functions.SHAPES:
            return functions.SHAPES[name](value)
        raise MathUndefined(f"the function {name} is not known here")

    def _found(self, name: str, texts: Sequence[str]) -> Value:
        if name == "METRICS":
            part = texts[0] if texts else ""
            found = [
                self._value(query.id)
                for query in self._queries.values()
                if query.metric is not None and part in query.id
            ]
            return [series for value in found for series in many(value)]
        if name == "SEARCH":
            search = read_search(texts[0])
            return [
                replace(self._read(metric, texts[1], ""), label=_short(metric))
                for metric in matching(search, self._store.names())
            ]
        if self._insight is None:
            raise MathUndefined("no Contributor Insights rule is known here")
        values = self._insight(texts[0], texts[1], self._window.grid, self._window.period)
        return TimeSeries(values=values, label=texts[1], period=self._window.period)


def _short(metric: MetricName) -> str:
    told = " ".join(value for _, value in sorted(metric.dimensions))
    return f"{told} {metric.name}".strip()


def _label(query: Query, series: TimeSeries, *, several: bool) -> str:
    if several:
        return " ".join(part for part in (query.label, series.label) if part) or query.id
    return query.label or (series.label if query.metric else "") or query.id


def _text(node: Node) -> str:
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Number):
        return f"{node.value:g}"
    raise MathUndefined("a text in quotes is wanted")


def _word(node: Node) -> str:
    return node.value if isinstance(node, Name) and node.value in _WORDS else ""


def _number(value: Value) -> float:
    if isinstance(value, float):
        return value
    raise MathUndefined("a number is wanted")
