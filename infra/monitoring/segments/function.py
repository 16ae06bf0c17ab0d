"""The worker as Lambda sees it, and what feeds it."""

from infra.monitoring.formulae import percent
from infra.monitoring.graphs import HALF, Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def function(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show invocations, their ends and lengths, and cold starts."""
    terms = {
        "cold": watched.own("ColdStarts"),
        "invocations": watched.of_worker("Invocations"),
    }
    return [
        heading("Function"),
        [
            graph(
                "Invocations",
                [watched.of_worker("Invocations", label="begun")],
                unit="a minute",
                width=HALF,
                right=[
                    watched.of_worker("Errors", label="died"),
                    watched.of_worker("Throttles", label="throttled"),
                ],
                right_unit="a minute",
            ),
            graph(
                "Duration",
                [
                    watched.of_worker("Duration", one, label=one)
                    for one in ("p50", "p99", "Maximum")
                ],
                unit="ms",
                width=HALF,
                limit=watched.slow_ms(thresholds),
            ),
        ],
        [
            graph(
                "Messages of the event source mapping",
                [
                    watched.of_mapping("PolledEventCount", label="polled"),
                    watched.of_mapping("InvokedEventCount", label="handed over"),
                    watched.of_mapping("FailedInvokeEventCount", label="came back"),
                    watched.of_mapping("DeletedEventCount", label="deleted"),
                ],
                unit="a minute",
                width=HALF,
            ),
            graph(
                "Cold starts",
                [
                    percent(
                        terms,
                        part=("cold",),
                        whole=("invocations",),
                        label="of 100 invocations",
                    )
                ],
                unit="%",
                width=HALF,
                right=[watched.own("ColdStarts", label="cold starts")],
                right_unit="a minute",
                limit=thresholds.cold_starts_percent,
            ),
        ],
    ]
