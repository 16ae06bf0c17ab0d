"""What is watched, and the metrics of it by the names that AWS and the library give them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra.monitoring.thresholds import Thresholds

NAMESPACE: Final = "Sekali"
MINUTE: Final = Duration.minutes(1)
ALARM_METRICS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheNames:
    """How CloudWatch names a cache: by its nodes, or by itself where it is serverless.

    Empty for a cache whose name nobody told.
    """

    nodes: Sequence[str] = ()
    serverless: str = ""
    limit_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The parts of a service.

    `recovers` tells whether a recovery function reports under this service's name.

    The library's own metrics have the dimension `service`, and `job` beside it where a job is
    meant. Those of AWS have the dimensions that AWS publishes them under; others are silent for
    ever, so no method takes dimensions.
    """

    service: str
    jobs: Sequence[str]
    worker: lambda_.IFunction
    mapping: lambda_.IEventSourceMapping
    timeout_seconds: int
    memory_mib: int
    reserved_concurrency: int | None
    queue: sqs.IQueue
    dead_letters: sqs.IQueue
    retention_seconds: int
    undelivered: sqs.IQueue | None
    recovers: bool
    table: dynamodb.ITable
    cache: CacheNames

    def own(
        self, name: str, statistic: str = "Sum", *, label: str = "", job: str = ""
    ) -> cloudwatch.Metric:
        """Return a metric of the library: of all jobs, or of one."""
        dimensions = {"service": self.service} | ({"job": job} if job else {})
        return _metric(NAMESPACE, name, statistic, dimensions, label)

    def of_worker(self, name: str, statistic: str = "Sum", *, label: str = "") -> cloudwatch.Metric:
        """Return what Lambda tells about the worker, over all of its versions."""
        dimensions = {"FunctionName": self.worker.function_name}
        return _metric("AWS/Lambda", name, statistic, dimensions, label)

    def slow_ms(self, thresholds: Thresholds) -> float:
        """Return how long an invocation of the worker lasts that comes near its time-out."""
        return self.timeout_seconds * 10 * thresholds.duration_percent

    def of_mapping(self, name: str, *, label: str = "") -> cloudwatch.Metric:
        """Return what the event source mapping counts of its messages."""
        dimensions = {"EventSourceMappingUUID": self.mapping.event_source_mapping_id}
        return _metric("AWS/Lambda", name, "Sum", dimensions, label)

    def of_queue(
        self,
        name: str,
        statistic: str = "Sum",
        *,
        label: str = "",
        queue: sqs.IQueue | None = None,
    ) -> cloudwatch.Metric:
        """Return what SQS tells about a queue; the jobs' own where none is named."""
        dimensions = {"QueueName": (queue or self.queue).queue_name}
        return _metric("AWS/SQS", name, statistic, dimensions, label)

    def of_table(
        self, name: str, statistic: str = "Sum", *, label: str = "", operation: str = ""
    ) -> cloudwatch.Metric:
        """Return what DynamoDB tells about the table, or about one operation on it."""
        dimensions = {"TableName": self.table.table_name}
        dimensions |= {"Operation": operation} if operation else {}
        return _metric("AWS/DynamoDB", name, statistic, dimensions, label)

    def of_nodes(
        self, name: str, statistic: str, nodes: Sequence[str] | None = None
    ) -> list[cloudwatch.Metric]:
        """Return what ElastiCache tells about each node of the cache, or about some of them."""
        return [
            _metric("AWS/ElastiCache", name, statistic, {"CacheClusterId": node}, node)
            for node in (self.cache.nodes if nodes is None else nodes)
        ]

    def nodes_by_ten(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the nodes in tens, which is what the formula of one alarm may hold."""
        nodes = self.cache.nodes
        for start in range(0, len(nodes), ALARM_METRICS):
            suffix = f"-{start // ALARM_METRICS + 1}" if len(nodes) > ALARM_METRICS else ""
            yield suffix, nodes[start : start + ALARM_METRICS]

    def of_serverless(
        self, name: str, statistic: str = "Sum", *, label: str = ""
    ) -> cloudwatch.Metric:
        """Return what ElastiCache tells about a serverless cache."""
        # In this spelling, unlike everywhere else in AWS.
        dimensions = {"clusterId": self.cache.serverless}
        return _metric("AWS/ElastiCache", name, statistic, dimensions, label)


def _metric(
    namespace: str, name: str, statistic: str, dimensions: Mapping[str, str], label: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        label=label or name,
        period=MINUTE,
    )
