"""Read what a client of the cache sends and what the server answers, whole values at a time."""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final, TypeAlias

Command: TypeAlias = tuple[bytes, ...]
Reply: TypeAlias = object

_INCOMPLETE: Final = object()
_NESTED: Final = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
_WITH_LENGTH: Final = b"$=!"
_PUSH: Final = ord(">")


class Refused(Exception):
    """An error that the server answered; kept as a value, never raised."""


class Reader:
    """Cut a stream of RESP into values; `feed` answers those that became complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Reply]:
        """Take more bytes; pushes of the server are left out."""
        self._bytes += data
        values: list[Reply] = []
        at = 0
        while at < len(self._bytes):
            push = self._bytes[at] == _PUSH
            value, end = self._value(at)
            if value is _INCOMPLETE:
                break
            at = end
            if not push:
                values.append(value)
        del self._bytes[:at]
        return values

    def _value(self, at: int) -> tuple[Reply, int]:
        line_end = self._bytes.find(b"\r\n", at)
        if line_end < 0:
            return _INCOMPLETE, at
        kind, text = self._bytes[at], bytes(self._bytes[at + 1 : line_end])
        after = line_end + 2
        if kind in _NESTED:
            return self._nested(int(text) * _NESTED[kind], after)
        if kind in _WITH_LENGTH:
            return self._text(int(text), after)
        if kind == ord(":"):
            return int(text), after
        if kind == ord("-"):
            return Refused(text.decode(errors="replace")), after
        return (None if kind == ord("_") else text), after

    def _text(self, length: int, at: int) -> tuple[Reply, int]:
        if length < 0:
            return None, at
        if len(self._bytes) < at + length + 2:
            return _INCOMPLETE, at
        return bytes(self._bytes[at : at + length]), at + length + 2

    def _nested(self, count: int, at: int) -> tuple[Reply, int]:
        if count < 0:
            return None, at
        values = []
        for _ in range(count):
            value, at = self._value(at)
            if value is _INCOMPLETE:
                return _INCOMPLETE, at
            values.append(value)
        return values, at


def command(value: Reply) -> Command:
    """Read a command: a list of byte strings."""
    if not isinstance(value, list):
        return ()
    return tuple(part for part in value if isinstance(part, bytes))


def slot_of(key: bytes) -> int:
    """Answer the hash slot of a key, as the cluster specification computes it (CRC-16, XMODEM)."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) % 16384
