"""Hold what a server would hold, for the tables to read and write."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sekali.keys import Keyspace

Hash = dict[str, str]
COOLING: Final = "!"
"""The lease of nobody: a key that cools after a failure."""


@dataclass(slots=True)
class Stored:
    """Hold one key: a string, a hash or a sorted set, and the server time at which it ends."""

    value: str | Hash
    ends_ms: int


State = dict[str, Stored]


class Memory:
    """Hold every key. `hits` counts the rows that matched, and what they met."""

    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        self.state: State = {}
        self.hits: Counter[str] = Counter()

    def ends_ms(self, key: bytes) -> int:
        """Return the server time at which a key ends that is there."""
        return self.state[key.decode()].ends_ms

    def hash(self, key: bytes) -> Hash | None:
        stored = self.state.get(key.decode())
        return stored.value if stored is not None and isinstance(stored.value, dict) else None

    def text(self, key: bytes) -> str | None:
        stored = self.state.get(key.decode())
        return stored.value if stored is not None and isinstance(stored.value, str) else None

    def put(self, key: bytes, fields: Hash, ends_ms: int) -> None:
        self.state[key.decode()] = Stored((self.hash(key) or {}) | fields, ends_ms)

    def set(self, key: bytes, value: str, ends_ms: int) -> None:
        self.state[key.decode()] = Stored(value, ends_ms)

    def drop(self, key: bytes) -> None:
        self.state.pop(key.decode(), None)

    def unlist(self, active: bytes, member: bytes) -> None:
        """ZREM: a sorted set without members is no key."""
        members = self.hash(active)
        if members is not None:
            members.pop(member.decode(), None)
            if not members:
                self.drop(active)

    def hit(self, row: str, *met: str) -> None:
        """Count a row, with what the command met there; what is empty says nothing."""
        self.hits[" · ".join([row, *(part for part in met if part)])] += 1


def superseding(record: Hash | None, token: str, fence: int) -> str:
    """Say how the record supersedes a caller with this token and fence: by being newer, or tied."""
    if record is None or token == "":
        return ""
    if int(record["f"]) > fence:
        return "newer"
    return "tied" if int(record["f"]) == fence and record["tk"] != token else ""


def fence_of(value: str) -> int:
    """Read the fence in front of a value; what has none is older than every refusal."""
    head = value[:16]
    return int(head) if head.isdigit() else 0
