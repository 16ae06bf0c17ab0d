"""Storage spike: the cache no longer stands before the storage."""

from infra.monitoring.formulae import formula
from infra.monitoring.incident import Incident, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def storage_spike(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by reads of storage beside the records that caused them."""
    reads, records = "FILL(reads, 0) + FILL(loads, 0)", "FILL(records, 0)"
    # Reads for no record at all are a spike as well, so it is they that must be many.
    per_record = f"100 * ({reads}) / IF({records} > 0, {records}, 1)"
    terms = {
        "reads": watched.own("StoreReads"),
        "loads": watched.own("CacheLoads"),
        "records": watched.own("Records"),
    }
    meaning = "Storage is read for most records: of the table, or by loaders behind the cache."
    first = "See whether the hit ratio fell, the cache is away, or old messages came back."
    return Incident(
        name="storage-spike",
        meaning=meaning,
        first=first,
        harmful=False,
        symptoms=[
            Window(thresholds).lasting(
                "reads",
                formula(
                    f"IF({reads} >= {thresholds.least}, {per_record}, 0)",
                    terms,
                    "reads of 100 records",
                ),
                thresholds.storage_reads_percent,
                meaning=meaning,
                first=first,
            )
        ],
    )
