"""The parts whose making asks for a choice of the config, so that the stack reads without an if."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from infra.cache import SERVERLESS_GB, Cache, ExistingCache, Nodes, SharedCache
from infra.cache_access import access_string
from infra.config import DEFAULT_WORKERS, Config
from infra.event_function import EventFunction
from infra.functions import Surroundings
from infra.layers import handlers_code, library_layer, powertools_layer, vendor_layer
from infra.monitoring.monitoring import Monitoring
from infra.monitoring.thresholds import THRESHOLDS
from infra.monitoring.watched import CacheNames, Watched
from infra.network import Network
from infra.queue_numbers import DEAD_LETTER_RETENTION_SECONDS, QueueNumbers
from infra.queue_worker import Queues, QueueWorker
from infra.storage import Storage

NAMESPACE: Final = "sekali"
SERVICE: Final = "flight-reports"
# The jobs that each worker registers, by its module; each job has graphs of its own.
JOBS: Final[Mapping[str, Sequence[str]]] = {DEFAULT_WORKERS: ("delay-report",)}
LOG_RETENTION: Final = {7: logs.RetentionDays.ONE_WEEK, 90: logs.RetentionDays.THREE_MONTHS}


def construct_id(module: str) -> str:
    """Name the construct of a worker's module: `cold_storage` is `ColdStorage`."""
    return "".join(part.title() for part in module.split("_"))


def service(module: str) -> dict[str, str]:
    """Tell a worker's metrics and logs apart from those of the others."""
    name = SERVICE if module == DEFAULT_WORKERS else module.replace("_", "-")
    return {"SEKALI_SERVICE": name, "POWERTOOLS_SERVICE_NAME": name}


def removal_policy(config: Config) -> RemovalPolicy:
    """Decide what becomes of data when its resource leaves the stack."""
    return RemovalPolicy.RETAIN if config.stage.keep_data else RemovalPolicy.DESTROY


def encryption_key(stack: Stack, config: Config) -> kms.Key | None:
    """Make the key of everything that is kept, or none: then keys of AWS do it."""
    if config.encryption == "managed":
        return None
    return kms.Key(
        stack,
        "Key",
        description="Sekali: queues, table, bucket and cache",
        enable_key_rotation=True,
        # Whatever was encrypted with it is lost with it.
        removal_policy=removal_policy(config),
    )


def network(stack: Stack, config: Config) -> Network:
    """Make the network, or the security groups inside the user's."""
    made = Network(
        stack,
        "Network",
        existing_vpc_id=config.own.vpc_id,
        existing_subnet_ids=[one for one in config.own.subnet_ids.split(",") if one],
        cache_security_group_id=config.own.cache_security_group_id,
    )
    if not config.logs_flows:
        reason = "In dev nobody would look at them, and no route leads out; prod has them."
        Validations.of(made).acknowledge(Acknowledgment(id="AwsSolutions-VPC7", reason=reason))
    return made


def flow_logs_principal(stack: Stack) -> iam.IPrincipal:
    """Be the service that delivers flow logs, on behalf of this account's networks only."""
    source = stack.format_arn(service="ec2", resource="vpc-flow-log", resource_name="*")
    return iam.ServicePrincipal(
        "vpc-flow-logs.amazonaws.com",
        conditions={
            "StringEquals": {"aws:SourceAccount": stack.account},
            "ArnLike": {"aws:SourceArn": source},
        },
    )


def log_group(stack: Stack, construct_id: str, config: Config) -> logs.LogGroup:
    """Make a group that forgets as the stage says."""
    return logs.LogGroup(
        stack,
        construct_id,
        retention=LOG_RETENTION[config.stage.log_retention_days],
        removal_policy=removal_policy(config),
    )


def shared_cache(
    stack: Stack, config: Config, *, network: Network, key: kms.IKey | None
) -> SharedCache:
    """Make the cache, or describe the user's."""
    if config.cache == "existing":
        return ExistingCache.of(
            stack,
            url=config.own.cache_url,
            name=config.own.cache_name,
            user_id=config.own.cache_user_id,
            cluster=config.cache_shards > 0,
        )
    cluster = config.cache == "serverless" or config.cache_shards > 0
    return Cache(
        stack,
        "Cache",
        kind=config.cache,
        nodes=Nodes(
            shards=config.cache_shards,
            per_shard=config.stage.cache_nodes,
            type=config.stage.cache_node_type,
        ),
        eviction=config.cache_eviction,
        access=access_string(namespace=NAMESPACE, cluster=cluster)
        if config.platform.cache_iam
        else None,
        subnet_ids=network.subnet_ids,
        security_group=network.cache,
        encryption_key=key,
    )


