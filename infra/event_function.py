"""Functions that events call: an object that changed, the clock, an alarm."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import PythonFunction, Surroundings

# An event that nobody could handle for as long is older than the values that it speaks of.
LONGEST_WAIT: Final = Duration.hours(1)


def changed_objects(
    scope: Construct, construct_id: str, *, bucket: s3.IBucket, prefix: str
) -> events.Rule:
    """Choose the events of objects below `prefix` that were written or removed."""
    return events.Rule(
        scope,
        construct_id,
        event_pattern=events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created", "Object Deleted"],
            detail={
                "bucket": {"name": [bucket.bucket_name]},
                "object": {"key": [{"prefix": prefix}]},
            },
        ),
    )


def every(scope: Construct, construct_id: str, *, interval: Duration) -> events.Rule:
    """Choose the strokes of a clock."""
    return events.Rule(scope, construct_id, schedule=events.Schedule.rate(interval))


def rings(scope: Construct, construct_id: str, *, alarm: cloudwatch.IAlarm) -> events.Rule:
    """Choose the moments at which an alarm begins to ring, also while it tells nobody."""
    return events.Rule(
        scope,
        construct_id,
        event_pattern=events.EventPattern(
            source=["aws.cloudwatch"],
            detail_type=["CloudWatch Alarm State Change"],
            resources=[alarm.alarm_arn],
            detail={"state": {"value": ["ALARM"]}},
        ),
    )


class EventFunction(Construct):
    """A function that rules call; what could not be delivered or handled goes to `undelivered`.

    EventBridge and Lambda both retry. An event may come twice, and late: the handler must bear it.
    Grants nothing but the rule's call: sending to `undelivered` is the role's, in the stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        rule: events.Rule,
        surroundings: Surroundings,
        handler: str,
        memory_mib: int,
        timeout_seconds: int,
        environment: Mapping[str, str],
        role: iam.IRole,
        undelivered: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        made = PythonFunction(
            self,
            "Event",
            surroundings=surroundings,
            handler=handler,
            memory_mib=memory_mib,
            timeout_seconds=timeout_seconds,
            environment=environment,
            role=role,
        )
        # On what is called: an alias does not take over what is set on the function.
        made.target.configure_async_invoke(
            on_failure=destinations.SqsDestination(undelivered), max_event_age=LONGEST_WAIT
        )
        Validations.of(made.function).acknowledge(
            Acknowledgment(
                id="Serverless-LambdaDLQ",
                reason="It has a failure destination, which gets the error beside the event.",
            )
        )
        self.function, self.log_group = made.function, made.log_group
        self._target = targets.LambdaFunction(
            made.target, dead_letter_queue=undelivered, max_event_age=LONGEST_WAIT
        )
        self.call_at(rule)

    def call_at(self, rule: events.Rule) -> None:
        """Let a rule call the function, too."""
        rule.add_target(self._target)
