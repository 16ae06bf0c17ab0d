"""A Lambda worker and its queue, whose numbers cannot be combined wrongly."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Aws, Duration, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import PythonFunction, Surroundings
from infra.queue_numbers import DEAD_LETTER_RETENTION_SECONDS, QueueNumbers
from infra.validation import watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """A queue and where its dead letters go."""

    queue: sqs.IQueue
    dead_letters: sqs.IQueue


class QueueWorker(Construct):
    """A function, the queue it works off, that queue's dead letters, and the mapping between.

    Works in any CDK app, whose synth from then on also checks the finished templates, for what was
    changed behind this construct's back or built beside it (`infra.rules`).

    Grants nothing: whoever composes it writes the role's statements (receive, delete and read the
    attributes of `queue` for the mapping; what the worker's own code does beside that).

    With `existing` queues, nothing about them can be checked here: they must have the numbers that
    this construct would give them (`numbers.visibility_seconds`, `numbers.receives`).

    Not guaranteed: that the account has `numbers.most_invocations` executions to give; only
    `reserved_concurrency` sets them aside.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        numbers: QueueNumbers,
        surroundings: Surroundings,
        handler: str,
        memory_mib: int,
        environment: Mapping[str, str],
        role: iam.IRole,
        encryption_key: kms.IKey | None = None,
        existing: Queues | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        watch(self)
        queues = existing or self._queues(numbers, encryption_key)
        self.queue, self.dead_letters = queues.queue, queues.dead_letters
        worker = PythonFunction(
            self,
            "Worker",
            surroundings=surroundings,
            handler=handler,
            memory_mib=memory_mib,
            timeout_seconds=numbers.timeout_seconds,
            environment={**environment, **self._environment(numbers)},
            role=role,
            reserved_concurrent_executions=numbers.reserved_concurrency,
            # A delayed copy goes to the queue that invoked us. Lambda would take the sixteenth for
            # a runaway loop and stop it; ours ends at the message's maximum age.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        self.function, self.log_group = worker.function, worker.log_group
        self.mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=worker.target,
            event_source_arn=self.queue.queue_arn,
            batch_size=numbers.batch_size,
            # SQS refuses the property on FIFO, even 0.
            max_batching_window=None
            if numbers.fifo
            else Duration.seconds(numbers.batching_window_seconds),
            max_concurrency=numbers.max_concurrency or None,
            provisioned_poller_config=lambda_.ProvisionedPollerConfig(
                minimum_pollers=numbers.min_pollers, maximum_pollers=numbers.max_pollers
            )
            if numbers.provisioned
            else None,
            # Without it Lambda deletes the messages that the worker returned as failed.
            report_batch_item_failures=True,
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
        # The alias itself: the construct would name it by a text that no reader of the template,
        # and none of our rules, can follow.
        resource = self.mapping.node.default_child
        if isinstance(resource, lambda_.CfnEventSourceMapping):
            resource.function_name = worker.target.function_arn
        self._acknowledge()

    def _queues(self, numbers: QueueNumbers, encryption_key: kms.IKey | None) -> Queues:
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
        encryption = sqs.QueueEncryption.KMS if encryption_key else sqs.QueueEncryption.SQS_MANAGED
        dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            fifo=numbers.fifo or None,
            retention_period=Duration.seconds(DEAD_LETTER_RETENTION_SECONDS),
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.BY_QUEUE, source_queues=[source]
            ),
            encryption=encryption,
            encryption_master_key=encryption_key,
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
            encryption=encryption,
            encryption_master_key=encryption_key,
            enforce_ssl=True,
        )
        return Queues(queue=queue, dead_letters=dead_letters)

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

    def _acknowledge(self) -> None:
        """Answer what cdk-nag finds here and is wrong about."""
        Validations.of(self.dead_letters).acknowledge(
            Acknowledgment(
                id="Serverless-SQSRedrivePolicy",
                reason="It is the dead-letter queue: what is here waits for a person.",
            )
        )
        Validations.of(self.function).acknowledge(
            Acknowledgment(
                id="Serverless-LambdaDLQ",
                reason="That is for asynchronous calls. A queue calls it, and has dead letters.",
            )
        )
        Validations.of(self.mapping).acknowledge(
            Acknowledgment(
                id="Serverless-LambdaEventSourceMappingDestination",
                reason="Streams have failure destinations; a queue has dead letters instead.",
            )
        )
