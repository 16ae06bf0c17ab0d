"""What rings, before anything else."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.monitoring.graphs import HALF, Segment, heading


def health(
    incidents: Sequence[cloudwatch.IAlarm], symptoms: Sequence[cloudwatch.IAlarm]
) -> Segment:
    """Show the incidents by name, and beside them the symptoms that they are made of."""
    return [
        heading(
            "Health",
            "An incident has the name of its page in docs/operations; its symptoms say why.",
        ),
        [
            cloudwatch.AlarmStatusWidget(
                title="Incidents", alarms=list(incidents), width=HALF, height=4
            ),
            cloudwatch.AlarmStatusWidget(
                title="Symptoms",
                alarms=list(symptoms),
                sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
                width=HALF,
                height=4,
            ),
        ],
    ]
