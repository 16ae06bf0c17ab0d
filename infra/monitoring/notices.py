"""Where alarms tell people: one topic, encrypted with a key that CloudWatch may use."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


class Notices(Construct):
    """The topic that every incident is published to; whoever wants to know subscribes to it.

    The key of SNS itself (`alias/aws/sns`) would not do: its policy cannot be changed, and does not
    let CloudWatch publish; the alarm would ring and nobody would hear it.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        key = kms.Key(
            self,
            "Key",
            description="Sekali: notices of alarms",
            enable_key_rotation=True,
            # A notice is encrypted for the seconds until it is delivered.
            removal_policy=RemovalPolicy.DESTROY,
        )
        cloudwatch = iam.ServicePrincipal("cloudwatch.amazonaws.com")
        of_this_account = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="LetAlarmsEncrypt",
                principals=[cloudwatch],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
                conditions=of_this_account,
            )
        )
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="LetAlarmsPublish",
                principals=[cloudwatch],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=of_this_account,
            )
        )
