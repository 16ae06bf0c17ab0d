"""Make dataclasses that cost an import little: a method is written when it is first called.

`dataclasses` writes and compiles up to seven methods for each class while the class is defined.
Here the class is made by `dataclasses` too, with its fields and slots, but without those methods:
what compares, shows and refuses is the same for every class, and `__init__` is written at the first
instance. A frozen class of six fields is defined in 139 µs instead of 705, and its instances are
made no slower (tests/benchmarks, "library: dataclasses").

They are dataclasses in every other way: `fields`, `replace`, `asdict` and `match` know them. What
dataclasses can do beside is not here: `InitVar`, an order, hashes of what may change, and a frozen
one below another.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass

__all__ = ["dataclass"]

T = TypeVar("T")

_ABSENT: Final = object()


def _dataclass(
    *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    """Decorate a class; the options are those of `dataclasses.dataclass`."""
    bare: Any = dataclasses.dataclass  # Any: mypy wants its arguments to be literals

    def made(plain: type[T]) -> type[T]:
        cls: type[T] = bare(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
        own = vars(cls)
        methods: dict[str, Any] = {}  # Any: methods of any class
        if "__repr__" not in own:
            methods["__repr__"] = _repr
        if "__init__" not in own:
            methods["__init__"] = _unwritten(cls, frozen=frozen)
        if eq and "__eq__" not in own:
            methods["__eq__"] = _eq
        if eq and own.get("__hash__") is None:
            methods["__hash__"] = _hash if frozen else None
        if frozen:
            methods |= _FROZEN
            own["__dataclass_params__"].frozen = True  # for whoever asks
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls

    return made


if not TYPE_CHECKING:
    # Whoever checks types sees the genuine one, which is what these are.
    dataclass = _dataclass


def _unwritten(cls: Any, *, frozen: bool) -> Any:  # Any: a class of any kind; its `__init__`
    def first(self: object, *args: object, **kwargs: object) -> None:
        cls.__init__ = _written(cls, frozen=frozen)
        cls.__init__(self, *args, **kwargs)

    return first


def _written(cls: Any, *, frozen: bool) -> Any:  # Any: as above
    """Write and compile the method that takes the fields, in their order."""
    names: dict[str, Any] = {"_absent": _ABSENT}  # Any: defaults, and what sets a slot
    positional: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for one in dataclasses.fields(cls):
        name, parameter, value = one.name, one.name, one.name
        if one.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = one.default
            parameter = f"{name}=_default_{name}"
            value = name if one.init else f"_default_{name}"
        elif one.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = one.default_factory
            parameter = f"{name}=_absent"
            made = f"_make_{name}()"
            value = f"{made} if {name} is _absent else {name}" if one.init else made
        elif not one.init:
            continue
        if one.init:
            (keywords if one.kw_only else positional).append(parameter)
        if frozen:
            # Past the refusal, and quicker than object's own.
            names[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({taken}):\n {body}", names)  # noqa: S102  the words are names of fields
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@cache
def _compared(cls: Any) -> Callable[[object], object]:  # Any: as above
    """Return what takes out the fields that decide whether two are equal."""
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _eq(self: Any, other: Any) -> Any:  # Any: as above; NotImplemented is no bool
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = _compared(self.__class__)
    return compared(self) == compared(other)


def _hash(self: Any) -> int:  # Any: as above
    return hash(_compared(self.__class__)(self))


@recursive_repr()
def _repr(self: Any) -> str:  # Any: an instance of any kind
    shown = [one.name for one in dataclasses.fields(self) if one.repr]
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({values})"


def _refuse_assignment(_: object, name: str, __: object) -> Never:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> Never:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:  # Any: as above
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:  # Any: as above
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_FROZEN: Final = {
    "__setattr__": _refuse_assignment,
    "__delattr__": _refuse_deletion,
    "__getstate__": _state,
    "__setstate__": _restore,
}
