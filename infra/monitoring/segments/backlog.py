"""What waits, for how long already, and for how long still."""

from infra.monitoring.formulae import SECONDS_PER_MINUTE, minutes_to_drain
from infra.monitoring.graphs import Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def backlog(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show the backlog and when it will be gone."""
    waiting = "ApproximateNumberOfMessages"
    return [
        heading("Backlog", "It grows where more is sent than deleted."),
        [
            graph(
                "Messages",
                [
                    watched.of_queue(f"{waiting}Visible", "Maximum", label="waiting"),
                    watched.of_queue(f"{waiting}NotVisible", "Maximum", label="in flight"),
                    watched.of_queue(f"{waiting}Delayed", "Maximum", label="deferred"),
                ],
                unit="messages",
                right=[
                    watched.of_queue("NumberOfMessagesSent", label="sent"),
                    watched.of_queue("NumberOfMessagesDeleted", label="deleted"),
                ],
                right_unit="messages a minute",
            ),
            graph(
                "Time to drain, at the pace of the minute",
                [
                    minutes_to_drain(
                        watched.of_queue(f"{waiting}Visible", "Maximum"),
                        watched.of_queue("NumberOfMessagesDeleted"),
                        most_minutes=watched.retention_seconds // SECONDS_PER_MINUTE,
                        label="minutes",
                    )
                ],
                unit="minutes",
            ),
            graph(
                "Age of the oldest message",
                [watched.of_queue("ApproximateAgeOfOldestMessage", "Maximum", label="oldest")],
                unit="s",
                limit=thresholds.oldest_seconds,
            ),
        ],
    ]
