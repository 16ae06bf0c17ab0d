"""Import Powertools' idempotency utility without its DynamoDB layer, which imports boto3.

The utility's package imports every store that it has, used or not, and with them boto3, which is a
fifth of a cold start (see `aws_clients`). So while the package is imported for the first time, an
empty module stands where its DynamoDB layer would be; afterwards that name is free again, and
whoever asks for the layer gets the real one, imported then::

    from sekali import Worker                     # no boto3
    from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer    # boto3
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

_PACKAGE: Final = "aws_lambda_powertools.utilities.idempotency"
_STORE: Final = f"{_PACKAGE}.persistence.dynamodb"
_NAME: Final = "DynamoDBPersistenceLayer"


def _import_lightly() -> None:
    if _PACKAGE in sys.modules or _STORE in sys.modules:
        return
    stand_in = ModuleType(_STORE)
    setattr(stand_in, _NAME, None)
    sys.modules[_STORE] = stand_in
    try:
        package = import_module(_PACKAGE)
    finally:
        del sys.modules[_STORE]
    delattr(package, _NAME)

    def load(name: str) -> object:
        if name != _NAME:
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
        layer: object = getattr(import_module(_STORE), _NAME)
        setattr(package, _NAME, layer)
        return layer

    # A module may have this function (PEP 562); Powertools' own has none.
    setattr(package, "__getattr__", load)  # noqa: B010  mypy knows no such attribute


if not TYPE_CHECKING:
    _import_lightly()

# The names that are used here, so that whoever imports them comes through this module.
from aws_lambda_powertools.utilities.idempotency import idempotent_function  # noqa: E402
from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler  # noqa: E402
from aws_lambda_powertools.utilities.idempotency.exceptions import (  # noqa: E402
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import (  # noqa: E402
    BasePersistenceLayer,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import (  # noqa: E402
    DataRecord,
)
from aws_lambda_powertools.utilities.idempotency.serialization.no_op import (  # noqa: E402
    NoOpSerializer,
)

__all__ = [
    "BasePersistenceLayer",
    "DataRecord",
    "IdempotencyHandler",
    "IdempotencyItemAlreadyExistsError",
    "IdempotencyItemNotFoundError",
    "IdempotencyValidationError",
    "NoOpSerializer",
    "idempotent_function",
]
