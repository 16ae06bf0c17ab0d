"""The shared cache itself."""

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.monitoring.graphs import Row, Segment, graph, heading
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched


def cache(watched: Watched, thresholds: Thresholds) -> Segment:
    """Show the server's own numbers, and how often the workers could not reach it."""
    as_seen = graph(
        "As the workers see it",
        [
            watched.own("SharedErrors", label="failed operations"),
            watched.own("JobsDegraded", label="jobs without it"),
        ],
        unit="a minute",
    )
    text = "Evictions take leases along with values."
    if watched.cache.serverless:
        return [heading("Shared cache", text), *_serverless(watched, as_seen)]
    if watched.cache.nodes:
        return [heading("Shared cache", text), *_nodes(watched, thresholds, as_seen)]
    return [heading("Shared cache"), [as_seen]]


def _nodes(watched: Watched, thresholds: Thresholds, as_seen: cloudwatch.IWidget) -> list[Row]:
    of = watched.of_nodes
    return [
        [
            as_seen,
            graph(
                "CPU of the engine, by node",
                of("EngineCPUUtilization", "Maximum"),
                unit="%",
                most=100,
                limit=thresholds.cpu_percent,
            ),
            graph(
                "Memory, by node",
                of("DatabaseMemoryUsagePercentage", "Maximum"),
                unit="%",
                most=100,
                limit=thresholds.memory_percent,
            ),
        ],
        [
            graph("Evicted keys, by node", of("Evictions", "Sum"), unit="a minute"),
            graph("Connections, by node", of("CurrConnections", "Maximum"), unit="connections"),
            graph("Keys, by node", of("CurrItems", "Maximum"), unit="keys"),
        ],
    ]


def _serverless(watched: Watched, as_seen: cloudwatch.IWidget) -> list[Row]:
    of = watched.of_serverless
    return [
        [
            as_seen,
            graph(
                "Processing units",
                [of("ElastiCacheProcessingUnits", label="units")],
                unit="units a minute",
                right=[of("ThrottledCmds", label="throttled commands")],
                right_unit="commands a minute",
            ),
            graph(
                "Memory",
                [of("BytesUsedForCache", "Maximum", label="used")],
                unit="bytes",
                limit=watched.cache.limit_bytes,
                limit_label="most",
            ),
        ],
        [
            graph("Evicted keys", [of("Evictions", label="evicted")], unit="a minute"),
            graph(
                "Connections", [of("CurrConnections", "Maximum", label="open")], unit="connections"
            ),
            graph(
                "Requests",
                [
                    of("SuccessfulReadRequestLatency", "Average", label="reads"),
                    of("SuccessfulWriteRequestLatency", "Average", label="writes"),
                ],
                unit="µs",
            ),
        ],
    ]
