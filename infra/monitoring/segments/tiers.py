"""Both tiers of the cache, and the loads behind them."""

from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.watched import Watched


def tiers(watched: Watched) -> Segment:
    """Show reads and loads, what was not kept, and what was dropped."""
    return [
        heading("Tiers"),
        [
            graph(
                "Reads",
                [
                    watched.own("CacheLocalHits", label="local hits"),
                    watched.own("CacheSharedHits", label="shared hits"),
                    watched.own("CacheStaleServed", label="stale"),
                    watched.own("CacheMisses", label="misses"),
                    watched.own("CacheLoads", label="loads"),
                ],
                unit="a minute",
            ),
            graph(
                "Load time",
                [watched.own("LoadTime", one, label=one) for one in ("p50", "p90", "p99")],
                unit="ms",
            ),
            graph(
                "Not kept, not readable",
                [
                    watched.own("CacheFillsRefused", label="loaded and not kept"),
                    watched.own("CacheUnreadableValues", label="stored and not readable"),
                ],
                unit="values a minute",
            ),
        ],
        [
            graph(
                "Whole local tiers dropped",
                [
                    watched.own("LocalFlushesOpened", label="the log was opened"),
                    watched.own("LocalFlushesGap", label="the log lost the place"),
                    watched.own("LocalFlushesClock", label="the clock was set back"),
                ],
                unit="a minute",
            ),
            graph(
                "Frozen between invocations",
                [watched.own("ThawGap", one, label=one) for one in ("p50", "p99", "Maximum")],
                unit="ms",
            ),
            graph(
                "New containers",
                [watched.own("ColdStarts", label="first invocations")],
                unit="a minute",
            ),
        ],
    ]
