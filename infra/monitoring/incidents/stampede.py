"""Stampede: many compute at once what one should have."""

from infra.monitoring.formulae import percent
from infra.monitoring.incident import Incident, Window
from infra.monitoring.segments.hit_ratio import HITS, MISSES
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def stampede(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by a hit ratio that is low while many read."""
    terms = {
        "local": watched.own("CacheLocalHits"),
        "shared": watched.own("CacheSharedHits"),
        "stale": watched.own("CacheStaleServed"),
        "misses": watched.own("CacheMisses"),
        "loads": watched.own("CacheLoads"),
    }
    meaning = "Most reads find nothing in either tier, and many compute at once."
    first = "Look for what was invalidated, flushed or expired at one moment."
    return Incident(
        name="stampede",
        meaning=meaning,
        first=first,
        harmful=False,
        symptoms=[
            Window(thresholds).lasting(
                "hit-ratio",
                percent(
                    terms,
                    part=HITS,
                    whole=(*HITS, *MISSES),
                    least=thresholds.least,
                    otherwise=100,
                    label="hit ratio",
                ),
                thresholds.hits_percent,
                below=True,
                meaning=meaning,
                first=first,
            )
        ],
    )
