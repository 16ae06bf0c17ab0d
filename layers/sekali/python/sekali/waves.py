"""Cut a batch into waves: what may be claimed together.

A standard queue has no order, so a wave is up to 500 records. On a FIFO queue a record may only be
tried once everything before it in its message group is settled, so a wave is the heads of all
groups; where a head is not settled, the rest of its group goes back in order and the other groups
go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.settling import give_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sekali.items import Item

BEHIND = "behind_its_group"
WAVE_RECORDS = 500
"""Records claimed in one pipeline: bounds the reply, and how long a claim waits for its body."""


def standard_waves(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the items that need a claim, up to 500 at a time."""
    waiting = [item for item in items if item.verdict is None and item.leader is None]
    for start in range(0, len(waiting), WAVE_RECORDS):
        yield waiting[start : start + WAVE_RECORDS]


def fifo_waves(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the heads of all groups, again and again, until every group is settled or stopped."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    while groups:
        heads = [head for name in list(groups) if (head := _head(groups, name)) is not None]
        for start in range(0, len(heads), WAVE_RECORDS):
            yield heads[start : start + WAVE_RECORDS]
        for head in heads:
            head.verdict = head.verdict or give_back("unsettled")


def _head(groups: dict[str, list[Item]], name: str) -> Item | None:
    """Return the first unsettled item of a group; drop the group where it is over or stopped."""
    items = groups[name]
    while items and _is_settled(items[0]):
        items.pop(0)
    if items and items[0].verdict is None:
        # The repeat of an id that is in flight in another group waits for that group.
        return items[0] if items[0].leader is None else None
    for item in items[1:]:
        item.verdict, item.leader = give_back(BEHIND), None
    del groups[name]
    return None


def _is_settled(item: Item) -> bool:
    if item.verdict is None and item.leader is not None:
        item.verdict, item.source = item.leader.verdict, "repeat"
    return item.verdict is not None and item.verdict.fate in {"delete", "dead_letter"}


def group_of(item: Item) -> str:
    """Return the message group of a FIFO record, empty where it has none."""
    return str((item.raw.get("attributes") or {}).get("MessageGroupId", ""))
