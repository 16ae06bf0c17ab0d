"""Degraded mode: the shared cache is away, or has more to do than it can."""

from collections.abc import Iterator

from infra.monitoring.formulae import largest
from infra.monitoring.incident import IGNORE, Incident, Symptom, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

ANSWERS = "See whether the cache answers: its CPU, its connections, the workers' errors."


def degraded_mode(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by what the workers could not do, and by a cache at its limit."""
    window = Window(thresholds)
    return Incident(
        name="degraded-mode",
        meaning="Workers go on without the shared cache, each job by its policy.",
        first=ANSWERS,
        harmful=True,
        symptoms=[
            window.lasting(
                "jobs",
                watched.own("JobsDegraded"),
                thresholds.degraded,
                meaning="Jobs run uncoordinated: one key may be computed by several at once.",
                first=ANSWERS,
            ),
            window.lasting(
                "shared-errors",
                watched.own("SharedErrors"),
                thresholds.shared_errors,
                meaning="Operations on the shared cache fail.",
                first=ANSWERS,
            ),
            *(_pending(watched, window) if watched.recovers else ()),
            *_busy(watched, window),
        ],
    )


def _pending(watched: Watched, window: Window) -> Iterator[Symptom]:
    yield window.at_once(
        "pending",
        watched.own("JobsPending", "Maximum"),
        # The recovery function tells it every few minutes.
        missing=IGNORE,
        meaning="Jobs have waited for the shared cache for more than ten minutes.",
        first="If the cache answers again, look for their messages: only those drive them.",
    )


def _busy(watched: Watched, window: Window) -> Iterator[Symptom]:
    meaning = "The cache has more to do than it can: commands wait or are refused."
    first = "Look for the load that is new; give the cache more until it is found."
    for suffix, nodes in watched.nodes_by_ten():
        # A node refuses nothing: all its commands share one thread, and wait for it.
        yield window.lasting(
            f"busy-nodes{suffix}",
            largest(watched.of_nodes("EngineCPUUtilization", "Maximum", nodes), "CPU"),
            window.thresholds.cpu_percent,
            meaning=meaning,
            first=first,
        )
    if watched.cache.serverless:
        throttled = watched.of_serverless("ThrottledCmds")
        yield window.lasting("throttled-commands", throttled, 0, meaning=meaning, first=first)
