"""Compose the dashboards: one to see in a minute what is wrong, one to see why."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.monitoring.alarms import Alarms
from infra.monitoring.graphs import Segment
from infra.monitoring.rankings import Rankings
from infra.monitoring.segments.backlog import backlog
from infra.monitoring.segments.cache import cache
from infra.monitoring.segments.claims import claims
from infra.monitoring.segments.function import function
from infra.monitoring.segments.golden_signals import golden_signals
from infra.monitoring.segments.health import health
from infra.monitoring.segments.hit_ratio import hit_ratio
from infra.monitoring.segments.job import job
from infra.monitoring.segments.leases import leases
from infra.monitoring.segments.queue import queue
from infra.monitoring.segments.ranked_keys import ranked_keys
from infra.monitoring.segments.savings import savings
from infra.monitoring.segments.storage import storage
from infra.monitoring.segments.table import table
from infra.monitoring.segments.tiers import tiers
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def overview(
    watched: Watched, thresholds: Thresholds, alarms: Alarms, rankings: Rankings
) -> list[Segment]:
    """Return what people look at first."""
    return [
        health([alarms.unhealthy, *alarms.incidents.values()], alarms.symptoms),
        golden_signals(watched),
        backlog(watched, thresholds),
        hit_ratio(watched, thresholds),
        savings(watched),
        ranked_keys(rankings),
    ]


def deep(watched: Watched, thresholds: Thresholds) -> list[Segment]:
    """Return everything there is, part by part, and job by job."""
    return [
        claims(watched, thresholds),
        leases(watched),
        tiers(watched),
        storage(watched, thresholds),
        function(watched, thresholds),
        queue(watched),
        cache(watched, thresholds),
        table(watched),
        *(job(watched, name) for name in watched.jobs),
    ]


def dashboard(scope: Construct, name: str, segments: Sequence[Segment]) -> cloudwatch.Dashboard:
    """Make a dashboard of some segments; its last word is its construct's id."""
    return cloudwatch.Dashboard(
        scope,
        name.rpartition("-")[2].capitalize(),
        dashboard_name=name,
        default_interval=Duration.hours(3),
        # Sums and percentiles of another period would be other numbers than the alarms'.
        period_override=cloudwatch.PeriodOverride.INHERIT,
        widgets=[row for segment in segments for row in segment],
    )
