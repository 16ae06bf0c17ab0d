"""Make one key of a function and its arguments, so that two calls share it only if they are equal.

Every part carries its type and its length, so nothing runs into its neighbour: `1`, `1.0`, `True`
and `"1"` are four keys, `("a", "bc")` and `("ab", "c")` two. Defaults are filled in first, so that
`f(1)` and `f(1, b=2)` are one call where 2 is the default, and keywords have no order.

What has no such text is refused rather than guessed: `repr` of an object is its address, and an
object of a user's class is what its attributes are today. A frozen dataclass is its class and its
fields; anything else may say what it is by a method `cache_key()` that returns text. So methods of
two objects never share a key by accident: their `self` is an argument like any other.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import pathlib
import uuid
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from sekali.errors import KeyInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_LEVELS: Final = 20
_PLAIN_TEXT: Final = (
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    dt.date,
    dt.time,
    dt.timedelta,
    dt.timezone,
    pathlib.PurePath,
)


def text_of(arguments: Mapping[str, Any]) -> str:  # Any: arguments of any function
    """Return the text that stands for these arguments, in the order of the parameters.

    Raises:
        KeyInvalid: an argument has no text that stands for it; the error names it.
    """
    parts = []
    for name, value in arguments.items():
        try:
            parts.append(_framed(name, _written(value, MOST_LEVELS)))
        except _HasNoText as error:
            rule = "must be plain data, a frozen dataclass, or have a method cache_key()"
            raise KeyInvalid(f"argument {name!r}", rule, error.type_name) from None
    return "".join(parts)


class _HasNoText(Exception):
    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name


def _framed(kind: str, text: str) -> str:
    # A kind may end in a digit, as names of classes do: it must not run into the length.
    return f"{kind}.{len(text)}:{text}"


def _written(value: object, levels: int) -> str:
    if levels == 0:
        raise _HasNoText(f"{type(value).__name__} (nested too deep)")
    if value is None or value is True or value is False:
        return f"<{value}>"
    kind = type(value)
    if kind is int:
        return _framed("i", str(value))
    if kind is float:
        return _framed("f", value.hex())  # type: ignore[attr-defined]  # the type was compared
    if kind is str:
        return _framed("s", value)  # type: ignore[arg-type]  # the type was compared
    if kind in {bytes, bytearray}:
        kind_name = "b" if kind is bytes else "bytearray"
        return _framed(kind_name, value.hex())  # type: ignore[attr-defined]  # the type was compared
    return _framed(_name(kind), _composed(value, kind, levels - 1))


def _composed(value: Any, kind: type, levels: int) -> str:  # Any: of the type that was compared
    """Return the text of a container, of a class, or of an instance of one."""
    if kind in {list, tuple} or hasattr(kind, "_fields"):
        return "".join(_written(part, levels) for part in value)
    if kind in {set, frozenset}:
        return "".join(sorted(_written(part, levels) for part in value))
    if kind is dict:
        return _pairs(value.items(), levels)
    if isinstance(value, enum.Enum):  # flags that are combined may have no name
        return str(value.value if isinstance(value, enum.Flag) else value.name)
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, _PLAIN_TEXT):
        return _dated(value)
    own = getattr(value, "cache_key", None)
    if callable(own):
        return str(own())
    if is_dataclass(value) and getattr(kind, "__dataclass_params__").frozen:  # noqa: B009 - untyped
        return _pairs(((one.name, getattr(value, one.name)) for one in fields(value)), levels)
    raise _HasNoText(_name(kind))


def _pairs(pairs: Iterable[tuple[object, object]], levels: int) -> str:
    return "".join(
        sorted(_written(name, levels) + _written(value, levels) for name, value in pairs)
    )


def _dated(value: object) -> str:
    # Times an hour apart in two zones print alike without their fold and zone.
    if isinstance(value, (dt.datetime, dt.time)):
        return f"{value.isoformat()}/{value.fold}/{value.tzinfo!r}"
    return str(value)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
