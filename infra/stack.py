"""The architecture on one page: what there is, what the worker is told, and what it may do."""

from typing import Final

from aws_cdk import CfnOutput, RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cache import Cache
from infra.config import Config
from infra.layers import handlers_code, library_layer, vendor_layer
from infra.network import Network
from infra.queue_numbers import QueueNumbers
from infra.queue_worker import QueueWorker
from infra.storage import DATA_PREFIX, PAYLOADS_PREFIX, RESULTS_PREFIX, Storage

LOG_RETENTION: Final = {7: logs.RetentionDays.ONE_WEEK, 90: logs.RetentionDays.THREE_MONTHS}


class SekaliStack(Stack):
    """SQS → worker → (Valkey, DynamoDB, S3), in a network that has no way out.

    Nothing in it names an account or a region: one template deploys anywhere.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: Config) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Sekali: each job once, each answer computed once",
            termination_protection=config.stage.keep_data,
        )
        Tags.of(self).add("sekali:stage", config.stage_name)

        self.network = Network(self, "Network")
        self.cache = Cache(
            self,
            "Cache",
            kind=config.cache,
            nodes=config.stage.cache_nodes,
            node_type=config.stage.cache_node_type,
            iam=config.platform.cache_iam,
            vpc=self.network.vpc,
            security_group=self.network.cache,
        )
        self.storage = Storage(
            self,
            "Storage",
            record_ttl_seconds=config.record_ttl_seconds,
            keep_data=config.stage.keep_data,
        )
        self.role = iam.Role(
            self, "WorkerRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
        )
        self.worker = self._worker(config)

        self._grant_lambda_its_own()
        self._grant_queue()
        self._grant_storage()
        self._grant_cache()

        self._output("QueueUrl", self.worker.queue.queue_url)
        self._output("DeadLetterQueueUrl", self.worker.dead_letters.queue_url)
        self._output("TableName", self.storage.table.table_name)
        self._output("BucketName", self.storage.bucket.bucket_name)
        self._output("FunctionName", self.worker.function.function_name)

    def _worker(self, config: Config) -> QueueWorker:
        runtime = lambda_.Runtime(f"python{config.platform.python}", lambda_.RuntimeFamily.PYTHON)
        architecture = (
            lambda_.Architecture.ARM_64
            if config.platform.architecture == "arm64"
            else lambda_.Architecture.X86_64
        )
        return QueueWorker(
            self,
            "Reports",
            numbers=QueueNumbers(
                timeout_seconds=config.timeout_seconds,
                batch_size=config.batch_size,
                batching_window_seconds=config.batching_window_seconds,
                max_concurrency=config.max_concurrency,
                reserved_concurrency=config.reserved_concurrency,
                retention_seconds=config.retention_seconds,
                record_ttl_seconds=config.record_ttl_seconds,
                lease_seconds=config.lease_seconds,
                max_attempts=config.max_attempts,
                fifo=config.fifo,
            ),
            code=handlers_code(),
            handler="handlers.reports.handler",
            runtime=runtime,
            architecture=architecture,
            layers=[
                library_layer(self, "Library", runtime=runtime, architecture=architecture),
                vendor_layer(
                    self,
                    "Vendor",
                    platform=config.platform,
                    runtime=runtime,
                    architecture=architecture,
                ),
            ],
            memory_mib=config.memory_mib,
            environment=self._environment(config),
            # Nobody but this file adds to what the role may do.
            role=self.role.without_policy_updates(),
            vpc=self.network.vpc,
            security_group=self.network.worker,
            log_retention=LOG_RETENTION[config.stage.log_retention_days],
            removal_policy=RemovalPolicy.RETAIN
            if config.stage.keep_data
            else RemovalPolicy.DESTROY,
        )

    def _environment(self, config: Config) -> dict[str, str]:
        """Tell the worker where everything is; QueueWorker adds what it derives."""
        environment = {
            "SEKALI_NAMESPACE": "sekali",
            "SEKALI_SERVICE": "flight-reports",
            "SEKALI_CACHE_URL": self.cache.url,
            "SEKALI_CACHE_CLUSTER": str(self.cache.cluster).lower(),
            "SEKALI_TABLE_NAME": self.storage.table.table_name,
            "SEKALI_RESULTS_BUCKET": self.storage.bucket.bucket_name,
            "SEKALI_DURABLE_MODE": "recorded",
            "REPORTS_DATA_BUCKET": self.storage.bucket.bucket_name,
            "POWERTOOLS_SERVICE_NAME": "flight-reports",
            "POWERTOOLS_METRICS_NAMESPACE": "Sekali",
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }
        if self.cache.user_id:
            environment["SEKALI_CACHE_IAM_USER"] = self.cache.user_id
            environment["SEKALI_CACHE_NAME"] = self.cache.name
            environment["SEKALI_CACHE_SERVERLESS"] = str(config.cache == "serverless").lower()
        return environment

    def _grant_lambda_its_own(self) -> None:
        self._grant(
            "WriteLogs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[self.worker.log_group.log_group_arn],
        )
        # These two know no resources. Lambda itself makes the network interfaces, with this role.
        self._grant(
            "SendTraces",
            actions=["xray:PutTraceSegments", "xray:PutTelemetryRecords"],
            resources=["*"],
        )
        self._grant(
            "JoinNetwork",
            actions=[
                "ec2:AssignPrivateIpAddresses",
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:UnassignPrivateIpAddresses",
            ],
            resources=["*"],
        )

    def _grant_queue(self) -> None:
        self._grant(
            "ReadQueue",  # The event source mapping, with this role.
            actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            resources=[self.worker.queue.queue_arn],
        )
        self._grant(
            "DeferMessages",  # A delayed copy; on FIFO a changed visibility.
            actions=["sqs:SendMessage", "sqs:ChangeMessageVisibility"],
            resources=[self.worker.queue.queue_arn],
        )
        self._grant(
            "SendDeadLetters",
            actions=["sqs:SendMessage"],
            resources=[self.worker.dead_letters.queue_arn],
        )

    def _grant_storage(self) -> None:
        bucket = self.storage.bucket
        self._grant(
            "KeepResults",
            actions=[
                "dynamodb:BatchGetItem",
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
            ],
            resources=[self.storage.table.table_arn],
        )
        self._grant(
            "ReadFlights",
            actions=["s3:GetObject"],
            resources=[bucket.arn_for_objects(f"{DATA_PREFIX}*")],
        )
        self._grant(
            "KeepLargeResults",
            actions=["s3:GetObject", "s3:PutObject"],
            resources=[bucket.arn_for_objects(f"{RESULTS_PREFIX}*")],
        )
        self._grant(
            "ReadPayloads",  # Those too large for a message; senders write them.
            actions=["s3:GetObject"],
            resources=[bucket.arn_for_objects(f"{PAYLOADS_PREFIX}*")],
        )
        self._grant(
            "TellMissingFromForbidden",  # Without it S3 answers 403 for an absent object.
            actions=["s3:ListBucket"],
            resources=[bucket.bucket_arn],
        )

    def _grant_cache(self) -> None:
        if self.cache.connect_arns:
            self._grant(
                "ConnectToCache",
                actions=["elasticache:Connect"],
                resources=self.cache.connect_arns,
            )

    def _grant(self, sid: str, *, actions: list[str], resources: list[str]) -> None:
        self.role.add_to_policy(iam.PolicyStatement(sid=sid, actions=actions, resources=resources))

    def _output(self, name: str, value: str) -> None:
        CfnOutput(self, name, value=value)
