"""Evictions: the shared cache is full, and drops leases along with values."""

from collections.abc import Iterator

from infra.monitoring.formulae import largest
from infra.monitoring.incident import Incident, Symptom, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

FULL = "The cache is full and drops keys: values, and leases along with them."
NEARLY = "The cache is nearly full; what comes next are evictions."
FIRST = "Give it memory, then look for what fills it."


def evictions(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know them by the first one, and by memory that ends."""
    return Incident(
        name="evictions",
        meaning=FULL,
        first=FIRST,
        harmful=True,
        symptoms=[*_nodes(watched, thresholds), *_serverless(watched, thresholds)],
    )


def _nodes(watched: Watched, thresholds: Thresholds) -> Iterator[Symptom]:
    window = Window(thresholds)
    for suffix, nodes in watched.nodes_by_ten():
        evicted = largest(watched.of_nodes("Evictions", "Sum", nodes), "evictions")
        yield window.at_once(f"evicted{suffix}", evicted, meaning=FULL, first=FIRST)
        yield window.lasting(
            f"memory{suffix}",
            largest(watched.of_nodes("DatabaseMemoryUsagePercentage", "Maximum", nodes), "memory"),
            thresholds.memory_percent,
            meaning=NEARLY,
            first=FIRST,
        )


def _serverless(watched: Watched, thresholds: Thresholds) -> Iterator[Symptom]:
    if watched.cache.serverless:
        window = Window(thresholds)
        evicted = watched.of_serverless("Evictions")
        yield window.at_once("evicted", evicted, meaning=FULL, first=FIRST)
        yield window.lasting(
            "memory",
            watched.of_serverless("BytesUsedForCache", "Maximum"),
            watched.cache.limit_bytes * thresholds.memory_percent / 100,
            meaning=NEARLY,
            first=FIRST,
        )
