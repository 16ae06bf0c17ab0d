"""Poison messages: records that cannot be done, and records that take others along."""

from infra.monitoring.formulae import percent
from infra.monitoring.incident import Incident, Window
from infra.monitoring.segments.queue import VISIBLE
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def poison_messages(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know them by dead letters, by retries, and by invocations that die."""
    window = Window(thresholds)
    dead_letters = watched.of_queue(VISIBLE, "Maximum", queue=watched.dead_letters)
    terms = {"retried": watched.own("JobsRetried"), "records": watched.own("Records")}
    symptoms = [
        window.at_once(
            "dead-letters",
            # Not what was sent there: what the queue moves by itself is not in that count.
            dead_letters,
            meaning="Jobs ended as dead letters: they failed for good, or waited too long.",
            first="Read their reasons: each dead letter says why, in its attributes.",
        ),
        window.lasting(
            "retries",
            percent(
                terms,
                part=("retried",),
                whole=("records",),
                least=thresholds.least,
                label="retries of 100 records",
            ),
            thresholds.retries_percent,
            meaning="Many bodies fail and are tried again.",
            first="Rank the failing keys: few are poison, all are a dependency that is down.",
        ),
        window.lasting(
            "errors",
            watched.of_worker("Errors"),
            thresholds.errors,
            meaning="Invocations of the worker die: of a time-out, of memory, of a crash.",
            first="Read the last lines of a log stream that ends with one.",
        ),
    ]
    if watched.undelivered:
        undelivered = watched.of_queue(VISIBLE, "Maximum", queue=watched.undelivered)
        symptoms.append(
            window.at_once(
                "undelivered",
                undelivered,
                meaning="An event was not handled: an invalidation, or a look for leaks.",
                first="Read it: it holds the event and the error.",
            )
        )
    return Incident(
        name="poison-messages",
        meaning="Records fail again and again, or for good.",
        first="Rank the failing keys, and read the reasons of the dead letters.",
        harmful=True,
        symptoms=symptoms,
    )
