"""Turn what a sender holds into the JSON object that a message carries.

A payload may be a mapping (a TypedDict is one), a dataclass, a msgspec Struct or a pydantic model,
also inside each other. msgspec and pydantic write themselves, dates and all; of a dataclass each
field is taken as it is. Nothing is imported: who has such an object has its package.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from sekali.errors import MessageInvalid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Model(Protocol):
    """Be what pydantic's models are, as far as it matters here."""

    def model_dump(self, *, mode: str = ...) -> dict[str, Any]:  # Any: as pydantic types it
        """Return the fields."""
        ...


class Struct(Protocol):
    """Be what msgspec's structs are, as far as it matters here."""

    __struct_fields__: ClassVar[tuple[str, ...]]


Payload: TypeAlias = "Mapping[str, object] | DataclassInstance | Model | Struct"


def plain(payload: Payload) -> dict[str, object]:
    """Return a payload as a dictionary.

    Raises:
        MessageInvalid: it is nothing that becomes a JSON object.
    """
    found = _plain(payload)
    if not isinstance(found, dict):
        found_type = type(payload).__name__
        raise MessageInvalid("wrong_type", "payload", "must be an object", found_type)
    return found


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, type) or value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "__struct_fields__"):
        return sys.modules["msgspec"].to_builtins(value, str_keys=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    return value
