"""Cold-start storm: most invocations meet a new container."""

from infra.monitoring.formulae import percent
from infra.monitoring.incident import Incident, Window
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def cold_start_storm(watched: Watched, thresholds: Thresholds) -> Incident:
    """Know it by the share of invocations that are a container's first."""
    terms = {"cold": watched.own("ColdStarts"), "invocations": watched.of_worker("Invocations")}
    meaning = "Most invocations meet a new container: local tiers are empty, starts are slow."
    first = "See whether containers die (errors) or the load jumped (messages sent)."
    return Incident(
        name="cold-start-storm",
        meaning=meaning,
        first=first,
        harmful=False,
        symptoms=[
            Window(thresholds).lasting(
                "containers",
                percent(
                    terms,
                    part=("cold",),
                    whole=("invocations",),
                    least=thresholds.least,
                    label="cold starts of 100 invocations",
                ),
                thresholds.cold_starts_percent,
                meaning=meaning,
                first=first,
            )
        ],
    )
