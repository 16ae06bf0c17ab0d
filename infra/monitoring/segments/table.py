"""The table of results as DynamoDB sees it."""

from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.watched import Watched

OPERATIONS = ("PutItem", "UpdateItem", "BatchGetItem")


def table(watched: Watched) -> Segment:
    """Show what the table is asked, how fast it answers, and what it refuses."""
    return [
        heading("Table"),
        [
            graph(
                "Consumed capacity",
                [
                    watched.of_table("ConsumedReadCapacityUnits", label="reads"),
                    watched.of_table("ConsumedWriteCapacityUnits", label="writes"),
                ],
                unit="units a minute",
            ),
            graph(
                "Latency",
                [
                    watched.of_table(
                        "SuccessfulRequestLatency", "p99", operation=one, label=f"{one} p99"
                    )
                    for one in OPERATIONS
                ],
                unit="ms",
            ),
            graph(
                "Refused",
                [
                    watched.of_table("ReadThrottleEvents", label="throttled reads"),
                    watched.of_table("WriteThrottleEvents", label="throttled writes"),
                    watched.of_table(
                        "ConditionalCheckFailedRequests", label="later than another's write"
                    ),
                ],
                unit="requests a minute",
            ),
        ],
    ]
