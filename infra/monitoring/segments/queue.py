"""The queue, its dead letters, and events that could not be delivered."""

from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.watched import Watched

VISIBLE = "ApproximateNumberOfMessagesVisible"


def queue(watched: Watched) -> Segment:
    """Show what goes in and out, and what waits for a person."""
    waiting = [
        watched.of_queue(VISIBLE, "Maximum", queue=watched.dead_letters, label="dead letters")
    ]
    if watched.undelivered:
        waiting.append(
            watched.of_queue(VISIBLE, "Maximum", queue=watched.undelivered, label="events")
        )
    return [
        heading("Queue"),
        [
            graph(
                "In and out",
                [
                    watched.of_queue("NumberOfMessagesSent", label="sent"),
                    watched.of_queue("NumberOfMessagesReceived", label="received"),
                    watched.of_queue("NumberOfMessagesDeleted", label="deleted"),
                ],
                unit="messages a minute",
            ),
            graph(
                "Given back",
                [
                    watched.own("JobsDeferred", label="deferred"),
                    watched.own("JobsReturned", label="returned"),
                    watched.own("JobsDeadLettered", label="dead letters"),
                ],
                unit="messages a minute",
            ),
            graph("Waiting for a person", waiting, unit="messages"),
        ],
    ]
