"""One job: everything that is published with its name."""

from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.watched import Watched

OUTCOMES = (
    "Records",
    "JobsCompleted",
    "JobsComputed",
    "JobsServed",
    "JobsDuplicate",
    "JobsDeferred",
    "JobsRetried",
    "JobsReturned",
    "JobsFailed",
    "JobsDeadLettered",
    "JobsDegraded",
)
TIMES = ("QueueToFinishLatency", "QueueDelay", "RunTime", "LeaseHeldTime")
TIERS = (
    "CacheLocalHits",
    "CacheSharedHits",
    "CacheMisses",
    "CacheUnreadableValues",
)
LEASES = (
    "LeasesAcquired",
    "LeasesContended",
    "LeasesTakenOver",
    "LeasesLost",
    "HoldersSuperseded",
)


def job(watched: Watched, name: str) -> Segment:
    """Show one job of the service."""
    return [
        heading(f"Job {name}"),
        [
            graph(
                "Outcomes",
                [watched.own(one, job=name) for one in OUTCOMES],
                unit="records a minute",
                width=6,
            ),
            graph(
                "Times",
                [watched.own(one, "p90", label=f"{one} p90", job=name) for one in TIMES],
                unit="ms",
                width=6,
            ),
            graph(
                "Values of its keys",
                [watched.own(one, job=name) for one in TIERS],
                unit="reads a minute",
                width=6,
            ),
            graph(
                "Claims and leases",
                [watched.own(one, job=name) for one in LEASES],
                unit="a minute",
                width=6,
            ),
        ],
    ]
