"""Say how long a value lives, and when somebody should refresh it.

    0 ─────────────── soft ─────────────── ttl ─────────────── ttl + stale_if_error
      a hit             a hit; one caller    a miss; served only
                        of the fleet         if its loader fails
                        refreshes

Every TTL follows one rule: None is the default, 0 does not store, negative is an error. A hard TTL
is shortened at random by up to a tenth when the value is stored, so that what was filled together
ends apart.

Refreshing starts early, by chance: a value that took `load_seconds` to compute is due before its
end by `load_seconds` × an exponential of mean 1 (Vattani, Chierichetti, Lowenstein: Optimal
probabilistic cache stampede prevention, 2015). The chance is drawn once for each copy, when it
enters the local tier, because a draw at each hit would cost more than the hit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from sekali.errors import SettingInvalid
from sekali.light_dataclass import dataclass

T = TypeVar("T")

Uniform = Callable[[float, float], float]

DEFAULT_TTL_SECONDS: Final = 300.0
LONGEST_TTL_SECONDS: Final = 14 * 86_400.0
"""No value outlives the mark of its tags, which is kept an hour longer than this."""
TTL_JITTER: Final = 0.1
QUIET_SECONDS: Final = 1.0
"""After a failed or refused refresh, nobody of this container tries again for this long; after a
failed one nobody of the fleet does, where a stale value is allowed."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """Let a loader decide, from the value, how long it lives and which tags it carries.

    ```python
    def exchange_rate():
        rate = fetch()
        return Loaded(rate.value, ttl_seconds=rate.expires_in, tags=[f"currency:{rate.base}"])
    ```

    What is None stays as the call said; `tags` come on top of the call's own.
    """

    value: T
    ttl_seconds: float | None = None
    soft_ttl_seconds: float | None = None
    stale_if_error_seconds: float | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Hold the lengths of one call; `checked` is the way to make one."""

    ttl_seconds: float = DEFAULT_TTL_SECONDS
    soft_seconds: float | None = None
    stale_seconds: float = 0.0
    negative_seconds: float | None = None
    local_seconds: float | None = None

    @classmethod
    def checked(
        cls,
        *,
        ttl_seconds: float | None = None,
        soft_ttl_seconds: float | None = None,
        stale_if_error_seconds: float | None = None,
        negative_ttl_seconds: float | None = None,
        local_ttl_seconds: float | None = None,
    ) -> Lifetime:
        """Return the lengths, None replaced by its default.

        Raises:
            SettingInvalid: one is negative, no number, or longer than 14 days.
        """
        lengths = (
            ttl_seconds,
            soft_ttl_seconds,
            stale_if_error_seconds,
            negative_ttl_seconds,
            local_ttl_seconds,
        )
        try:
            return _checked(*lengths)
        except TypeError:  # what has no hash is no number either
            return _checked.__wrapped__(*lengths)

    def of(self, loaded: Loaded[Any]) -> Lifetime:  # Any: whatever was loaded
        """Return the lengths of one loaded value: its own, then the negative one, then these."""
        ttl = self.ttl_seconds
        if loaded.ttl_seconds is not None:
            ttl = loaded.ttl_seconds
        elif loaded.value is None and self.negative_seconds is not None:
            ttl = self.negative_seconds
        soft = loaded.soft_ttl_seconds
        stale = loaded.stale_if_error_seconds
        checked = Lifetime.checked(
            ttl_seconds=ttl,
            soft_ttl_seconds=self.soft_seconds if soft is None else soft,
            stale_if_error_seconds=self.stale_seconds if stale is None else stale,
        )
        return replace(checked, local_seconds=self.local_seconds)

    def jittered(self, uniform: Uniform) -> Lifetime:
        """Return the lengths with up to a tenth of the TTL taken off."""
        return replace(self, ttl_seconds=self.ttl_seconds * uniform(1.0 - TTL_JITTER, 1.0))


def fresh_seconds(
    *,
    left_seconds: float,
    age_seconds: float,
    soft_seconds: float | None,
    load_seconds: float,
    uniform: Uniform,
) -> float:
    """Return in how many seconds the value is due for a refresh; 0 or less is now."""
    early = left_seconds
    if load_seconds > 0:
        chance = 1.0 - uniform(0.0, 1.0)
        early = left_seconds + load_seconds * math.log(chance) if chance > 0 else 0.0
    return early if soft_seconds is None else min(early, soft_seconds - age_seconds)


# A program has few kinds of calls and many of each.
@lru_cache(maxsize=512, typed=True)
def _checked(
    ttl: float | None,
    soft: float | None,
    stale: float | None,
    negative: float | None,
    local: float | None,
) -> Lifetime:
    _check("ttl_seconds", ttl)
    _check("soft_ttl_seconds", soft)
    _check("stale_if_error_seconds", stale)
    _check("negative_ttl_seconds", negative)
    _check("local_ttl_seconds", local)
    ttl_seconds = DEFAULT_TTL_SECONDS if ttl is None else float(ttl)
    stale_seconds = stale or 0.0
    _check("ttl_seconds and stale_if_error_seconds together", ttl_seconds + stale_seconds)
    return Lifetime(
        ttl_seconds=ttl_seconds,
        soft_seconds=soft,
        stale_seconds=stale_seconds,
        negative_seconds=negative,
        local_seconds=local,
    )


def _check(name: str, seconds: object) -> None:
    if seconds is None:
        return
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 <= seconds <= LONGEST_TTL_SECONDS
    ):
        rule = f"must be 0 (do not store) or more, at most {LONGEST_TTL_SECONDS:.0f}"
        raise SettingInvalid(name, rule, repr(seconds))
