"""An incident: what people are told of, and the symptoms that it is known by."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.monitoring.thresholds import Thresholds

NOT_BREACHING = cloudwatch.TreatMissingData.NOT_BREACHING
IGNORE = cloudwatch.TreatMissingData.IGNORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One alarm on a metric: over `threshold` in `breaching` of the last `minutes` minutes.

    `missing` says what a minute without data means. What counts faults has no data while there are
    none, so that all is well then; a report that comes now and then stays true until the next one.
    """

    name: str
    metric: cloudwatch.IMetric
    threshold: float
    meaning: str
    first: str
    minutes: int
    breaching: int
    below: bool = False
    missing: cloudwatch.TreatMissingData = NOT_BREACHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What rings. Its page is docs/operations/<name>.md.

    `harmful` incidents make the service unhealthy: jobs fail, wait, or are less safe than promised.
    The others cost money, and may become one of those.
    """

    name: str
    meaning: str
    first: str
    harmful: bool
    symptoms: Sequence[Symptom]


@dataclass(frozen=True, slots=True)
class Window:
    """Makes symptoms that ring after some of the stage's minutes, or at once."""

    thresholds: Thresholds

    def lasting(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        *,
        meaning: str,
        first: str,
        below: bool = False,
    ) -> Symptom:
        """Ring when it lasts: one bad minute happens."""
        return Symptom(
            name=name,
            metric=metric,
            threshold=threshold,
            meaning=meaning,
            first=first,
            below=below,
            minutes=self.thresholds.minutes,
            breaching=self.thresholds.breaching,
        )

    @staticmethod
    def at_once(
        name: str,
        metric: cloudwatch.IMetric,
        *,
        meaning: str,
        first: str,
        missing: cloudwatch.TreatMissingData = NOT_BREACHING,
    ) -> Symptom:
        """Ring at the first one."""
        return Symptom(
            name=name,
            metric=metric,
            threshold=0,
            meaning=meaning,
            first=first,
            missing=missing,
            minutes=1,
            breaching=1,
        )
