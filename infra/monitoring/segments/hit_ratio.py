"""How often an answer was there already."""

from infra.monitoring.formulae import percent
from infra.monitoring.graphs import HALF, Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

HITS = ("local", "shared", "stale")
MISSES = ("misses", "loads")


def hit_ratio(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show the share of reads that no loader and no body had to answer."""
    terms = {
        "local": watched.own("CacheLocalHits"),
        "shared": watched.own("CacheSharedHits"),
        "stale": watched.own("CacheStaleServed"),
        "misses": watched.own("CacheMisses"),
        "loads": watched.own("CacheLoads"),
    }
    return [
        heading("Cache", "A ratio that falls while loads rise is a stampede."),
        [
            graph(
                "Hit ratio",
                [
                    percent(terms, part=HITS, whole=(*HITS, *MISSES), label="hits", otherwise=100),
                    percent(terms, part=("local",), whole=(*HITS, *MISSES), label="of them, local"),
                ],
                unit="%",
                most=100,
                width=HALF,
                limit=thresholds.hits_percent,
                limit_label="rings below",
            ),
            graph(
                "Who answered",
                [
                    watched.own("CacheLocalHits", label="local tier"),
                    watched.own("CacheSharedHits", label="shared tier"),
                    watched.own("CacheStaleServed", label="a stale value"),
                    watched.own("CacheLoads", label="a loader"),
                    watched.own("CacheMisses", label="a body"),
                ],
                unit="reads a minute",
                width=HALF,
                stacked=True,
            ),
        ],
    ]
