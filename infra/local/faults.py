"""What can befall the stack's lines and functions, switched on and off while it runs.

A door's weather decides about each piece that a function sends: hand it on, cut the line, answer in
the server's place, or wait first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

DYNAMODB: Final = b"DynamoDB_"
_S3: Final = (b"GET ", b"PUT ", b"HEAD ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault that was injected, in Unix seconds; `ended_at` is None while it lasts."""

    name: str
    began_at: float
    ended_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Weather:
    """What befalls what passes a door; changed by one thread, read by the relay's.

    `refused` answers in the server's place where it answers anything. `delay` is how long a piece
    waits, in seconds.
    """

    cut: bool = False
    refused: Callable[[bytes], bytes] = field(default=lambda _: b"")
    delay: Callable[[bytes], float] = field(default=lambda _: 0.0)


def throttled_table(data: bytes) -> bytes:
    """Refuse a call to DynamoDB as a table does that is over its capacity."""
    if DYNAMODB not in data:
        return b""
    body = (
        b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
        b'"message":"as arranged"}'
    )
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def slow_objects(seconds: float) -> Callable[[bytes], float]:
    """Let each request to S3 wait."""
    return lambda data: seconds if data.startswith(_S3) else 0.0
