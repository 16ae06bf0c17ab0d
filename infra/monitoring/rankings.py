"""Per key, from the log: which keys are contended, and which fail.

A key is no dimension of a metric: each would be a metric of its own, billed by the month.
Contributor Insights reads the workers' log lines instead and ranks what it finds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

Filter = Mapping[str, Any]  # Any: one comparison of a rule, as CloudWatch defines it.

# The fields that every rule ranks by: ids and keys belong to their job.
KEYS: Final = ("$.job", "$.key")
# What the log says of a claim that found its key held, or held back after a failure.
CONTENDED: Final[Filter] = {"Match": "$.reason", "In": ["busy", "cooling"]}
# Why a job failed, for now or for good; not what its message or its wait is to blame for.
FAILED: Final[Filter] = {
    "Match": "$.reason",
    "In": [
        "retry",
        "permanent",
        "quarantined",
        "in_doubt",
        "no_outcome",
        "no_table",
        "result_too_large",
    ],
}


class Rankings(Construct):
    """Contributor Insights rules over log groups whose lines are JSON objects."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        log_groups: Sequence[logs.ILogGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self._log_groups = [group.log_group_name for group in log_groups]
        self.contended = self._rule("ContendedKeys", "contended-keys", CONTENDED)
        self.failing = self._rule("FailingKeys", "failing-keys", FAILED)

    def _rule(self, construct_id: str, name: str, counted: Filter) -> str:
        rule_name = f"{self._name}-{name}"
        cloudwatch.CfnInsightRule(
            self,
            construct_id,
            rule_name=rule_name,
            rule_state="ENABLED",
            rule_body=Stack.of(self).to_json_string(rule_body(self._log_groups, counted)),
        )
        return rule_name


def rule_body(log_groups: Sequence[str], counted: Filter) -> dict[str, Any]:  # Any JSON.
    """Return a rule that counts the lines which match, by job and key."""
    return {
        "Schema": {"Name": "CloudWatchLogRule", "Version": 1},
        "LogGroupNames": list(log_groups),
        "LogFormat": "JSON",
        "Contribution": {"Keys": list(KEYS), "Filters": [dict(counted)]},
        "AggregateOn": "Count",
    }
