"""Tell containers, however long they were frozen, what was invalidated meanwhile.

The log is one stream with a random mark in each entry. A container keeps the last entry that it
applied and, at its next flush, reads from that entry on, inclusive. If the entry comes back with
its mark, everything after it is what the container has missed. If not, the log was trimmed, flushed
or failed over, and nothing is known: the local tier is emptied. Ids alone cannot show this, because
a new log can reach the same id again.

A tag's epoch is a random mark too, never a counter, for the same reason: a counter that restarts
makes an old value valid again. A value carries the marks read before its load began and is fresh
only while each is the current one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sekali.light_dataclass import dataclass
from sekali.scripts import EPOCH, LOG_APPEND, LOG_END, Command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from sekali.keys import Keyspace

MOST_MISSED_ENTRIES: Final = 10_000
"""Above this many entries emptying the local tier is cheaper than applying them."""

# Nobody reads back further than the bound above; the server trims in steps of a hundred.
_KEPT_ENTRIES: Final = MOST_MISSED_ENTRIES + 1_000
_LOG_TTL_MS: Final = 7 * 86_400_000
# The longest hard TTL of any value is 14 days, and an hour.
_EPOCH_TTL_MS: Final = 14 * 86_400_000 + 3_600_000
"""What is left of it tells when a mark was last set or read (`epoch_idle`): a deployment with a
shorter one would take marks of the other for older than they are."""


def new_mark() -> str:
    """Mint the random mark of an entry or of a tag's epoch."""
    return os.urandom(8).hex()


class Entry(NamedTuple):
    """Name one thing that changed: a key (`k`), a tag (`t`), a key with a newer value (`r`).

    A key is named by its scoped text, `<job name>/<key>`.
    """

    kind: str
    name: str
    mark: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """Remember the last entry that was applied: where it stood, and its mark."""

    id: str
    mark: str


@dataclass(frozen=True, slots=True)
class Tail:
    """Hold what was missed, oldest first and column by column, and where to read on.

    With `gap` it is not known what was missed: empty the local tier. Columns, because an object for
    each of ten thousand entries takes longer than all the rest of a thaw.
    """

    cursor: Cursor | None
    gap: bool
    kinds: Sequence[bytes] = ()
    names: Sequence[bytes] = ()
    marks: Sequence[bytes] = ()

    def changed(self, own: AbstractSet[bytes]) -> tuple[set[str], list[tuple[str, str]]]:
        """Return the keys that changed, and the tags with their new marks, in order.

        Keys under one of the marks in `own` are left out, and so is the entry that opened the log,
        which names nothing. Tags are not: one's own mark may be newer than another's before it.
        """
        rows = zip(self.kinds, self.names, self.marks, strict=True)
        tags = [(name.decode(), mark.decode()) for kind, name, mark in rows if kind == b"t"]
        if not tags and (not own or own.isdisjoint(self.marks)):
            return set(map(bytes.decode, self.names)), tags
        rows = zip(self.kinds, self.names, self.marks, strict=True)
        keys = {name.decode() for kind, name, mark in rows if kind != b"t" and mark not in own}
        return keys, tags


@dataclass(frozen=True, slots=True)
class Log:
    """Build the commands of the log and of tag epochs, and read the log's replies.

    A reader starts with the cursor None and keeps the one that each answer gives it.
    """

    keyspace: Keyspace

    def append(self, entries: Sequence[Entry]) -> Command:
        """Return the command that appends the entries; send it after the keys themselves.

        Raises:
            ValueError: There is nothing to append.
        """
        if not entries:
            raise ValueError("an append needs at least one entry")
        fields = [part for entry in entries for part in (entry.kind, entry.name, entry.mark)]
        return Command.run(LOG_APPEND, (self.keyspace.log,), (_KEPT_ENTRIES, _LOG_TTL_MS, *fields))

    def tail(self, cursor: Cursor | None) -> Command:
        """Return the command that reads on from the cursor, or finds the end of the log."""
        if cursor is None:
            return Command.run(LOG_END, (self.keyspace.log,), (_LOG_TTL_MS, new_mark()))
        # The cursor's own entry, as many as are applied, and one that shows there are more.
        count = 1 + MOST_MISSED_ENTRIES + 1
        # No script: ten thousand entries take three times as long through one, or more
        # (tests/benchmarks, "library: choices").
        return Command(("XRANGE", self.keyspace.log, cursor.id, "+", "COUNT", count))

    def read_tail(self, reply: Sequence[Any], cursor: Cursor | None) -> Tail:  # Any: the client's
        """Read the reply to `tail(cursor)`.

        It is a gap if there was no cursor, if the cursor's entry is not there with its mark, or if
        more than `MOST_MISSED_ENTRIES` follow it.
        """
        if cursor is None:
            entry_id, mark = reply
            return Tail(Cursor(entry_id.decode(), mark.decode()), gap=True)
        if not reply:
            return Tail(None, gap=True)
        first, newest = _cursor(reply[0]), _cursor(reply[-1])
        if first != cursor or len(reply) - 1 > MOST_MISSED_ENTRIES:
            return Tail(newest, gap=True)
        if len(reply) == 1:
            return Tail(newest, gap=False)
        kinds, names, marks = zip(*[_fields(entry) for entry in reply[1:]], strict=True)
        return Tail(newest, gap=False, kinds=kinds, names=names, marks=marks)

    def epoch(self, tag: str, mark: str) -> Command:
        """Return the command that reads the tag's mark, setting `mark` where there is none."""
        return Command.run(EPOCH, (self.keyspace.epoch(tag),), (mark, _EPOCH_TTL_MS))

    def epoch_idle(self, tag: str) -> Command:
        """Return the command that tells how long ago the mark was set or read; send it before."""
        return Command(("PTTL", self.keyspace.epoch(tag)))

    def read_epoch_idle(self, reply: int) -> float:
        """Return the seconds since the mark was last set or read; 0 where there is none.

        Set and read alike give it its whole TTL, so that what is gone of that is the time since.
        """
        return (_EPOCH_TTL_MS - reply) / 1000 if reply > 0 else 0.0

    def epoch_peek(self, tag: str) -> Command:
        """Return the command that reads the tag's mark, and changes nothing."""
        return Command(("GET", self.keyspace.epoch(tag)))

    def epoch_set(self, tag: str, mark: str) -> Command:
        """Return the command that invalidates what carries the tag; its log entry comes after."""
        return Command(("SET", self.keyspace.epoch(tag), mark, "PX", _EPOCH_TTL_MS))


def _fields(entry: Sequence[Any]) -> Sequence[bytes]:  # Any: as the client hands it over
    """Return kind, name and mark of one entry of the stream.

    They come as they were sent, in a list; the pipelines of the client make a mapping of them.
    """
    fields = entry[1]
    return tuple(fields.values()) if isinstance(fields, dict) else fields[1::2]


def _cursor(entry: Sequence[Any]) -> Cursor:  # Any: as the client hands it over
    return Cursor(entry[0].decode(), _fields(entry)[2].decode())
