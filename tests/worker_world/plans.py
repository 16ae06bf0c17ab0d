"""Choose faults at random, from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from tests.worker_world.faults import Fault, Point

Trouble = tuple["Fault", Literal["once", "for a while"]]
"""A fault, and whether repeats meet it too."""

_FLUSH: Final[Sequence[Trouble]] = (
    ("lost", "once"),
    ("half", "once"),
    ("refused", "once"),
    ("die_before", "once"),
    ("die_after", "once"),
    ("stop", "once"),
    ("stop_after", "once"),
    ("down", "for a while"),
    ("lost", "for a while"),
)
TROUBLES: Final[Mapping[Point, Sequence[Trouble]]] = {
    "claim": _FLUSH,
    "renew": _FLUSH,
    "finish": _FLUSH,
    "ask": (("down", "once"), ("die_before", "once"), ("stop", "once")),
    "record": _FLUSH,
    "send": (*_FLUSH[:6], ("down", "for a while")),
    "body": (("die_before", "once"), ("stop", "once")),
}
"""What may go wrong at each boundary."""

LONGEST_OUTAGE: Final = 40


class Chance:
    """Let each crossing of a boundary go wrong with one probability, while it is switched on.

    Of the faults of a boundary the one that was `met` least comes next, so that none is left out.
    """

    def __init__(
        self, chance: random.Random, *, rate: float, met: Counter[tuple[Point, Trouble]]
    ) -> None:
        self._chance = chance
        self._rate = rate
        self._outages: dict[Point, tuple[Fault, int]] = {}
        self.on = True
        self.met = met

    def at(self, point: Point) -> Fault:
        """Return what goes wrong now."""
        if not self.on or point not in TROUBLES:
            return ""
        lasting, left = self._outages.get(point, ("", 0))
        if left:
            self._outages[point] = (lasting, left - 1)
            return lasting
        if self._chance.random() >= self._rate:
            return ""
        chosen = min(TROUBLES[point], key=lambda one: (self.met[point, one], self._chance.random()))
        self.met[point, chosen] += 1
        fault, how_long = chosen
        if how_long == "for a while":
            self._outages[point] = (fault, self._chance.randint(1, LONGEST_OUTAGE))
        return fault
