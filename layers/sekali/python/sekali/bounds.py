"""Say what the text of an environment variable may be, and read it.

Each rule is an object with `text`, which continues a sentence that begins with the variable's name
(`must be between 1 and 900`), and `read`, which returns None for a text that breaks it.
"""

from __future__ import annotations

import re
from typing import Protocol


class Rule(Protocol):
    """Turn a variable's text into a value, or None where the text breaks the rule."""

    @property
    def text(self) -> str:
        """Return the rule, to be read after the name of the variable."""
        ...

    def read(self, found: str) -> object | None:
        """Return the value, or None."""
        ...


class Flag:
    """Accept `true` and `false`, exactly."""

    text = "must be true or false"

    def read(self, found: str) -> bool | None:
        """Return the value, or None."""
        return {"true": True, "false": False}.get(found)


class Choice:
    """Accept one of a few words."""

    def __init__(self, *choices: str) -> None:
        self._choices = choices
        self.text = f"must be one of {', '.join(choices)}"

    def read(self, found: str) -> str | None:
        """Return the value, or None."""
        return found if found in self._choices else None


class Text:
    """Accept text that a pattern matches as a whole."""

    def __init__(self, pattern: str, text: str | None = None) -> None:
        self._pattern = re.compile(pattern)
        self.text = text or f"must match {pattern}"

    def read(self, found: str) -> str | None:
        """Return the value, or None."""
        return found if self._pattern.fullmatch(found) else None


class Number:
    """Accept plain decimals: no exponent, no sign, no `nan`, no underscore."""

    _pattern = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = most
        self.text = f"must be between {least:g} and {most:.10g}"

    def read(self, found: str) -> float | None:
        """Return the value, or None."""
        if not self._pattern.fullmatch(found):
            return None
        number = float(found)
        return number if self._least <= number <= self._most else None


class Whole:
    """Accept digits, within bounds that are allowed themselves."""

    _pattern = re.compile(r"[0-9]{1,15}")

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self.text = f"must be a whole number between {least} and {most}"

    def read(self, found: str) -> int | None:
        """Return the value, or None."""
        if not self._pattern.fullmatch(found):
            return None
        number = int(found)
        return number if self._least <= number <= self._most else None


CACHE_URL = re.compile(
    r"(?P<scheme>valkeys?|rediss?)://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})(/0?)?"
)


class CacheUrl:
    """Accept the address of a cache, and no credentials in it."""

    text = "must be valkey://host:port, or valkeys://host:port for TLS, without user and password"

    def read(self, found: str) -> str | None:
        """Return the value, or None."""
        match = CACHE_URL.fullmatch(found)
        return found if match and 0 < int(match["port"]) < 2**16 else None