def storage(stack: Stack, config: Config, *, key: kms.IKey | None) -> Storage:
    """Make the table and the bucket."""
    return Storage(
        stack,
        "Storage",
        record_ttl_seconds=config.record_ttl_seconds,
        keep_data=config.stage.keep_data,
        encryption_key=key,
    )


def queue_worker(
    stack: Stack,
    config: Config,
    name: str,
    surroundings: Surroundings,
    environment: Mapping[str, str],
    *,
    role: iam.IRole,
    key: kms.IKey | None,
) -> QueueWorker:
    """Make the worker of a module of `handlers`, and its queue, or describe the user's."""
    return QueueWorker(
        stack,
        construct_id(name),
        numbers=queue_numbers(config),
        surroundings=surroundings,
        handler=f"handlers.{name}.handler",
        memory_mib=config.memory_mib,
        environment=environment,
        role=role,
        encryption_key=key,
        existing=existing_queues(stack, config),
    )


def event_function(
    stack: Stack,
    name: str,
    surroundings: Surroundings,
    environment: Mapping[str, str],
    *,
    rule: events.Rule,
    role: iam.IRole,
    lost: sqs.IQueue,
) -> EventFunction:
    """Make the function of a module of `handlers` that events call; `lost` takes what it cannot.

    Such a one reads an event or an index, and sends a handful of commands.
    """
    return EventFunction(
        stack,
        name,
        rule=rule,
        surroundings=surroundings,
        handler=f"handlers.{name.lower()}.handler",
        memory_mib=256,
        timeout_seconds=60,
        environment=environment,
        role=role,
        undelivered=lost,
    )


def existing_queues(stack: Stack, config: Config) -> Queues | None:
    """Describe the user's queues, where there are any."""
    if not config.own.queue_arn:
        return None
    return Queues(
        queue=sqs.Queue.from_queue_arn(stack, "Queue", config.own.queue_arn),
        dead_letters=sqs.Queue.from_queue_arn(
            stack, "DeadLetters", config.own.dead_letter_queue_arn
        ),
    )


def queue_numbers(config: Config) -> QueueNumbers:
    """Check the numbers of the worker's queue against each other."""
    return QueueNumbers(
        timeout_seconds=config.timeout_seconds,
        batch_size=config.batch_size,
        batching_window_seconds=config.batching_window_seconds,
        max_concurrency=config.max_concurrency,
        reserved_concurrency=config.reserved_concurrency,
        min_pollers=config.min_pollers,
        max_pollers=config.max_pollers,
        retention_seconds=config.retention_seconds,
        record_ttl_seconds=config.record_ttl_seconds,
        lease_seconds=config.lease_seconds,
        max_attempts=config.max_attempts,
        max_receive_count=config.max_receive_count or None,
        fifo=config.fifo,
    )


def surroundings(stack: Stack, config: Config, *, network: Network) -> Surroundings:
    """Pack code and layers, once for all functions."""
    runtime = lambda_.Runtime(
        f"python{config.platform.python}",
        lambda_.RuntimeFamily.PYTHON,
        supports_snap_start=config.platform.python != "3.11",
    )
    architecture = (
        lambda_.Architecture.ARM_64
        if config.platform.architecture == "arm64"
        else lambda_.Architecture.X86_64
    )
    public = config.powertools == "public"
    layers: list[lambda_.ILayerVersion] = [
        library_layer(stack, "Library", runtime=runtime, architecture=architecture),
        vendor_layer(
            stack,
            "Vendor",
            platform=config.platform,
            without_powertools=public,
            runtime=runtime,
            architecture=architecture,
        ),
    ]
    if public:
        layers.append(powertools_layer(stack, "Powertools", platform=config.platform))
    return Surroundings(
        code=handlers_code(),
        runtime=runtime,
        architecture=architecture,
        layers=layers,
        log_retention=LOG_RETENTION[config.stage.log_retention_days],
        removal_policy=removal_policy(config),
        snap_start=config.snap_start,
        vpc=network.vpc,
        subnets=network.subnets,
        security_groups=[network.worker],
    )


