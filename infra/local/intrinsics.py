"""Resolve the intrinsic functions of a CloudFormation template to plain values.

Only what CDK writes into a template is known; any other function is refused by name, because a
value that is guessed here would differ from the deployed one in silence.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

_VARIABLE: Final = re.compile(r"\$\{(!?)([^}]+)\}")
_NO_VALUE: Final = object()


class TemplateUnsupported(ValueError):
    """The template holds something that cannot be run on this machine.

    Raised while the stack is read, before anything is started. Leave the thing out of the synth for
    this machine, or teach `infra.local` to run it. `what` names it.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the local stack cannot run {what}")


class Located(Protocol):
    """What a resource answers to `Ref` and `Fn::GetAtt`."""

    def reference(self) -> str:
        """Answer `Ref`."""

    def attribute(self, name: str) -> str:
        """Answer `Fn::GetAtt` with `name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The names that a template's expressions may use."""

    names: Mapping[str, str]  # Parameters and pseudo parameters (`AWS::Region`).
    locate: Callable[[str], Located]
    conditions: Mapping[str, Any] = field(default_factory=dict)  # Expressions: any JSON.
    mappings: Mapping[str, Any] = field(default_factory=dict)  # Tables of any JSON.


def resolve(node: Any, scope: Scope) -> Any:  # A template is any JSON, before and after.
    """Replace every intrinsic function inside `node` by its value.

    Raises:
        TemplateUnsupported: A function is not known here.
    """
    if isinstance(node, list):
        values = [resolve(item, scope) for item in node]
        return [value for value in values if value is not _NO_VALUE]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        name, argument = next(iter(node.items()))
        if name == "Ref":
            return _reference(argument, scope)
        if name.startswith("Fn::") or name == "Condition":
            return _call(name, argument, scope)
    pairs = {name: resolve(value, scope) for name, value in node.items()}
    return {name: value for name, value in pairs.items() if value is not _NO_VALUE}


def _reference(name: str, scope: Scope) -> Any:  # `_NO_VALUE` is no text.
    if name == "AWS::NoValue":
        return _NO_VALUE
    if name in scope.names:
        return scope.names[name]
    return scope.locate(name).reference()


def _call(name: str, argument: Any, scope: Scope) -> Any:  # Any JSON in, any JSON out.
    function = _FUNCTIONS.get(name)
    if function is None:
        raise TemplateUnsupported(f"the intrinsic function {name}")
    return function(argument, scope)


def _get_attribute(argument: Any, scope: Scope) -> str:  # A list, or one dotted text.
    logical_id, _, attribute = (
        argument.partition(".")
        if isinstance(argument, str)
        else (argument[0], ".", ".".join(str(resolve(part, scope)) for part in argument[1:]))
    )
    return scope.locate(logical_id).attribute(attribute)


def _join(argument: Any, scope: Scope) -> str:  # [separator, list or expression]
    separator, items = argument
    return str(separator).join(str(item) for item in resolve(items, scope))


def _substitute(argument: Any, scope: Scope) -> str:  # Text, or [text, variables].
    text, variables = (argument, {}) if isinstance(argument, str) else argument

    def value(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return f"${{{name}}}"
        if name in variables:
            return str(resolve(variables[name], scope))
        if "." in name:
            return _get_attribute(name, scope)
        return str(_reference(name, scope))

    return _VARIABLE.sub(value, text)


def _select(argument: Any, scope: Scope) -> Any:  # [index, list or expression]
    index, items = resolve(argument, scope)
    return items[int(index)]


def _split(argument: Any, scope: Scope) -> list[str]:  # [separator, text or expression]
    separator, text = resolve(argument, scope)
    return str(text).split(separator)


def _if(argument: Any, scope: Scope) -> Any:  # [condition name, then, else]
    name, then, otherwise = argument
    return resolve(then if _condition(name, scope) else otherwise, scope)


def _condition(name: str, scope: Scope) -> bool:
    if name not in scope.conditions:
        raise TemplateUnsupported(f"the condition {name}, which is nowhere defined")
    return bool(resolve(scope.conditions[name], scope))


def _find_in_map(argument: Any, scope: Scope) -> Any:  # [table, row, column]
    table, row, column = resolve(argument, scope)
    return resolve(scope.mappings[table][row][column], scope)


def _equals(argument: Any, scope: Scope) -> bool:  # [left, right]
    left, right = resolve(argument, scope)
    return bool(left == right)


# Each takes any JSON as its argument and answers any JSON.
_FUNCTIONS: Final[Mapping[str, Callable[[Any, Scope], Any]]] = {
    "Condition": _condition,
    "Fn::And": lambda argument, scope: all(resolve(argument, scope)),
    "Fn::Equals": _equals,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAtt": _get_attribute,
    "Fn::If": _if,
    "Fn::Join": _join,
    "Fn::Not": lambda argument, scope: not resolve(argument, scope)[0],
    "Fn::Or": lambda argument, scope: any(resolve(argument, scope)),
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _substitute,
}
