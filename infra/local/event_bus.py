"""EventBridge on this machine: rules with a pattern or a schedule, and the functions they call.

an object changed ─┐
an alarm rang ─────┼──> rules that match ──> functions, asynchronously
a deployment ──────┤
the clock ─────────┘
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infra.local.intrinsics import TemplateUnsupported
from infra.local.template import EventRule

Json = Any  # An event and a pattern are any JSON.

_RATE: Final = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400}


class EventBus:
    """Hands events to the functions of the rules that match.

    Args:
        rules: The stack's.
        call: Starts a function (a logical id) with an event, and does not wait for it.
        on_match: Told the name of each rule that matched, and how many functions it called.

    Raises:
        TemplateUnsupported: A schedule or a pattern is not known here.
    """

    def __init__(
        self,
        rules: Sequence[EventRule],
        *,
        call: Callable[[str, Json], None],
        on_match: Callable[[str, int], None],
    ) -> None:
        self._rules = rules
        self._call = call
        self._on_match = on_match
        self._lock = threading.Lock()
        self._intervals = {rule.name: _interval(rule) for rule in rules if rule.schedule}
        self._due: dict[str, float] = {}
        for rule in rules:
            _check(rule.pattern, rule.name)

    def put(self, event: Json) -> None:
        """Hand an event to every rule whose pattern it matches."""
        for rule in self._rules:
            if rule.pattern is not None and matches(rule.pattern, event):
                self._matched(rule, event)

    def tick(self, now: float) -> None:
        """Call what is due by now (CloudWatch's seconds); the first time after one interval."""
        for rule in self._rules:
            interval = self._intervals.get(rule.name)
            if interval is None:
                continue
            with self._lock:
                due = self._due.setdefault(rule.name, now + interval)
                if now < due:
                    continue
                self._due[rule.name] = now + interval
            self._matched(rule, {"source": "aws.events", "detail-type": "Scheduled Event"})

    def _matched(self, rule: EventRule, event: Json) -> None:
        for function in rule.functions:
            self._call(function, event)
        self._on_match(rule.name, len(rule.functions))


def matches(pattern: Json, event: Json) -> bool:
    """Whether an event matches a pattern: every field of it, by one of the field's choices."""
    for field, wanted in pattern.items():
        value = event.get(field) if isinstance(event, Mapping) else None
        if isinstance(wanted, Mapping):
            if not isinstance(value, Mapping) or not matches(wanted, value):
                return False
            continue
        values = value if isinstance(value, list) else [value]
        if not any(_chosen(choice, one) for choice in wanted for one in values):
            return False
    return True


def _chosen(choice: Json, value: Json) -> bool:
    if not isinstance(choice, Mapping):
        return bool(choice == value)
    return all(_OPERATORS[name](value, wanted) for name, wanted in choice.items())


# Any: a field of an event, and what the pattern says of it.
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "anything-but": lambda value, others: (
        value not in (others if isinstance(others, list) else [others])
    ),
    "exists": lambda value, wanted: (value is not None) == wanted,
    "prefix": lambda value, start: isinstance(value, str) and value.startswith(start),
    "suffix": lambda value, end: isinstance(value, str) and value.endswith(end),
}


def _check(pattern: Json, rule: str) -> None:
    for wanted in (pattern or {}).values():
        if isinstance(wanted, Mapping):
            _check(wanted, rule)
            continue
        for choice in wanted:
            unknown = set(choice) - _OPERATORS.keys() if isinstance(choice, Mapping) else set()
            if unknown:
                raise TemplateUnsupported(f"{rule}: the operator {min(unknown)} of a pattern")


def _interval(rule: EventRule) -> float:
    found = _RATE.fullmatch(rule.schedule)
    if found is None:
        raise TemplateUnsupported(f"{rule.name}: the schedule {rule.schedule}")
    return float(int(found[1]) * _SECONDS[found[2]])
