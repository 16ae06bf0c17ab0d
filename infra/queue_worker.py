"""A Lambda worker and its queue, whose numbers cannot be combined wrongly."""

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.queue_numbers import DEAD_LETTER_RETENTION_SECONDS, QueueNumbers


class QueueWorker(Construct):
    """A function, the queue it works off, that queue's dead letters, and the mapping between.

    Grants nothing: whoever composes it writes the role's statements (receive, delete and read the
    attributes of `queue` for the mapping; what the worker's own code does beside that).

    Not guaranteed: that the account has `max_concurrency` executions to give; only
    `reserved_concurrency` sets them aside.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        numbers: QueueNumbers,
        code: lambda_.Code,
        handler: str,
        runtime: lambda_.Runtime,
        architecture: lambda_.Architecture,
        layers: Sequence[lambda_.ILayerVersion],
        memory_mib: int,
        environment: Mapping[str, str],
        role: iam.IRole,
        vpc: ec2.IVpc,
        security_group: ec2.ISecurityGroup,
        log_retention: logs.RetentionDays,
        removal_policy: RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters, self.queue = self._queues(numbers)
        # Explicit, or Lambda makes one that keeps everything for ever.
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=removal_policy
        )
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            handler=handler,
            runtime=runtime,
            architecture=architecture,
            layers=layers,
            memory_size=memory_mib,
            timeout=Duration.seconds(numbers.timeout_seconds),
            reserved_concurrent_executions=numbers.reserved_concurrency,
            environment={**environment, **self._environment(numbers)},
            role=role,
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=[security_group],
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE,
            # A delayed copy goes to the queue that invoked us. Lambda would take the sixteenth for
            # a runaway loop and stop it; ours ends at the message's maximum age.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=self.queue.queue_arn,
            batch_size=numbers.batch_size,
            # SQS refuses the property on FIFO, even 0.
            max_batching_window=None
            if numbers.fifo
            else Duration.seconds(numbers.batching_window_seconds),
            max_concurrency=numbers.max_concurrency,
            # Without it Lambda deletes the messages that the worker returned as failed.
            report_batch_item_failures=True,
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )

    def _queues(self, numbers: QueueNumbers) -> tuple[sqs.Queue, sqs.Queue]:
        # Each queue names the other, which CloudFormation cannot resolve; so the source has a name
        # that both can know. FIFO, which means another queue, is another name too.
        suffix = ".fifo" if numbers.fifo else ""
        name = f"{Aws.STACK_NAME}-{self.node.id.lower()}{suffix}"
        source = sqs.Queue.from_queue_attributes(
            self,
            "Source",
            queue_arn=f"arn:{Aws.PARTITION}:sqs:{Aws.REGION}:{Aws.ACCOUNT_ID}:{name}",
            fifo=numbers.fifo,
        )
        dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            fifo=numbers.fifo or None,
            retention_period=Duration.seconds(DEAD_LETTER_RETENTION_SECONDS),
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE, source_queues=[source]
            ),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            fifo=numbers.fifo or None,
            retention_period=Duration.seconds(numbers.retention_seconds),
            visibility_timeout=Duration.seconds(numbers.visibility_seconds),
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=dead_letters, max_receive_count=numbers.receives
            ),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        return dead_letters, queue

    def _environment(self, numbers: QueueNumbers) -> dict[str, str]:
        return {
            "SEKALI_QUEUE_URL": self.queue.queue_url,
            "SEKALI_DEAD_LETTER_QUEUE_URL": self.dead_letters.queue_url,
            "SEKALI_FIFO": str(numbers.fifo).lower(),
            "SEKALI_PARTIAL_BATCH": "true",
            "SEKALI_VISIBILITY_SECONDS": str(numbers.visibility_seconds),
            "SEKALI_RETENTION_SECONDS": str(numbers.retention_seconds),
            "SEKALI_RECORD_TTL_SECONDS": str(numbers.record_ttl_seconds),
            "SEKALI_LEASE_SECONDS": str(numbers.lease_seconds),
            "SEKALI_MAX_ATTEMPTS": str(numbers.max_attempts),
        }
