"""Evaluate a stack's alarms once a minute, composite ones after those that they watch."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from infra.local.cloudwatch.alarm_rule import alarms_of, holds
from infra.local.cloudwatch.alarm_state import (
    ALARM,
    COMPARISONS,
    INSUFFICIENT_DATA,
    OK,
    State,
    decide,
    evaluation_range,
)
from infra.local.cloudwatch.definitions import Alarm, CompositeAlarm, MetricAlarm
from infra.local.cloudwatch.pace import MINUTE
from infra.local.cloudwatch.queries import Evaluation, InsightMetric, Query, Window
from infra.local.cloudwatch.samples import percentile_of
from infra.local.cloudwatch.store import MetricStore

_KEPT_CHANGES: Final = 1_000
_HALF: Final = 0.5
# Below 10 / (1 - p) values a percentile says little (10 / p below the median).
_FEW: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An alarm changed its state; `at` is in CloudWatch's seconds.

    `actions` are the ARNs that were told at once. A composite alarm with a suppressor tells later,
    or never: see `Alarms.notices`.
    """

    alarm: Alarm
    before: State
    after: State
    at: float
    reason: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Somebody was told of an alarm's state, at CloudWatch's seconds."""

    alarm: str
    state: State
    at: float
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """News of a composite alarm that wait for its suppressor."""

    change: Change
    due: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """An alarm as it stands: its last data points oldest first, None where one is missing."""

    alarm: Alarm
    state: State
    since: float | None
    points: tuple[float | None, ...]
    suppressed: bool = False


class Alarms:
    """All alarms of one stack; `step` and reading are safe from any thread.

    Args:
        alarms: Metric and composite ones.
        store: Where the metrics are.
        insight: Answers the metrics of Contributor Insights rules.
        on_change: Told of each change, from the thread that steps.
    """

    def __init__(
        self,
        alarms: Iterable[Alarm],
        *,
        store: MetricStore,
        insight: InsightMetric | None = None,
        on_change: Callable[[Change], None] | None = None,
    ) -> None:
        self._store = store
        self._insight = insight
        self._on_change = on_change
        self._lock = threading.RLock()
        given = list(alarms)
        self._metric_alarms = [one for one in given if isinstance(one, MetricAlarm)]
        self._composites = _in_order([one for one in given if isinstance(one, CompositeAlarm)])
        # Composite ones first, as one looks at them.
        self._all: list[Alarm] = [*self._composites, *self._metric_alarms]
        self._ids = {name: one.logical_id for one in self._all for name in (one.name, one.arn)}
        self._names = {one.arn: one.name for one in self._all}
        self._states: dict[str, State] = {one.logical_id: INSUFFICIENT_DATA for one in self._all}
        self._since: dict[str, float] = {}
        self._points: dict[str, tuple[float | None, ...]] = {}
        self._changes: deque[Change] = deque(maxlen=_KEPT_CHANGES)
        self._notices: deque[Notice] = deque(maxlen=_KEPT_CHANGES)
        self._waiting: dict[str, _Waiting] = {}
        self._stepped: int | None = None

    def step(self, now: float) -> None:
        """Evaluate at every full minute up to `now` (CloudWatch's seconds) since the last step."""
        last = int(now // MINUTE)
        with self._lock:
            first = last if self._stepped is None else self._stepped + 1
            # After a long pause the minutes in between are over; their data are still looked at.
            for minute in range(max(first, last - 1), last + 1):
                self._evaluate(minute * MINUTE)
            self._stepped = max(last, self._stepped or last)

    def states(self) -> dict[str, State]:
        """Answer the state of every alarm by its name."""
        with self._lock:
            return {one.name: self._states[one.logical_id] for one in self._all}

    def statuses(self) -> list[Status]:
        """Answer every alarm as it stands, composite ones first."""
        with self._lock:
            return [
                Status(
                    alarm=one,
                    state=self._states[one.logical_id],
                    since=self._since.get(one.logical_id),
                    points=self._points.get(one.logical_id, ()),
                    suppressed=isinstance(one, CompositeAlarm) and self._suppressed(one),
                )
                for one in self._all
            ]

    def changes(self) -> list[Change]:
        """Answer the last thousand changes, oldest first."""
        with self._lock:
            return list(self._changes)

    def notices(self) -> list[Notice]:
        """Answer the last thousand times that somebody was told, oldest first."""
        with self._lock:
            return list(self._notices)

    def _evaluate(self, end: int) -> None:
        for alarm in self._metric_alarms:
            points = self._data_points(alarm, end)
            self._points[alarm.logical_id] = tuple(points)
            compare = COMPARISONS[alarm.comparison]
            state = decide(
                [None if one is None else compare(one, alarm.threshold) for one in points],
                periods=alarm.periods,
                to_alarm=alarm.to_alarm,
                treatment=alarm.treatment,
                state=self._states[alarm.logical_id],
            )
            if state is not ALARM or not self._too_few(alarm, end):
                self._set(alarm, state, end)
        for composite in self._composites:
            state = ALARM if holds(composite.rule, self._state_of) else OK
            self._set(composite, state, end)
            self._tell_later(composite, end)

    def _data_points(self, alarm: MetricAlarm, end: int) -> list[float | None]:
        length = evaluation_range(alarm.periods) * alarm.period
        window = Window(start=end - length, end=end, period=alarm.period)
        found = Evaluation(
            alarm.queries, store=self._store, window=window, insight=self._insight
        ).series(alarm.returned)
        values: Mapping[int, float] = found[0].values if found else {}
        return [values.get(at) for at in window.grid]

    def _too_few(self, alarm: MetricAlarm, end: int) -> bool:
        """Whether a percentile alarm that ignores few samples has too few."""
        (query,) = (one for one in alarm.queries if one.id == alarm.returned)
        share = percentile_of(query.statistic)
        if not alarm.ignore_low_samples or query.metric is None or share is None:
            return False
        return self._count(query, end, alarm.periods) < _FEW / max(
            1e-9, 1 - share if share >= _HALF else share
        )

    def _count(self, query: Query, end: int, periods: int) -> float:
        if query.metric is None:
            return 0.0
        length = periods * query.period
        found = self._store.samples(query.metric, period=length, start=end - length, end=end)
        return sum(samples.count for samples in found.values())

    def _state_of(self, name: str) -> State:
        return self._states[self._ids[name]] if name in self._ids else INSUFFICIENT_DATA

    def _suppressed(self, alarm: CompositeAlarm) -> bool:
        return alarm.suppressor is not None and self._state_of(alarm.suppressor) == ALARM

    def _set(self, alarm: Alarm, state: State, at: float) -> None:
        before = self._states[alarm.logical_id]
        if state == before:
            return
        self._states[alarm.logical_id] = state
        self._since[alarm.logical_id] = at
        waits = isinstance(alarm, CompositeAlarm) and alarm.suppressor is not None
        actions = alarm.actions[state] if alarm.actions_enabled else ()
        change = Change(
            alarm=alarm,
            before=before,
            after=state,
            at=at,
            reason=self._reason(alarm),
            actions=() if waits else actions,
        )
        self._changes.append(change)
        if waits and isinstance(alarm, CompositeAlarm):
            # Time for the suppressor to learn of what is going on.
            self._waiting[alarm.logical_id] = _Waiting(change=change, due=at + alarm.wait_seconds)
        else:
            self._tell(alarm, state, at, actions)
        if self._on_change is not None:
            self._on_change(change)

    def _tell_later(self, alarm: CompositeAlarm, at: float) -> None:
        """Tell what waited, once nothing suppresses it any more and it is still true."""
        waiting = self._waiting.get(alarm.logical_id)
        if waiting is None:
            return
        if self._suppressed(alarm):
            due = max(waiting.due, at + alarm.extension_seconds)
            self._waiting[alarm.logical_id] = _Waiting(change=waiting.change, due=due)
        elif at >= waiting.due:
            del self._waiting[alarm.logical_id]
            state = waiting.change.after
            self._tell(alarm, state, at, alarm.actions[state] if alarm.actions_enabled else ())

    def _tell(self, alarm: Alarm, state: State, at: float, actions: tuple[str, ...]) -> None:
        for action in actions:
            self._notices.append(Notice(alarm=alarm.name, state=state, at=at, action=action))

    def _reason(self, alarm: Alarm) -> str:
        if isinstance(alarm, CompositeAlarm):
            ringing = [
                self._names.get(name, name)
                for name in alarms_of(alarm.rule)
                if self._state_of(name) == ALARM
            ]
            return f"in alarm: {', '.join(ringing) or 'none'}"
        points = self._points.get(alarm.logical_id, ())
        shown = ", ".join("–" if one is None else f"{one:g}" for one in points[-alarm.periods :])
        return f"{alarm.comparison} {alarm.threshold:g}: {shown}"


def _in_order(composites: list[CompositeAlarm]) -> list[CompositeAlarm]:
    """Put each composite alarm after those that it watches."""
    names = {name: one for one in composites for name in (one.name, one.arn)}
    placed: dict[str, CompositeAlarm] = {}

    def place(alarm: CompositeAlarm) -> None:
        if alarm.logical_id in placed:
            return
        placed[alarm.logical_id] = alarm
        for name in alarms_of(alarm.rule):
            if name in names and names[name].logical_id not in placed:
                place(names[name])
        # Behind what it watches.
        del placed[alarm.logical_id]
        placed[alarm.logical_id] = alarm

    for one in composites:
        place(one)
    return list(placed.values())
