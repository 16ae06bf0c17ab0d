"""The architecture on two screens: what there is, and what each function may do."""

from typing import Final

from aws_cdk import CfnOutput, Duration, Stack, Tags
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra import parts
from infra.config import Config
from infra.event_function import EventFunction, changed_objects, every, rings
from infra.queue_worker import QueueWorker
from infra.service_role import ServiceRole
from infra.storage import DATA_PREFIX, PAYLOADS_PREFIX, RESULTS_PREFIX, Storage

# Lambda itself makes the interfaces by which a function joins a network, with the function's role.
JOIN_NETWORK: Final = (
    "ec2:AssignPrivateIpAddresses ec2:CreateNetworkInterface ec2:DeleteNetworkInterface"
    " ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:UnassignPrivateIpAddresses"
)
USE_KEY: Final = (
    "kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey kms:ReEncryptFrom kms:ReEncryptTo"
)


class SekaliStack(Stack):
    """The kit in one account.

        SQS ──> worker ──> Valkey (claims, leases, values), DynamoDB (results), S3 (data, results)
        S3 ──> EventBridge ──> invalidate ──> Valkey (values of data that changed)
        clock, leak alarm ──> recover ──> Valkey, DynamoDB (leases and jobs nobody looks after)

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
        self.key = parts.encryption_key(self, config)
        self.network = parts.network(self, config)
        if config.logs_flows:
            self._log_flows(config)
        self.cache = parts.shared_cache(self, config, network=self.network, key=self.key)
        self.storage = Storage(
            self,
            "Storage",
            record_ttl_seconds=config.record_ttl_seconds,
            keep_data=config.stage.keep_data,
            encryption_key=self.key,
        )
        self.surroundings = parts.surroundings(self, config, network=self.network)
        self.variables = parts.environment(config, cache=self.cache, storage=self.storage)
        self.workers = {name: self._worker(config, name) for name in config.workers}
        self.worker = self.workers[config.workers[0]]
        self.log_groups = [worker.log_group for worker in self.workers.values()]
        if config.handlers:
            self.undelivered = parts.undelivered(self)
        if "invalidate" in config.handlers:
            self._invalidate()
        recover = self._recover() if "recover" in config.handlers else None
        self.monitoring = parts.monitoring(
            self,
            config,
            workers=self.workers,
            undelivered=self.undelivered if config.handlers else None,
            storage=self.storage,
            cache=self.cache,
            log_groups=self.log_groups,
        )
        if recover:
            recover.call_at(rings(self, "Leak", alarm=self.monitoring.leak))
        self._outputs()

    def _log_flows(self, config: Config) -> None:
        role = ServiceRole(self, "FlowsRole", principal=parts.flow_logs_principal(self))
        group = self.network.log_flows(parts.log_group(self, "Flows", config), role=role.given)
        write = "logs:CreateLogStream logs:DescribeLogStreams logs:PutLogEvents"
        role.allow("WriteFlows", write, group.log_group_arn)

    def _worker(self, config: Config, name: str) -> QueueWorker:
        role = ServiceRole(self, f"{parts.construct_id(name)}Role", through=self.network)
        worker = QueueWorker(
            self,
            parts.construct_id(name),
            numbers=parts.queue_numbers(config),
            surroundings=self.surroundings,
            handler=f"handlers.{name}.handler",
            memory_mib=config.memory_mib,
            environment=self.variables | parts.service(name),
            role=role.given,
            encryption_key=self.key,
            existing=parts.existing_queues(self, config),
        )
        queue, dead_letters = worker.queue.queue_arn, worker.dead_letters.queue_arn
        table, bucket = self.storage.table.table_arn, self.storage.bucket
        payloads, results = (
            bucket.arn_for_objects(f"{one}*") for one in (PAYLOADS_PREFIX, RESULTS_PREFIX)
        )
        self._allow_what_all_need(role, worker.log_group, "dynamodb", "s3", "sqs")
        # The event source mapping, with this role.
        read = "sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage"
        role.allow("ReadQueue", read, queue, by_lambda=True)
        # A delayed copy; on FIFO a changed visibility.
        role.allow("DeferMessages", "sqs:ChangeMessageVisibility sqs:SendMessage", queue)
        role.allow("SendDeadLetters", "sqs:SendMessage", dead_letters)
        keep = "dynamodb:BatchGetItem dynamodb:PutItem dynamodb:UpdateItem"
        role.allow("KeepResults", keep, table)
        role.allow("KeepLargeResults", "s3:GetObject s3:PutObject", results)
        role.allow("ReadPayloads", "s3:GetObject", payloads)  # Senders write them.
        if name == "reports":
            self._allow_what_reports_need(role)
        return worker

    def _allow_what_reports_need(self, role: ServiceRole) -> None:
        bucket = self.storage.bucket
        role.allow("ReadFlights", "s3:GetObject", bucket.arn_for_objects(f"{DATA_PREFIX}*"))
        # Without it S3 answers 403 for an object that is not there.
        role.allow("TellMissingFromForbidden", "s3:ListBucket", bucket.bucket_arn)

    def _invalidate(self) -> None:
        rule = changed_objects(self, "Changed", bucket=self.storage.bucket, prefix=DATA_PREFIX)
        # It reads one event and sends a handful of commands.
        self._event_function("Invalidate", rule, memory_mib=256, timeout_seconds=30)

    def _recover(self) -> EventFunction:
        # A dead holder's lease ends by itself in seconds; this looks for what does not end.
        rule = every(self, "Clock", interval=Duration.minutes(5))
        made, role = self._event_function("Recover", rule, memory_mib=256, timeout_seconds=60)
        role.allow("FindPending", "dynamodb:Query", self.storage.pending_arn)
        # The `sekali` command asks it what only somebody inside the network can tell.
        CfnOutput(self, "RecoverFunctionName", value=made.function.function_name)
        return made

    def _event_function(
        self, name: str, rule: events.Rule, *, memory_mib: int, timeout_seconds: int
    ) -> tuple[EventFunction, ServiceRole]:
        role = ServiceRole(self, f"{name}Role", through=self.network)
        made = EventFunction(
            self,
            name,
            rule=rule,
            surroundings=self.surroundings,
            handler=f"handlers.{name.lower()}.handler",
            memory_mib=memory_mib,
            timeout_seconds=timeout_seconds,
            # What they report stands beside the first worker's numbers.
            environment=self.variables | parts.service(next(iter(self.workers))),
            role=role.given,
            undelivered=self.undelivered,
        )
        self._allow_what_all_need(role, made.log_group, "dynamodb")
        undelivered = self.undelivered.queue_arn
        role.allow("KeepUndelivered", "sqs:SendMessage", undelivered, by_lambda=True)
        self.log_groups.append(made.log_group)
        return made, role

    def _allow_what_all_need(
        self, role: ServiceRole, log_group: logs.LogGroup, *encrypted: str
    ) -> None:
        group = log_group.log_group_arn
        write = "logs:CreateLogStream logs:PutLogEvents"
        role.allow("WriteLogs", write, group, by_lambda=True)
        # X-Ray and network interfaces know no resources. The second is for Lambda, not for the
        # code in it, whose calls name the function that they come from.
        trace = "xray:PutTelemetryRecords xray:PutTraceSegments"
        role.allow("SendTraces", trace, "*", by_lambda=True)
        role.allow("JoinNetwork", JOIN_NETWORK, "*", by_lambda=True)
        from_code = {"Null": {"lambda:SourceFunctionArn": "false"}}
        role.deny("JoinNetworkFromCode", JOIN_NETWORK, "*", where=from_code)
        role.allow("ConnectToCache", "elasticache:Connect", *self.cache.connect_arns)
        if self.key:
            # Through the services only: the code itself never calls KMS.
            services = [f"{one}.{self.region}.amazonaws.com" for one in encrypted]
            by_services = {"StringEquals": {"kms:ViaService": services}}
            role.allow("UseKey", USE_KEY, self.key.key_arn, where=by_services)

    def _outputs(self) -> None:
        for name, value in (
            ("QueueUrl", self.worker.queue.queue_url),
            ("DeadLetterQueueUrl", self.worker.dead_letters.queue_url),
            ("TableName", self.storage.table.table_name),
            ("BucketName", self.storage.bucket.bucket_name),
            ("FunctionName", self.worker.function.function_name),
            ("SecurityGroupId", self.network.worker.security_group_id),
            ("AlarmTopicArn", self.monitoring.topic.topic_arn),
        ):
            CfnOutput(self, name, value=value)
        for name, worker in list(self.workers.items())[1:]:
            for output, value in (
                ("QueueUrl", worker.queue.queue_url),
                ("DeadLetterQueueUrl", worker.dead_letters.queue_url),
                ("FunctionName", worker.function.function_name),
            ):
                CfnOutput(self, f"{parts.construct_id(name)}{output}", value=value)
