"""What every function of an app has alike, written once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

ALIAS: Final = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where functions come from and where they run.

    Without a `vpc` they run outside of any network of yours. `subnets` chooses among the VPC's
    subnets.
    """

    code: lambda_.Code
    runtime: lambda_.Runtime
    architecture: lambda_.Architecture
    layers: Sequence[lambda_.ILayerVersion]
    log_retention: logs.RetentionDays
    removal_policy: RemovalPolicy
    snap_start: bool = False
    vpc: ec2.IVpc | None = None
    subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup] | None = None


class PythonFunction(Construct):
    """A function with JSON logs in a group of its own, and traces.

    `target` is what an event source must call: an alias where SnapStart is on, because only a
    published version is restored from a snapshot, else the function.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        surroundings: Surroundings,
        handler: str,
        memory_mib: int,
        timeout_seconds: int,
        environment: Mapping[str, str],
        role: iam.IRole,
        **options: Any,  # Any: further arguments of `lambda_.Function`
    ) -> None:
        super().__init__(scope, construct_id)
        # Explicit, or Lambda makes one that keeps everything for ever.
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            retention=surroundings.log_retention,
            removal_policy=surroundings.removal_policy,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            code=surroundings.code,
            handler=handler,
            runtime=surroundings.runtime,
            architecture=surroundings.architecture,
            layers=surroundings.layers,
            memory_size=memory_mib,
            timeout=Duration.seconds(timeout_seconds),
            environment=dict(environment),
            role=role,
            vpc=surroundings.vpc,
            vpc_subnets=surroundings.subnets,
            security_groups=surroundings.security_groups,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS
            if surroundings.snap_start
            else None,
            **options,
        )
        Validations.of(self.function).acknowledge(
            Acknowledgment(
                id="@aws-cdk/aws-lambda:snapStartRequirePublish",
                reason="What calls it calls the alias below.",
            )
        )
        self.target: lambda_.IFunction = (
            self.function.add_alias(ALIAS) if surroundings.snap_start else self.function
        )
