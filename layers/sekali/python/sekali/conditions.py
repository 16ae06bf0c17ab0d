"""Say when a write to the durable table is accepted.

DynamoDB evaluates a condition on the item it is about to replace, in one step with the write. It is
the only judge: nothing here is decided beforehand from a row that was read, because the row may be
another by then.

Each comparison is a named part, so that a test can take one away and see that somebody notices.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLACEHOLDER = re.compile(r":\w+")


@dataclass(frozen=True, slots=True)
class Part:
    """One comparison."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Condition:
    """Parts that must hold all together, or at least one of them."""

    name: str
    joiner: Literal["AND", "OR"]
    parts: tuple[Part | Condition, ...]

    def __str__(self) -> str:
        if len(self.parts) == 1:
            # DynamoDB refuses redundant parentheses.
            return str(self.parts[0])
        texts = [f"({part})" if isinstance(part, Condition) else str(part) for part in self.parts]
        return f" {self.joiner} ".join(texts)

    def names(self) -> Iterator[str]:
        """Yield the name of every part at any depth."""
        for part in self.parts:
            yield part.name
            if isinstance(part, Condition):
                yield from part.names()

    def without(self, name: str) -> Condition:
        """Return this condition with the part of that name taken out, at whatever depth."""
        kept = (
            part.without(name) if isinstance(part, Condition) else part
            for part in self.parts
            if part.name != name
        )
        return replace(self, parts=tuple(kept))


def all_of(name: str, *parts: Part | Condition) -> Condition:
    """Require every part."""
    return Condition(name, "AND", parts)


def any_of(name: str, *parts: Part | Condition) -> Condition:
    """Require at least one part."""
    return Condition(name, "OR", parts)


def used(condition: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that `condition` mentions; DynamoDB refuses one that is not used."""
    return {name: values[name] for name in set(_PLACEHOLDER.findall(condition))}


_NO_ITEM = Part("no item", "attribute_not_exists(pk)")
# DynamoDB deletes an expired item when it gets round to it, days later: until then it is absent.
_EXPIRED = Part("expired", "expires < :now")
_SAME_PAYLOAD = Part("payload", "ph = :ph")
_NOT_DONE = Part("not done", "st <> :done")
# Only a redrive sees a failure as absent, and only up to the one that its dead letter named.
_NOT_FAILED = any_of("not failed", Part("failed", "st <> :failed"), Part("rearm", "f <= :rearm"))

# The first recorded outcome is final. Fences are not compared: one that ran ahead of its time could
# refuse honest work for ever.
OUTCOME = any_of(
    "outcome",
    _NO_ITEM,
    _EXPIRED,
    all_of("open", _SAME_PAYLOAD, _NOT_DONE, _NOT_FAILED),
)

CLAIM_NEW = all_of("claim new", _NO_ITEM)

# `seen` makes the new fence greater than the one it replaces, whoever wrote in between. Whatever is
# not running has deadline 0, so that only a running item is ever in its time.
CLAIM_SEEN = all_of(
    "claim seen",
    Part("seen", "f = :seen"),
    any_of(
        "free",
        _EXPIRED,
        all_of(
            "over or mine",
            _SAME_PAYLOAD,
            _NOT_DONE,
            _NOT_FAILED,
            any_of("over", Part("deadline", "deadline < :now"), Part("mine", "tk = :tk")),
        ),
    ),
)

GIVE_BACK = all_of(
    "give back",
    Part("lives", "expires >= :now"),
    Part("running", "st = :running"),
    Part("mine", "tk = :tk"),
)
