"""How fast CloudWatch's clock runs here."""

from dataclasses import dataclass
from typing import Final

MINUTE: Final = 60
_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One of CloudWatch's minutes takes `minute_seconds` of this machine's.

    An alarm of three periods of five minutes rings within a test that way. What a metric *says* is
    not touched: a duration of 20 ms and an age of 3 s stay what they are, and `PERIOD` and `RATE`
    reckon in real seconds, so that a rate per second is one.
    """

    minute_seconds: float = float(MINUTE)

    def __post_init__(self) -> None:
        if not 0 < self.minute_seconds <= _DAY_SECONDS:
            raise ValueError(f"a minute takes between 0 and a day, got {self.minute_seconds!r}")

    @property
    def factor(self) -> float:
        """How many of CloudWatch's seconds pass in one of ours."""
        return MINUTE / self.minute_seconds

    def cloud(self, unix_seconds: float) -> float:
        """Turn a time of this machine into CloudWatch's."""
        return unix_seconds * self.factor

    def unix(self, cloud_seconds: float) -> float:
        """Turn one of CloudWatch's times, or a length, into this machine's."""
        return cloud_seconds / self.factor
