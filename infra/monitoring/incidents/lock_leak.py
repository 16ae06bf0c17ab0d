"""Lock leak: leases that nobody ended, and holders that were too late."""

from collections.abc import Iterator

from infra.monitoring.formulae import total
from infra.monitoring.incident import IGNORE, Incident, Symptom, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

REPORT = "Read the recovery function's report: it names the keys and their owners."


def lock_leak(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by dead holders, by live ones that last too long, and by their late results.

    When it rings the recovery function looks at once, besides every few minutes; what it reports
    stays true until it looks again.
    """
    window = Window(thresholds)
    return Incident(
        name="lock-leak",
        meaning="Holders of leases die, or do not end, or finish after somebody newer.",
        first=REPORT,
        harmful=True,
        symptoms=[
            window.lasting(
                "takeovers",
                watched.own("LeasesTakenOver"),
                thresholds.takeovers,
                meaning="Leases were taken over from holders that died without ending them.",
                first="Find the dead owners in the logs: a time-out, memory, or one bad record.",
            ),
            window.lasting(
                "lost",
                watched.own("LeasesLost"),
                thresholds.leases_lost,
                meaning="Holders lost their leases at work: frozen, cut off, or out of CPU.",
                first="See whether renewals fail (shared errors) or bodies block the heartbeat.",
            ),
            window.lasting(
                "superseded",
                watched.own("HoldersSuperseded"),
                thresholds.superseded,
                meaning="Holders finished after a newer one: work done twice, one result counts.",
                first="Compare the run times with the lease, and look at what else died.",
            ),
            *(_reported(watched, window) if watched.recovers else ()),
        ],
    )


def _reported(watched: Watched, window: Window) -> Iterator[Symptom]:
    yield window.at_once(
        "overdue",
        watched.own("LeasesOverdue", "Maximum"),
        missing=IGNORE,
        meaning="Leases ran out, and nobody has claimed their keys again.",
        first=REPORT,
    )
    endless = {
        "long": watched.own("LeasesLong", "Maximum"),
        "endless": watched.own("LeasesEndless", "Maximum"),
    }
    yield window.at_once(
        "long-holders",
        total(endless, "long holders"),
        missing=IGNORE,
        meaning="A holder renews its lease for far longer than its job usually runs.",
        first=REPORT,
    )
