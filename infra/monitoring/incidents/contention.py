"""Contention: jobs wait for each other's keys."""

from infra.monitoring.formulae import percent
from infra.monitoring.incident import Incident, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def contention(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by claims that find their key held."""
    terms = {
        "acquired": watched.own("LeasesAcquired"),
        "contended": watched.own("LeasesContended"),
    }
    meaning = "Many claims find their key held: jobs wait for each other."
    first = "Rank the contended keys, and see how long their holders work."
    return Incident(
        name="contention",
        meaning=meaning,
        first=first,
        harmful=False,
        symptoms=[
            Window(thresholds).lasting(
                "claims",
                percent(
                    terms,
                    part=("contended",),
                    whole=("acquired", "contended"),
                    least=thresholds.least,
                    label="contended, of 100 claims",
                ),
                thresholds.contention_percent,
                meaning=meaning,
                first=first,
            )
        ],
    )
