"""The architecture on two screens: what there is, and what each function may do."""

from typing import Final

from aws_cdk import Duration, Stack, Tags
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra import outputs, parts
from infra.config import Config
from infra.event_function import EventFunction, changed_objects, every, rings
from infra.queue_worker import QueueWorker
from infra.service_role import ServiceRole
from infra.storage import DATA_PREFIX

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
        self.storage = parts.storage(self, config, key=self.key)
        self.surroundings = parts.surroundings(self, config, network=self.network)
        self.variables = parts.environment(config, cache=self.cache, storage=self.storage)
        self.workers = {name: self._worker(config, name) for name in config.workers}
        self.log_groups = [worker.log_group for worker in self.workers.values()]
        self.undelivered = parts.undelivered(self)
        if "invalidate" in config.handlers:
            self._invalidate()
        recover = self._recover() if "recover" in config.handlers else None
        self.monitoring = parts.monitoring(
            self,
            config,
            workers=self.workers,
            undelivered=self.undelivered,
            storage=self.storage,
            cache=self.cache,
            log_groups=self.log_groups,
        )
        if recover:
            recover.call_at(rings(self, "Leak", alarm=self.monitoring.leak))
        outputs.tell(self, recover=recover)

    def _log_flows(self, config: Config) -> None:
        role = ServiceRole(self, "FlowsRole", principal=parts.flow_logs_principal(self))
        group = self.network.log_flows(parts.log_group(self, "Flows", config), role=role.given)
        write = "logs:CreateLogStream logs:DescribeLogStreams logs:PutLogEvents"
        role.allow("WriteFlows", write, group.log_group_arn)

    def _worker(self, config: Config, name: str) -> QueueWorker:
        role = ServiceRole(self, f"{parts.construct_id(name)}Role", through=self.network)
        environment = self.variables | parts.service(name)
        worker = parts.queue_worker(
            self, config, name, self.surroundings, environment, role=role.given, key=self.key
        )
        queue, dead_letters = worker.queue.queue_arn, worker.dead_letters.queue_arn
        table, storage = self.storage.table.table_arn, self.storage
        self._allow_what_all_need(role, worker.log_group, "dynamodb", "s3", "sqs")
        # The event source mapping, with this role.
        read = "sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage"
        role.allow("ReadQueue", read, queue, by_lambda=True)
        # On FIFO a changed visibility, because a delayed copy would lose its place.
        defer = "sqs:ChangeMessageVisibility" if config.fifo else "sqs:SendMessage"
        role.allow("DeferMessages", defer, queue)
        role.allow("SendDeadLetters", "sqs:SendMessage", dead_letters)
        keep = "dynamodb:BatchGetItem dynamodb:PutItem dynamodb:UpdateItem"
        role.allow("KeepResults", keep, table)
        role.allow("KeepLargeResults", "s3:GetObject s3:PutObject", storage.results_arn)
        role.allow("ReadPayloads", "s3:GetObject", storage.payloads_arn)  # Senders write them.
        if name == "reports":
            role.allow("ReadFlights", "s3:GetObject", storage.data_arn)
            # Without it S3 answers 403 for an object that is not there.
            role.allow("TellMissingFromForbidden", "s3:ListBucket", storage.bucket.bucket_arn)
        return worker

    def _invalidate(self) -> None:
        rule = changed_objects(self, "Changed", bucket=self.storage.bucket, prefix=DATA_PREFIX)
        self._event_function("Invalidate", rule)

    def _recover(self) -> EventFunction:
        # A dead holder's lease ends by itself in seconds; this looks for what does not end.
        rule = every(self, "Clock", interval=Duration.minutes(5))
        made, role = self._event_function("Recover", rule, "dynamodb")
        role.allow("FindPending", "dynamodb:Query", self.storage.pending_arn)
        return made

    def _event_function(
        self, name: str, rule: events.Rule, *encrypted: str
    ) -> tuple[EventFunction, ServiceRole]:
        role = ServiceRole(self, f"{name}Role", through=self.network)
        # What they report stands beside the first worker's numbers.
        environment = self.variables | parts.service(next(iter(self.workers)))
        undelivered = self.undelivered
        made = parts.event_function(
            self, name, self.surroundings, environment, rule=rule, role=role.given, lost=undelivered
        )
        self._allow_what_all_need(role, made.log_group, *encrypted)
        role.allow("KeepUndelivered", "sqs:SendMessage", undelivered.queue_arn, by_lambda=True)
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
        if self.key and encrypted:
            # Through the services only: the code itself never calls KMS.
            services = [f"{one}.{self.region}.amazonaws.com" for one in encrypted]
            by_services = {"StringEquals": {"kms:ViaService": services}}
            role.allow("UseKey", USE_KEY, self.key.key_arn, where=by_services)
