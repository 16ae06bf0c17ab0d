"""Latency, traffic, errors and saturation."""

from infra.monitoring.graphs import HALF, Segment, graph, heading
from infra.monitoring.watched import Watched


def golden_signals(watched: Watched) -> Segment:
    """Show the four signals of the service as a whole."""
    return [
        heading("Golden signals"),
        [
            graph(
                "Latency: from the first sending to the end",
                [
                    watched.own("QueueToFinishLatency", one, label=f"latency {one}")
                    for one in ("p50", "p90", "p99")
                ],
                unit="ms",
                width=HALF,
            ),
            graph(
                "Traffic: what became of each record",
                [
                    watched.own("JobsCompleted", label="completed"),
                    watched.own("JobsDeferred", label="deferred"),
                    watched.own("JobsReturned", label="returned"),
                    watched.own("JobsDeadLettered", label="dead letters"),
                ],
                unit="records a minute",
                width=HALF,
                stacked=True,
            ),
        ],
        [
            graph(
                "Errors",
                [
                    watched.own("JobsFailed", label="failed for good"),
                    watched.own("JobsRetried", label="failed, tried again"),
                    watched.of_worker("Errors", label="invocations that died"),
                    watched.own("SharedErrors", label="shared cache"),
                    watched.own("StoreErrors", label="table and bucket"),
                ],
                unit="a minute",
                width=HALF,
            ),
            graph(
                "Saturation: executions at once",
                [watched.of_worker("ConcurrentExecutions", "Maximum", label="executions")],
                unit="executions",
                width=HALF,
                right=[watched.of_worker("Throttles", label="throttled calls")],
                right_unit="calls a minute",
                limit=watched.reserved_concurrency,
                limit_label="reserved",
            ),
        ],
    ]