def environment(config: Config, *, cache: SharedCache, storage: Storage) -> dict[str, str]:
    """Tell the functions where everything is; QueueWorker adds what it derives."""
    variables = {
        "SEKALI_NAMESPACE": NAMESPACE,
        "SEKALI_SERVICE": SERVICE,
        "SEKALI_CACHE_URL": cache.url,
        "SEKALI_CACHE_CLUSTER": str(cache.cluster).lower(),
        "SEKALI_TABLE_NAME": storage.table.table_name,
        "SEKALI_RESULTS_BUCKET": storage.bucket.bucket_name,
        "SEKALI_DURABLE_MODE": "recorded",
        "SEKALI_LEASE_SECONDS": str(config.lease_seconds),
        "SEKALI_RECORD_TTL_SECONDS": str(config.record_ttl_seconds),
        "SEKALI_TRACING": config.tracing,
        "REPORTS_DATA_BUCKET": storage.bucket.bucket_name,
        "POWERTOOLS_SERVICE_NAME": SERVICE,
        "POWERTOOLS_METRICS_NAMESPACE": "Sekali",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
    if cache.user_id:
        variables["SEKALI_CACHE_IAM_USER"] = cache.user_id
        variables["SEKALI_CACHE_NAME"] = cache.name
        variables["SEKALI_CACHE_SERVERLESS"] = str(cache.serverless).lower()
    return variables


def undelivered(stack: Stack) -> sqs.Queue:
    """Keep the events that no function could handle, for a person to look at."""
    queue = sqs.Queue(
        stack,
        "Undelivered",
        retention_period=Duration.seconds(DEAD_LETTER_RETENTION_SECONDS),
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
    )
    reason = "It is where events end that could not be handled: what is here waits for a person."
    Validations.of(queue).acknowledge(
        Acknowledgment(id="AwsSolutions-SQS3", reason=reason),
        Acknowledgment(id="Serverless-SQSRedrivePolicy", reason=reason),
    )
    return queue


def monitoring(
    stack: Stack,
    config: Config,
    *,
    workers: Mapping[str, QueueWorker],
    undelivered: sqs.IQueue | None,
    storage: Storage,
    cache: SharedCache,
    log_groups: Sequence[logs.ILogGroup],
) -> Monitoring:
    """Make dashboards and alarms of each worker; the first one's hold what all share, too."""
    made: list[Monitoring] = []
    for name, worker in workers.items():
        first = not made
        shown = service(name)["SEKALI_SERVICE"]
        watched = Watched(
            service=shown,
            jobs=JOBS.get(name, ()),
            worker=worker.function,
            mapping=worker.mapping,
            timeout_seconds=config.timeout_seconds,
            memory_mib=config.memory_mib,
            reserved_concurrency=config.reserved_concurrency,
            queue=worker.queue,
            dead_letters=worker.dead_letters,
            retention_seconds=config.retention_seconds,
            table=storage.table,
            undelivered=undelivered if first else None,
            recovers=first and "recover" in config.handlers,
            cache=cache_names(config, cache) if first else CacheNames(),
        )
        made.append(
            Monitoring(
                stack,
                "Monitoring" if first else f"{construct_id(name)}Monitoring",
                name=stack.stack_name if first else f"{stack.stack_name}-{shown}",
                watched=watched,
                thresholds=THRESHOLDS[config.stage_name],
                log_groups=log_groups,
                runbooks_url=config.runbooks_url,
                topic=None if first else made[0].topic,
            )
        )
    return made[0]


def cache_names(config: Config, cache: SharedCache) -> CacheNames:
    """Say what CloudWatch calls the cache: each node, or the whole where it is serverless.

    Of a cache that was there before, the first node of each shard is known to exist.
    """
    if not cache.name:
        return CacheNames()
    if cache.serverless:
        return CacheNames(serverless=cache.name, limit_bytes=SERVERLESS_GB * 10**9)
    per_shard = 1 if config.cache == "existing" else config.stage.cache_nodes
    shards = [f"{cache.name}-{number:04}" for number in range(1, config.cache_shards + 1)]
    return CacheNames(
        nodes=[
            f"{shard}-{number:03}"
            for shard in shards or [cache.name]
            for number in range(1, per_shard + 1)
        ]
    )
