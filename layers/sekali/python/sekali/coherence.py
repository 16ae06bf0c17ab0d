"""Keep this container's local tier in step with the log, and know each tag's current mark.

    t=0     tail read, cursor at entry 7            what is local is as good as entry 7
    t=1     frozen; elsewhere keys and tags are invalidated: entries 8 to 900
    t=600   thawed; the next flush carries the tail from entry 7 on, inclusive
    t=600   entry 7 is there with its mark          8 to 900 are applied, one by one
            it is not, or too many follow           the whole local tier goes, with the cause

The tail is applied after the values of the same pipeline were stored, since shards answer in any
order: a value that was read before an invalidation does not stay behind it.

The marks of tags come from two places: read in a pipeline, set here. A value is fresh while each
mark that it carries is the current one; where a mark is not known it is asked for. The log makes a
mark unknown, and is not believed which one follows:

    A sets mark 1 of a tag        a value is loaded under it
    B sets mark 2                 which is the current one, and the value is not fresh any more
    B appends, then A does        the last entry says mark 1

Keys that this container appended are not applied to it again: its own tier has followed at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sekali.invalidation import Entry, Log, new_mark
from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sekali.invalidation import Cursor, Tail
    from sekali.keys import Keyspace
    from sekali.local import Local
    from sekali.scripts import Command

MOST_MARKS: Final = 10_000
"""Tags whose mark is remembered; above it all are forgotten, and asked for again."""
MOST_OWN_ENTRIES: Final = 1_000
NO_MARK: Final = ""
"""What a value carries for a tag whose mark could not be read before its load."""


@dataclass(frozen=True, slots=True)
class Glance:
    """Carry one look at the log: the command, the cursor that its reply belongs to, its number."""

    command: Command
    cursor: Cursor | None
    number: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """Hold a mark, and the number of the change that brought it."""

    text: str
    move: int


class Coherence:
    """Follow the log on behalf of one local tier. Safe to use from several threads.

    `glances` counts the looks that were begun, `applied` is the latest of them that was taken in:
    if that one was begun after the invocation, the local tier is as new as the invocation. One that
    another thread had under way by then may have missed what fell just before.
    """

    def __init__(self, keyspace: Keyspace, local: Local) -> None:
        """Start without a place in the log: the first look finds its end."""
        self._log = Log(keyspace)
        self._local = local
        self._cursor: Cursor | None = None
        self._marks: dict[str, _Mark] = {}
        self._moves = 0
        self._forgotten = 0
        self._own: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        self.glances: int = 0
        self.applied: int = 0
        local.vouch = self._may_keep

    # The log.

    def glance(self) -> Glance:
        """Return the command that reads what was invalidated since the last look."""
        with self._lock:
            self.glances += 1
            cursor = self._cursor
            return Glance(self._log.tail(cursor), cursor, self.glances)

    def apply(self, glance: Glance, reply: Any) -> None:  # Any: the client's reply
        """Drop from the local tier what the log names, or everything where it has a gap."""
        if isinstance(reply, Exception):
            self._forget("log_unreadable")
            self._cursor = None
            return
        tail = self._log.read_tail(reply, glance.cursor)
        if tail.gap:
            # The first look too: a value of the same pipeline may be older than the log's end.
            self._forget("log_opened" if glance.cursor is None else "log_gap")
        if tail.names:
            self._follow(tail)
        self._cursor = tail.cursor
        self.applied = max(self.applied, glance.number)

    def _follow(self, tail: Tail) -> None:
        with self._lock:
            own = set(self._own)
        keys, tags = tail.changed(own)
        last = dict(tags)
        several = {tag for tag, mark in tags if mark != last[tag]}
        for tag, mark in last.items():
            known = self._marks.get(tag)
            if known is not None and known.text == mark and tag not in several:
                continue
            with self._lock:
                self._set(tag, NO_MARK, known)
            self._local.drop_tag(tag)
        self._local.drop_many(keys)

    def _forget(self, cause: str) -> None:
        with self._lock:
            self._marks.clear()
            self._moves += 1
            self._forgotten = self._moves
        self._local.flush(cause)

    # Marks of tags.

    def ask_mark(self, tag: str) -> tuple[Command, str]:
        """Return the command that reads a tag's mark, and the mark it sets where there is none."""
        offered = new_mark()
        return self._log.epoch(tag, offered), offered

    def ask_idle(self, tag: str) -> Command:
        """Return the command that tells how long a tag's mark was left alone; ask the mark next."""
        return self._log.epoch_idle(tag)

    def idle_seconds(self, reply: int) -> float:
        """Return for how long at least the mark has been what it is, from the reply to that."""
        return self._log.read_epoch_idle(reply)

    def peek_mark(self, tag: str) -> Command:
        """Return the command that reads a tag's mark and leaves it as it is."""
        return self._log.epoch_peek(tag)

    def learn(self, tag: str, mark: str, *, since: int | None = None) -> None:
        """Take a mark for the current one: what carries another one is not fresh.

        `since` is what `moves` said before the mark was asked for. If the mark has changed by then,
        another thread heard of it in the meantime and nobody knows which of the two is newer: the
        tag is unknown until it is asked for again.
        """
        with self._lock:
            known = self._marks.get(tag)
            if known is not None and known.text == mark:
                return
            if since is not None and since < (known.move if known else self._forgotten):
                mark = NO_MARK
            self._set(tag, mark, known)
        self._local.drop_tag(tag, mark=mark)

    def confirm(self, tag: str, mark: str, *, since: int) -> None:
        """Take a mark that was set by now for the current one, as `learn` does.

        What another thread asked for before this moment, and is still to be told, is not believed:
        it may have been read before the mark was set.
        """
        self.learn(tag, mark, since=since)
        with self._lock:
            known = self._marks.get(tag)
            if known is not None:
                self._set(tag, known.text, known)

    def _set(self, tag: str, mark: str, known: _Mark | None) -> None:
        if len(self._marks) >= MOST_MARKS and known is None:
            self._marks.clear()
            self._forgotten = self._moves
        self._moves += 1
        self._marks[tag] = _Mark(mark, self._moves)

    def moves(self) -> int:
        """Return a number to hand to `mark_since`: this moment, counted in changes of marks."""
        return self._moves

    def mark_since(self, tag: str, moves: int) -> str | None:
        """Return the mark if it is known and has not changed since `moves`, else None."""
        mark = self._marks.get(tag)
        return mark.text if mark is not None and mark.move <= moves else None

    def doubtful(self, epochs: Mapping[str, str]) -> list[str]:
        """Return the tags whose mark has to be asked for before the value is called stale.

        One that is not the mark last seen is doubtful too: it may be newer.
        """
        return [tag for tag, mark in epochs.items() if not self._is_current(tag, mark)]

    def current(self, epochs: Mapping[str, str], *, named: Collection[str] = ()) -> bool:
        """Tell whether a value with these marks is fresh. Missing or unknown is not.

        `named` are the tags that the caller relies on: a value that does not carry one of them
        would not hear of its invalidation.
        """
        if not epochs:
            return not named
        return all(tag in epochs for tag in named) and not self.doubtful(epochs)

    def _may_keep(self, epochs: Mapping[str, str]) -> bool:
        """Tell whether a value with these marks may enter the local tier.

        It would be served without a further look at them. What was loaded without the shared tier
        carries the mark of nobody: the log's next tail names whatever fell in the meantime.
        """
        return all(mark == NO_MARK or self._is_current(tag, mark) for tag, mark in epochs.items())

    def _is_current(self, tag: str, mark: str) -> bool:
        known = self._marks.get(tag)
        return known is not None and known.text == mark

    # Invalidating.

    def tag_commands(self, tags: Sequence[str]) -> tuple[list[Command], list[Entry]]:
        """Return what sets a new mark for each tag, and the log's entries that come after it."""
        entries = [Entry("t", tag, new_mark()) for tag in tags]
        return [self._log.epoch_set(entry.name, entry.mark) for entry in entries], entries

    def append(self, entries: Sequence[Entry]) -> Command:
        """Return what tells the other containers; send it after the keys and marks themselves."""
        with self._lock:
            for entry in entries:
                self._own[entry.mark.encode()] = None
            while len(self._own) > MOST_OWN_ENTRIES:
                self._own.popitem(last=False)
        return self._log.append(entries)

    def replaced(self, scoped_key: str) -> Command:
        """Return the command that tells the others that a key has a newer value."""
        return self._log.append([Entry("r", scoped_key, new_mark())])
