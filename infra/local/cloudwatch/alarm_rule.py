"""Read and evaluate the rule of a composite alarm.

    rule:  and ( "OR" and )*        and: not ( "AND" not )*        not: "NOT" not | atom
    atom:  ALARM(name) | OK(name) | INSUFFICIENT_DATA(name) | TRUE | FALSE | "(" rule ")"

A name is a name or an ARN, in quotes or without. AND binds before OR, NOT before both.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:"(?P<quoted>[^"]+)"
        |'(?P<single>[^']+)'|(?P<plain>[^\s()"']+))\s*\)
      |(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<sign>[()]))""",
    re.VERBOSE,
)


class RuleInvalid(ValueError):
    """A composite alarm's rule that cannot be read; `rule` is it."""

    def __init__(self, rule: str, why: str) -> None:
        self.rule = rule
        super().__init__(f"{why}: {rule}")


@dataclass(frozen=True, slots=True)
class StateIs:
    """Holds while the alarm is in the state."""

    state: str
    alarm: str


@dataclass(frozen=True, slots=True)
class Not:
    """Holds while the other does not."""

    rule: "Rule"


@dataclass(frozen=True, slots=True)
class Both:
    """AND, or OR where `any_of` is set."""

    left: "Rule"
    right: "Rule"
    any_of: bool


Rule = StateIs | Not | Both | bool


def parse_rule(text: str) -> Rule:
    """Read a rule.

    Raises:
        RuleInvalid: It does not follow the grammar.
    """
    return _Parser(text).whole()


def holds(rule: Rule, state_of: Callable[[str], str]) -> bool:
    """Evaluate a rule; `state_of` answers an alarm's state by its name or ARN."""
    if isinstance(rule, bool):
        return rule
    if isinstance(rule, StateIs):
        return state_of(rule.alarm) == rule.state
    if isinstance(rule, Not):
        return not holds(rule.rule, state_of)
    left, right = holds(rule.left, state_of), holds(rule.right, state_of)
    return (left or right) if rule.any_of else (left and right)


def alarms_of(rule: Rule) -> list[str]:
    """Answer the alarms that a rule names, in order."""
    if isinstance(rule, StateIs):
        return [rule.alarm]
    if isinstance(rule, Not):
        return alarms_of(rule.rule)
    if isinstance(rule, Both):
        return [*alarms_of(rule.left), *alarms_of(rule.right)]
    return []


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[Rule | str] = []
        self._at = 0
        position, stripped = 0, text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:
                raise RuleInvalid(text, f"{stripped[position : position + 12]!r} means nothing")
            position = found.end()
            if found["state"]:
                name = found["quoted"] or found["single"] or found["plain"]
                self._tokens.append(StateIs(found["state"], name))
            elif found["word"] in {"TRUE", "FALSE"}:
                self._tokens.append(found["word"] == "TRUE")
            else:
                self._tokens.append(found["word"] or found["sign"])

    def whole(self) -> Rule:
        rule = self._either()
        if self._at < len(self._tokens):
            raise RuleInvalid(self._text, f"{self._tokens[self._at]!r} does not belong here")
        return rule

    def _either(self) -> Rule:
        rule = self._both()
        while self._takes("OR"):
            rule = Both(rule, self._both(), any_of=True)
        return rule

    def _both(self) -> Rule:
        rule = self._not()
        while self._takes("AND"):
            rule = Both(rule, self._not(), any_of=False)
        return rule

    def _not(self) -> Rule:
        if self._takes("NOT"):
            return Not(self._not())
        if self._takes("("):
            rule = self._either()
            if not self._takes(")"):
                raise RuleInvalid(self._text, "')' is missing")
            return rule
        if self._at >= len(self._tokens):
            raise RuleInvalid(self._text, "it ends too soon")
        token = self._tokens[self._at]
        if isinstance(token, str):
            raise RuleInvalid(self._text, f"{token!r} does not belong here")
        self._at += 1
        return token

    def _takes(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == word:
            self._at += 1
            return True
        return False
