"""The messages of a run: a real mix of jobs, among them duplicates and bad ones, from a seed."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Final

NAMES: Final = ("x", "y", "z")
"""What loaders read; each name's source is a number in a file."""
ACCOUNTS: Final = 3
_KEYS: Final = 6
_BURST: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One message: its job, and whether that job has to succeed."""

    name: str
    id: str
    payload: dict[str, Any]  # Any: JSON
    succeeds: bool = True

    @property
    def body(self) -> str:
        """Write the message."""
        return json.dumps(
            {"sekali": 1, "id": self.id, "name": self.name, "payload": self.payload},
            sort_keys=True,
        )


class Plan:
    """Messages without end; `burst` answers the next few, of which some were sent before."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._number = 0
        self.sent: list[Planned] = []

    def burst(self) -> list[Planned]:
        """Answer the next messages, and keep them."""
        messages = [self._next() for _ in range(_BURST)]
        messages += self._rng.sample(messages, 3)
        if self.sent:
            messages += self._rng.choices(self.sent[-100:], k=2)
        self._rng.shuffle(messages)
        self.sent += messages
        return messages

    def _next(self) -> Planned:
        self._number += 1
        rng = self._rng
        job_id = f"{self._number}"
        seconds = rng.choice([0.0, 0.02, 0.05, 0.1, 0.3])
        match rng.choices(
            ["effect", "patient", "computed", "ledger", "nested", "flaky", "broken", "hang"],
            weights=[30, 15, 25, 15, 12, 4, 2, 0.3],
        )[0]:
            case "computed":
                payload = {"key": f"k{rng.randrange(_KEYS)}-{self._number // 60}"}
                return Planned(name="computed", id=job_id, payload={**payload, "seconds": seconds})
            case "ledger":
                account = f"account-{rng.randrange(ACCOUNTS)}"
                payload = {"account": account}
                return Planned(name="ledger", id=job_id, payload={**payload, "seconds": 0.02})
            case "nested":
                outer, inner = rng.sample(NAMES, 2)
                payload = {"outer": outer, "inner": inner}
                return Planned(name="nested", id=job_id, payload={**payload, "seconds": 0.1})
            case "flaky":
                return Planned(name="flaky", id=job_id, payload={"succeeds_at": rng.choice([2, 3])})
            case "broken":
                return Planned(name="broken", id=job_id, payload={}, succeeds=False)
            case "hang":
                return Planned(name="hang", id=job_id, payload={})
            case name:
                return Planned(name=name, id=job_id, payload={"seconds": seconds})
