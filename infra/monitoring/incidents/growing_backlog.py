"""Growing backlog: more comes in than is worked off."""

from infra.monitoring.incident import Incident, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def growing_backlog(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by the oldest message, and by what keeps the worker from its pace."""
    window = Window(thresholds)
    return Incident(
        name="growing-backlog",
        meaning="More comes in than is worked off, and messages wait for too long.",
        first="Compare what is sent with what is deleted, and look for throttles and errors.",
        harmful=True,
        symptoms=[
            window.lasting(
                "oldest-message",
                # Poison is not in it: a message that was received three times is left out.
                watched.of_queue("ApproximateAgeOfOldestMessage", "Maximum"),
                thresholds.oldest_seconds,
                meaning="The oldest message waits for too long.",
                first="Compare what is sent with what is deleted.",
            ),
            window.lasting(
                "throttles",
                watched.of_worker("Throttles"),
                thresholds.throttles,
                meaning="Lambda refuses to start the worker; each refusal spends a receive.",
                first="Compare the executions with what is reserved and the account's limit.",
            ),
            window.lasting(
                "duration",
                watched.of_worker("Duration", "p99"),
                watched.slow_ms(thresholds),
                meaning="Invocations come near the time-out; what is cut off is done again.",
                first="See which job runs longer than it did, and what it waits for.",
            ),
        ],
    )
