"""Break the library in one place at a time, by editing the source of one function."""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit: `old` becomes `new` in the source of `where`, as `module:Class.function`.

    `test` of `file` is for it: the function's name without `test_`, and the case in brackets where
    it is parametrized. `also` names modules that imported the function under its own name.
    """

    name: str
    where: str
    old: str
    new: str
    file: str
    test: str
    also: tuple[str, ...] = field(default=())

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function in place of the real one."""
        owner, name = self._owner()
        real = inspect.getattr_static(owner, name)
        broken = self._edited(owner, name)
        patch.setattr(
            owner, name, staticmethod(broken) if isinstance(real, staticmethod) else broken
        )
        for module in self.also:
            patch.setattr(importlib.import_module(f"sekali.{module}"), name, broken)

    def _owner(self) -> tuple[Any, str]:  # Any: a module or a class
        module, _, path = self.where.partition(":")
        *outer, name = path.split(".")
        owner: Any = importlib.import_module(f"sekali.{module}")  # Any: as above
        for one in outer:
            owner = getattr(owner, one)
        return owner, name

    def _edited(self, owner: Any, name: str) -> Callable[..., Any]:  # Any: as above
        source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.where} holds {self.old!r} not exactly once")
        module = sys.modules[getattr(owner, "__module__", owner.__name__)]
        names: dict[str, Any] = {**vars(module)}  # Any: whatever a module holds
        flags = __future__.annotations.compiler_flag
        code = compile(source.replace(self.old, self.new), self.where, "exec", flags)
        exec(code, names)  # noqa: S102 the mutant is made of this repository's own source
        broken: Callable[..., Any] = names[name]
        return broken


def cases(test: Callable[..., object]) -> Mapping[str, Mapping[str, object]]:
    """Return the arguments of each case of a parametrized test, by the case's id."""
    found: dict[str, dict[str, object]] = {"": {}}
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
        named: dict[str, dict[str, object]] = {}
        for value in mark.args[1]:
            values = getattr(value, "values", None) or (value if len(names) > 1 else (value,))
            label = getattr(value, "id", None) or "-".join(map(str, values))
            for before, given in found.items():
                joined = f"{before}-{label}" if before else label
                named[joined] = {**given, **dict(zip(names, values, strict=True))}
        found = named
    return found
