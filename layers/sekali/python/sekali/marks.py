"""Carry the tags of a batch's jobs through its pipelines.

Each tag's mark is read once per pipeline, in front of the claims, however many items carry it; what
an item stores carries the marks that were read before its body began. They are read again beside
the finishes, so that a tag which fell meanwhile keeps the value out of the local tier too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sekali.coherence import Coherence
    from sekali.items import Item
    from sekali.scripts import Command


_NONE: Mapping[str, str] = MappingProxyType({})


class Marks:
    """The marks that one pipeline reads."""

    def __init__(self, coherence: Coherence, items: Iterable[Item]) -> None:
        """Collect the tags of `items`."""
        self._coherence = coherence
        self._tags = list(dict.fromkeys(tag for item in items for tag in item.tags))
        self._marks: dict[str, str] = {}
        self.commands: list[Command] = [coherence.ask_mark(tag)[0] for tag in self._tags]

    def learn(self, replies: Sequence[Any]) -> None:  # Any: replies, as `Shared.flush`
        """Take the replies in, in the order of the commands."""
        for tag, reply in zip(self._tags, replies, strict=True):
            if isinstance(reply, bytes):
                self._marks[tag] = reply.decode()
                self._coherence.learn(tag, self._marks[tag])

    def of(self, item: Item) -> Mapping[str, str] | None:
        """Return the marks of an item's tags, or None where one could not be read."""
        if not item.tags:
            return _NONE
        if any(tag not in self._marks for tag in item.tags):
            return None
        return {tag: self._marks[tag] for tag in item.tags}
