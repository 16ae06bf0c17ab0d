"""Who holds what for how long, and who died with it."""

from infra.monitoring.graphs import HALF, Row, Segment, graph, heading
from infra.monitoring.watched import Watched


def leases(watched: Watched) -> Segment:
    """Show the lives of leases, and those that did not end."""
    return [
        heading(
            "Leases",
            "Takeovers are dead holders; what is lost or superseded is a holder that was too late.",
        ),
        [
            graph(
                "Ends that nobody wanted",
                [
                    watched.own("LeasesTakenOver", label="taken over from the dead"),
                    watched.own("LeasesLost", label="lost by a holder"),
                    watched.own("HoldersSuperseded", label="superseded results"),
                ],
                unit="a minute",
                width=HALF,
            ),
            graph(
                "Held for",
                [watched.own("LeaseHeldTime", one, label=one) for one in ("p50", "p99", "Maximum")],
                unit="ms",
                width=HALF,
            ),
        ],
        *([_found(watched)] if watched.recovers else ()),
    ]


def _found(watched: Watched) -> Row:
    return [
        graph(
            "Found by the recovery function",
            [
                watched.own("LeasesOverdue", "Maximum", label="overdue"),
                watched.own("LeasesLong", "Maximum", label="long"),
                watched.own("LeasesEndless", "Maximum", label="endless"),
            ],
            unit="leases",
            width=HALF,
            right=[
                watched.own("LeasesLive", "Maximum", label="live"),
                watched.own("LeasesRevoked", label="revoked"),
            ],
            right_unit="leases",
        ),
        graph(
            "Jobs that wait for the shared cache",
            [watched.own("JobsPending", "Maximum", label="pending for too long")],
            unit="jobs",
            width=HALF,
        ),
    ]
