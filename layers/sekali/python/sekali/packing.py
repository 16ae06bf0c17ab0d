"""Write a cached value as bytes and read it back: codec, compression, limits.

JSON is the default, because it is exact, safe and needs nothing. Another codec is an object with
`name`, `encode` and `decode`; its name, and a `fingerprint` of the schema that the caller may add,
stand in the envelope of each value. A value that was written under another name or another
fingerprint is a miss with the reason `fingerprint`, so that a deployment which changes a schema
never reads what the one before it wrote. Nothing is pickled.

    value → codec.encode → compressed above a size, if that saves a tenth → stored
    the local tier keeps what the codec made, uncompressed: a hit there pays for no decompression

The limit on the size counts what is stored, and what comes out of a decompression as well, so that
a small damaged value cannot fill the memory.
"""

from __future__ import annotations

import zlib
from dataclasses import field
from typing import Any, Final, Protocol

from sekali import codec as exact
from sekali.errors import ResultUnencodable, ValueTooLarge, ValueUnreadable
from sekali.light_dataclass import dataclass

COMPRESS_ABOVE_BYTES: Final = 4_096
MOST_VALUE_BYTES: Final = 1_048_576
_LEVEL: Final = 1
"""Level 6 takes three times as long for little less (tests/benchmarks, "library: choices")."""
_COMPRESSED: Final = "+z"
_MOST_TIMES_LARGER: Final = 64
_SAVED: Final = 0.9


class Codec(Protocol):
    """Turn values into bytes and back. Change `name` whenever the bytes change their meaning."""

    @property
    def name(self) -> str:
        """Return what tells these bytes from any other codec's; no `+` in it."""
        ...

    def encode(self, value: Any) -> bytes:  # Any: what the codec is for
        """Return the bytes, or raise TypeError or ValueError."""
        ...

    def decode(self, body: bytes) -> Any:  # Any: what the codec is for
        """Return the value, as fresh objects that nobody else holds, or raise ValueError."""
        ...


class JsonCodec:
    """Carry what JSON carries exactly, and refuse the rest."""

    name = ""
    encode = staticmethod(exact.encode)
    decode = staticmethod(exact.decode)


class MsgpackCodec:
    """Carry bytes too, and take less room; needs the package `msgpack` in the function's layer."""

    name = "msgpack"

    def __init__(self) -> None:
        import msgpack

        self._msgpack = msgpack

    def encode(self, value: Any) -> bytes:  # Any: as in Codec
        """Return the bytes, or raise TypeError or ValueError."""
        packed: bytes = self._msgpack.packb(value, use_bin_type=True)
        return packed

    def decode(self, body: bytes) -> Any:  # Any: as in Codec
        """Return the value."""
        return self._msgpack.unpackb(body, raw=False, strict_map_key=False)


JSON: Final = JsonCodec()


@dataclass(frozen=True, slots=True)
class Packed:
    """Hold both forms of a value: what the codec made, and what is stored."""

    body: bytes
    stored: bytes
    packing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Pack values with one codec under one fingerprint."""

    codec: Codec = field(default=JSON)
    fingerprint: str = ""
    compress_above_bytes: int = COMPRESS_ABOVE_BYTES
    most_bytes: int = MOST_VALUE_BYTES

    @property
    def _name(self) -> str:
        return f"{self.codec.name}/{self.fingerprint}" if self.fingerprint else self.codec.name

    def pack(self, value: object) -> Packed:
        """Return both forms of `value`.

        Raises:
            ResultUnencodable: the codec cannot carry it.
            ValueTooLarge: it is above the limit, compressed or not.
        """
        body = stored = self._encoded(value)
        packing = self._name
        if len(body) > self.compress_above_bytes:
            smaller = zlib.compress(body, _LEVEL)
            if len(smaller) < len(body) * _SAVED:
                stored, packing = smaller, packing + _COMPRESSED
        if len(stored) > self.most_bytes or len(body) > self.most_bytes * _MOST_TIMES_LARGER:
            raise ValueTooLarge(len(stored), self.most_bytes)
        return Packed(body, stored, packing)

    def copy(self, value: object) -> Any:  # Any: what the codec is for
        """Return what everybody but its loader gets of `value`, however large it is.

        Raises:
            ResultUnencodable: the codec cannot carry it.
            ValueUnreadable: the codec refuses what it made of it.
        """
        return self.decode(self._encoded(value))

    def _encoded(self, value: object) -> bytes:
        try:
            body = self.codec.encode(value)
        except ResultUnencodable:
            raise
        except Exception as error:
            raise ResultUnencodable(
                "", type(value).__name__, rule="is not carried by the codec"
            ) from error
        if not isinstance(body, bytes):
            rule = f"became {type(body).__name__} and not bytes in the codec"
            raise ResultUnencodable("", type(value).__name__, rule=rule)
        return body

    def unpack(self, stored: bytes, packing: str) -> bytes:
        """Return what the codec made of the value.

        Raises:
            ValueUnreadable: another codec or fingerprint wrote it, or it is damaged.
        """
        name = packing.removesuffix(_COMPRESSED)
        if name != self._name:
            raise ValueUnreadable("fingerprint")
        if name == packing:
            return stored
        inflate = zlib.decompressobj()
        try:
            body = inflate.decompress(stored, self.most_bytes * _MOST_TIMES_LARGER)
        except zlib.error:
            raise ValueUnreadable("garbage") from None
        if not inflate.eof:
            raise ValueUnreadable("garbage")
        return body

    def decode(self, body: bytes) -> Any:  # Any: what the codec is for
        """Return the value.

        Raises:
            ValueUnreadable: the codec refuses the bytes.
        """
        try:
            return self.codec.decode(body)
        except ValueUnreadable:
            raise
        except Exception as error:
            raise ValueUnreadable("garbage") from error


PLAIN: Final = Packing()
