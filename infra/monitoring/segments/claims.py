"""Who got the right to work, and what became of the others."""

from infra.monitoring.formulae import percent
from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def claims(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show claims and their outcomes."""
    terms = {
        "acquired": watched.own("LeasesAcquired"),
        "contended": watched.own("LeasesContended"),
        "retried": watched.own("JobsRetried"),
        "records": watched.own("Records"),
    }
    return [
        heading("Claims"),
        [
            graph(
                "Claims",
                [
                    watched.own("LeasesAcquired", label="acquired"),
                    watched.own("LeasesContended", label="held by somebody else"),
                ],
                unit="claims a minute",
                right=[
                    percent(
                        terms,
                        part=("contended",),
                        whole=("acquired", "contended"),
                        label="contended, %",
                    )
                ],
                right_unit="%",
            ),
            graph(
                "Where answers came from",
                [
                    watched.own("JobsComputed", label="its own body"),
                    watched.own("JobsServed", label="the value of its key"),
                    watched.own("JobsDuplicate", label="its id was done"),
                    watched.own("JobsDegraded", label="without coordination"),
                ],
                unit="jobs a minute",
                stacked=True,
            ),
            graph(
                "Tried again",
                [
                    percent(
                        terms, part=("retried",), whole=("records",), label="retries of 100 records"
                    )
                ],
                unit="%",
                right=[
                    watched.own("Records", label="records"),
                    watched.own("JobsRetried", label="retried"),
                    watched.own("JobsFailed", label="failed"),
                ],
                right_unit="a minute",
                limit=thresholds.retries_percent,
            ),
        ],
        [
            graph(
                "Time in the queue",
                [watched.own("QueueDelay", one, label=one) for one in ("p50", "p90", "p99")],
                unit="ms",
            ),
            graph(
                "Run time of bodies",
                [watched.own("RunTime", one, label=one) for one in ("p50", "p90", "p99")],
                unit="ms",
            ),
            graph(
                "Waits for another holder that reached their bound",
                [watched.own("LoadTimeouts", label="time-outs")],
                unit="a minute",
            ),
        ],
    ]
