"""Turn what an AWS client raises into the library's own errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sekali.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def faults_of(operation: str) -> Iterator[None]:
    """Raise `StoreUnavailable` for whatever the client could not do; the cause holds no address."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise StoreUnavailable(operation, error.response["Error"]["Code"]) from error
    except BotoCoreError as error:
        raise StoreUnavailable(operation, type(error).__name__) from error
