"""Hand over what a single claim needs, to whoever works without a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import Terms
    from sekali.claims import Claims
    from sekali.heartbeat import Heartbeat
    from sekali.shared import Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """What the layer needs of a container: door, claims, their terms, a heartbeat's maker."""

    shared: Shared
    claims: Claims
    terms: Terms
    now: Callable[[], float]
    beating: Callable[[], Heartbeat]
