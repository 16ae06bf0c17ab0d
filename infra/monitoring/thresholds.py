"""Where alarms ring, by stage."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is too much, or too little. Counts are per minute, ratios in percent.

    An alarm rings when `breaching` of the last `minutes` minutes were over. A ratio is looked at
    only where there were `least` of its whole in a minute.
    """

    minutes: int
    breaching: int
    least: int
    retries_percent: float
    storage_reads_percent: float
    contention_percent: float
    hits_percent: float
    cold_starts_percent: float
    takeovers: int
    leases_lost: int
    superseded: int
    degraded: int
    shared_errors: int
    errors: int
    throttles: int
    oldest_seconds: int
    duration_percent: float
    memory_percent: float
    cpu_percent: float


THRESHOLDS: Final = {
    # One developer's traffic must reach each alarm, and two minutes of it are enough to see one.
    "dev": Thresholds(
        minutes=3,
        breaching=2,
        least=10,
        retries_percent=20,
        storage_reads_percent=100,
        contention_percent=50,
        hits_percent=30,
        cold_starts_percent=80,
        takeovers=0,
        leases_lost=0,
        superseded=0,
        degraded=0,
        shared_errors=0,
        errors=0,
        throttles=0,
        oldest_seconds=120,
        duration_percent=80,
        memory_percent=80,
        cpu_percent=90,
    ),
    # Containers die every day among thousands: what is ordinary at this size must not wake anybody.
    "prod": Thresholds(
        minutes=5,
        breaching=3,
        least=100,
        retries_percent=5,
        storage_reads_percent=50,
        contention_percent=30,
        hits_percent=50,
        cold_starts_percent=50,
        takeovers=5,
        leases_lost=2,
        superseded=2,
        degraded=0,
        shared_errors=5,
        errors=2,
        throttles=0,
        oldest_seconds=600,
        duration_percent=80,
        memory_percent=75,
        cpu_percent=80,
    ),
}
