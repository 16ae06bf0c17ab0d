"""Know when the stack is being deployed, so that what a deployment stirs up wakes nobody.

CloudFormation tells EventBridge of each change of the stack and of its resources. A rule without a
target matches them, EventBridge counts the matches of each rule, and the alarm on that count is in
ALARM for a quarter of an hour after the last one. Nobody has to open or close a window, and one
that a broken pipeline left open closes by itself.

What AWS says of each step:

- CloudFormation sends these two events to the default bus by itself, and delivers them for certain:
  https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/stacks-event-bridge.html
- A rule's matches are `TriggeredRules`, with the one dimension `RuleName` for the default bus, once
  a minute; until the first match there is no metric, hence notBreaching. Metrics come with best
  effort, and that a rule without targets has this one is nowhere said:
  https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-monitoring.html
- Any alarm may suppress a composite one, named by its ARN, with both periods given:
  https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create_Composite_Alarm_Suppression.html

So a metric that never comes suppresses nothing: people are told of what a deployment stirs up, and
never the other way round.
"""

from typing import Final

from aws_cdk import Acknowledgment, Aws, Duration, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from constructs import Construct

MINUTES: Final = 15
"""Containers of the old version live on, and new ones are cold, for about as long."""


def deploying(scope: Construct, construct_id: str, *, name: str) -> cloudwatch.Alarm:
    """Return an alarm that is in ALARM during a deployment of this stack, and just after."""
    rule = events.Rule(
        scope,
        f"{construct_id}Changes",
        description="Changes of this stack; only counted",
        event_pattern=events.EventPattern(
            source=["aws.cloudformation"],
            detail_type=[
                "CloudFormation Resource Status Change",
                "CloudFormation Stack Status Change",
            ],
            detail={"stack-id": [Aws.STACK_ID]},
        ),
    )
    Validations.of(rule).acknowledge(
        Acknowledgment(
            id="Serverless-EventBusDLQ",
            reason="It has no target, so nothing can fail to be delivered.",
        )
    )
    changes = cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="TriggeredRules",
        dimensions_map={"RuleName": rule.rule_name},
        statistic="Sum",
        label="changes of the stack",
        period=Duration.minutes(1),
    )
    return cloudwatch.Alarm(
        scope,
        construct_id,
        alarm_name=name,
        alarm_description="The stack is being deployed. While this rings, nothing else tells"
        " anybody; it ends by itself.",
        metric=changes,
        threshold=0,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=MINUTES,
        datapoints_to_alarm=1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
