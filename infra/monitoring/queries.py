"""Saved queries of CloudWatch Logs Insights, for what a graph cannot answer."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_logs as logs
from constructs import Construct

QUERIES: Final = {
    "slowest jobs": (
        "fields @timestamp, job, id, key, run_ms, latency_ms, attempt, outcome",
        "filter message = 'record settled' and run_ms > 0",
        "sort run_ms desc",
        "limit 50",
    ),
    "most contended keys": (
        "filter reason in ['busy', 'cooling']",
        "stats count(*) as waits, max(@timestamp) as last by job, key",
        "sort waits desc",
        "limit 50",
    ),
    "history of one job": (
        "fields @timestamp, message, outcome, reason, source, attempt, fence, run_ms, trace_id",
        # Replace the text by the id; each delivery, attempt and copy is one line.
        "filter id = 'REPLACE-WITH-ID'",
        "sort @timestamp asc",
        "limit 1000",
    ),
    "leaks with owner": (
        "filter message = 'lease leaked'",
        "stats count(*) as times, max(age_s) as age_s, max(@timestamp) as last by job, key, owner",
        "sort last desc",
        "limit 100",
    ),
}


def save_queries(scope: Construct, *, folder: str, log_groups: Sequence[logs.ILogGroup]) -> None:
    """Save every query over these log groups, in a folder of the console."""
    for name, lines in QUERIES.items():
        logs.CfnQueryDefinition(
            scope,
            "".join(word.capitalize() for word in name.split()),
            name=f"{folder}/{name}",
            query_string="\n| ".join(lines),
            log_group_names=[group.log_group_name for group in log_groups],
        )
