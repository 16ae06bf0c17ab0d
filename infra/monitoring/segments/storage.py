"""What is read from and written to storage, as the workers see it."""

from infra.monitoring.formulae import percent
from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def storage(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show reads of storage, for themselves and beside the records that caused them."""
    terms = {
        "reads": watched.own("StoreReads"),
        "loads": watched.own("CacheLoads"),
        "records": watched.own("Records"),
    }
    return [
        heading("Storage", "Loads are reads of whatever is behind the cache."),
        [
            graph(
                "Reads",
                [
                    watched.own("StoreReads", label="of the table"),
                    watched.own("CacheLoads", label="by loaders"),
                ],
                unit="a minute",
                stacked=True,
            ),
            graph(
                "Reads of 100 records",
                [percent(terms, part=("reads", "loads"), whole=("records",), label="reads")],
                unit="reads",
                limit=thresholds.storage_reads_percent,
            ),
            graph(
                "Writes",
                [watched.own("StoreWrites", label="outcomes recorded")],
                unit="a minute",
                right=[watched.own("StoreErrors", label="refused or unanswered calls")],
                right_unit="a minute",
            ),
        ],
    ]
