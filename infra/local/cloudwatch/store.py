"""Every metric of a run, in bounded memory.

Each metric keeps a ring of slots of ten seconds (CloudWatch's shortest period but one); what is
older than three hours falls out. Times are CloudWatch's seconds.
"""

import math
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from infra.local.cloudwatch.names import MetricName
from infra.local.cloudwatch.pace import MINUTE, Pace
from infra.local.cloudwatch.samples import Samples

SLOT_SECONDS: Final = 10
_KEPT_MINUTES: Final = 180
# CloudWatch has no bound; a run that names metrics without end is a fault worth stopping for.
_MOST_METRICS: Final = 5_000


class TooManyMetrics(RuntimeError):
    """More metrics than any sound run has: something unbounded became a dimension."""

    def __init__(self, name: MetricName) -> None:
        self.name = name
        super().__init__(f"more than {_MOST_METRICS} metrics; the next is {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Datum:
    """Values of one metric at one moment (Unix seconds), with how often each was seen.

    `summary` is a statistic set (count, sum, minimum, maximum) in place of values.
    """

    name: MetricName
    values: tuple[tuple[float, float], ...] = ()
    unit: str = "None"
    at: float
    summary: tuple[float, float, float, float] | None = None


@dataclass(slots=True)
class _Ring:
    slots: deque[tuple[int, Samples]]
    unit: str
    total: float = 0.0

    def samples(self, slot: int) -> Samples:
        if not self.slots or self.slots[-1][0] < slot:
            self.slots.append((slot, Samples()))
            return self.slots[-1][1]
        for at, samples in reversed(self.slots):
            if at == slot:
                return samples
            if at < slot:
                break
        # Late data: put it where it belongs; the ring stays in order.
        merged = sorted([*self.slots, (slot, Samples())], key=lambda entry: entry[0])
        self.slots.clear()
        self.slots.extend(merged)
        return next((samples for at, samples in self.slots if at == slot), Samples())


class MetricStore:
    """The metrics of one run; safe to use from any thread."""

    def __init__(self, pace: Pace | None = None, *, kept_minutes: int = _KEPT_MINUTES) -> None:
        """Keep so many of CloudWatch's minutes."""
        self.pace = pace or Pace()
        self._kept_slots = kept_minutes * MINUTE // SLOT_SECONDS
        self._lock = threading.Lock()
        self._rings: dict[MetricName, _Ring] = {}

    def put(self, data: Iterable[Datum]) -> None:
        """Take in values.

        Raises:
            TooManyMetrics: A dimension has values without end.
        """
        with self._lock:
            for datum in data:
                ring = self._ring(datum)
                samples = ring.samples(self._slot(datum.at))
                for value, count in datum.values:
                    samples.add(value, count)
                    ring.total += value * count
                if datum.summary is not None:
                    count, total, minimum, maximum = datum.summary
                    ring.total += total
                    samples.add_summary(count=count, total=total, minimum=minimum, maximum=maximum)

    def put_one(
        self, name: MetricName, value: float, *, at: float, unit: str = "None", count: float = 1.0
    ) -> None:
        """Take in one value, seen `count` times."""
        self.put([Datum(name=name, values=((value, count),), unit=unit, at=at)])

    def read(
        self,
        name: MetricName,
        *,
        statistic: str,
        period: int,
        start: float,
        end: float,
        unit: str | None = None,
    ) -> dict[int, float]:
        """Answer one value for each period with data that begins in [start, end).

        Periods are counted from `start`, so that whoever asks decides how they are aligned.

        Raises:
            StatisticUnknown: There is no such statistic.
        """
        return {
            at: samples.statistic(statistic)
            for at, samples in self.samples(
                name, period=period, start=start, end=end, unit=unit
            ).items()
        }

    def samples(
        self, name: MetricName, *, period: int, start: float, end: float, unit: str | None = None
    ) -> dict[int, Samples]:
        """Answer the values themselves, by the period that they fall into."""
        with self._lock:
            ring = self._rings.get(name)
            if ring is None or (unit is not None and ring.unit != unit):
                return {}
            parts: dict[int, list[Samples]] = {}
            for slot, samples in ring.slots:
                at = slot * SLOT_SECONDS
                if start <= at < end and samples.count:
                    begin = int(start + (at - start) // period * period)
                    parts.setdefault(begin, []).append(samples)
            return {begin: Samples.of(found) for begin, found in parts.items()}

    def names(self) -> dict[MetricName, str]:
        """Answer every metric that was ever seen, with its unit."""
        with self._lock:
            return {name: ring.unit for name, ring in self._rings.items()}

    def total(self, name: str) -> float:
        """Add up the values that every metric called `name` ever had, each counted once.

        One value may be published under several sets of dimensions; the widest is read, which is
        the one with the fewest.
        """
        with self._lock:
            found = {metric: ring for metric, ring in self._rings.items() if metric.name == name}
            fewest = min((len(name.dimensions) for name in found if name.dimensions), default=0)
            return math.fsum(
                ring.total for metric, ring in found.items() if len(metric.dimensions) == fewest
            )

    def _slot(self, at: float) -> int:
        return int(self.pace.cloud(at) // SLOT_SECONDS)

    def _ring(self, datum: Datum) -> _Ring:
        ring = self._rings.get(datum.name)
        if ring is None:
            if len(self._rings) >= _MOST_METRICS:
                raise TooManyMetrics(datum.name)
            ring = _Ring(slots=deque(maxlen=self._kept_slots), unit=datum.unit)
            self._rings[datum.name] = ring
        return ring
