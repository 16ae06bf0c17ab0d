"""Rules of a queue, its worker and its cache, checked on the finished template.

`QueueWorker` cannot be built wrongly, but what it built can be changed afterwards: by an escape
hatch, an aspect, or a mapping that somebody adds. cdk-nag's packs see none of this on a function
that works off a queue, and nothing at all on a serverless cache. So each rule is written a second
time here, on what CloudFormation will get; `infra.validation` makes a plugin of them.

What a template does not hold, such as a queue that is named by its ARN, cannot be judged and is
left alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.queue_numbers import (
    DEAD_LETTER_RETENTION_SECONDS,
    INVOCATIONS_PER_POLLER,
    LEAST_RECEIVES,
    VISIBILITY_PER_TIMEOUT,
)

Json = Any  # A template is any JSON.

QUEUE: Final = "AWS::SQS::Queue"
FUNCTION: Final = "AWS::Lambda::Function"
MAPPING: Final = "AWS::Lambda::EventSourceMapping"
GROUP: Final = "AWS::ElastiCache::ReplicationGroup"
SERVERLESS: Final = "AWS::ElastiCache::ServerlessCache"
USER: Final = "AWS::ElastiCache::User"
ALARM: Final = "AWS::CloudWatch::Alarm"

# CloudFormation's own where a property is left out.
_TIMEOUT_SECONDS: Final = 3
_VISIBILITY_SECONDS: Final = 30
_RETENTION_SECONDS: Final = 345_600
_BATCH_SIZE: Final = 10
_SMALL_BATCH: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A resource that breaks a rule, and what to do."""

    rule: str
    resource: str
    text: str
    fix: str


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a template, and where their references lead."""

    all: Mapping[str, Json]

    def of(self, kind: str) -> Iterator[tuple[str, Json]]:
        """Yield the logical id and the properties of each resource of a type."""
        for name, resource in self.all.items():
            if resource.get("Type") == kind:
                yield name, resource.get("Properties", {})

    def properties(self, name: str | None, kind: str) -> Json:
        """Answer the properties of a resource, or None if it is not of that type, or elsewhere."""
        resource = self.all.get(name or "", {})
        return resource.get("Properties", {}) if resource.get("Type") == kind else None

    def function(self, name: str | None) -> str | None:
        """Answer the function behind itself, its version or its alias."""
        resource = self.all.get(name or "", {})
        if resource.get("Type") in {"AWS::Lambda::Alias", "AWS::Lambda::Version"}:
            return target(resource["Properties"].get("FunctionName"))
        return name if resource.get("Type") == FUNCTION else None


def target(reference: Json) -> str | None:
    """Answer the logical id that a reference names, if it is one."""
    match reference:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return name
        case _:
            return None


Rule = Callable[[Resources], Iterator[Broken]]


def visibility(resources: Resources) -> Iterator[Broken]:
    """Hide a message for six timeouts and the window, or it is worked on twice at once."""
    for name, mapping, queue, function in _worked_off(resources):
        least = VISIBILITY_PER_TIMEOUT * function.get("Timeout", _TIMEOUT_SECONDS) + mapping.get(
            "MaximumBatchingWindowInSeconds", 0
        )
        found = queue.get("VisibilityTimeout", _VISIBILITY_SECONDS)
        if found < least:
            yield Broken(
                rule="visibility",
                resource=name,
                text=f"its queue hides a message for {found} s, its work may take {least} s",
                fix=f"set the queue's VisibilityTimeout to {least}",
            )


def partial_batches(resources: Resources) -> Iterator[Broken]:
    """Report failed messages one by one, or Lambda deletes them as done."""
    for name, mapping, *_ in _worked_off(resources):
        if "ReportBatchItemFailures" not in mapping.get("FunctionResponseTypes", []):
            yield Broken(
                rule="partial-batches",
                resource=name,
                text="messages that failed are deleted",
                fix="set FunctionResponseTypes to [ReportBatchItemFailures]",
            )


def event_metrics(resources: Resources) -> Iterator[Broken]:
    """Count what the mapping drops or fails to hand over, or nobody sees it."""
    for name, mapping, *_ in _worked_off(resources):
        if "EventCount" not in (mapping.get("MetricsConfig") or {}).get("Metrics", []):
            yield Broken(
                rule="event-metrics",
                resource=name,
                text="the mapping counts no events",
                fix="set MetricsConfig.Metrics to [EventCount]",
            )


def window(resources: Resources) -> Iterator[Broken]:
    """Give a batch above ten a window, or the deployment fails; a FIFO queue has neither."""
    for name, mapping, queue, _ in _worked_off(resources):
        size, seconds = mapping.get("BatchSize", _BATCH_SIZE), "MaximumBatchingWindowInSeconds"
        if queue.get("FifoQueue") and (size > _SMALL_BATCH or seconds in mapping):
            yield Broken(
                rule="window",
                resource=name,
                text=f"a FIFO queue has batches of ten at most and no window, not {size}",
                fix=f"set BatchSize to {_SMALL_BATCH} and leave {seconds} out",
            )
        elif size > _SMALL_BATCH and mapping.get(seconds, 0) < 1:
            yield Broken(
                rule="window",
                resource=name,
                text=f"a batch of {size} needs a window",
                fix=f"set {seconds} to 1 or more",
            )


def concurrency(resources: Resources) -> Iterator[Broken]:
    """Cap a function's pollers within what is reserved, or throttles spend receives."""
    caps: dict[str, int] = {}
    for name, mapping in resources.of(MAPPING):
        scaling = (mapping.get("ScalingConfig") or {}).get("MaximumConcurrency", 0)
        pollers = (mapping.get("ProvisionedPollerConfig") or {}).get("MaximumPollers", 0)
        function = resources.function(target(mapping.get("FunctionName")))
        if function is None or target(mapping.get("EventSourceArn")) not in dict(
            resources.of(QUEUE)
        ):
            continue
        if bool(scaling) == bool(pollers):
            yield Broken(
                rule="concurrency",
                resource=name,
                text="a cap of its pollers is missing, or there are two that exclude each other",
                fix="set either ScalingConfig.MaximumConcurrency or ProvisionedPollerConfig",
            )
        caps[function] = caps.get(function, 0) + scaling + pollers * INVOCATIONS_PER_POLLER
    for name, function in resources.of(FUNCTION):
        reserved = function.get("ReservedConcurrentExecutions")
        if reserved is not None and reserved < caps.get(name, 0):
            yield Broken(
                rule="concurrency",
                resource=name,
                text=f"{reserved} executions are reserved, its pollers may want {caps[name]}",
                fix=f"set ReservedConcurrentExecutions to {caps[name]} or more",
            )


def snapshot(resources: Resources) -> Iterator[Broken]:
    """Call a published version where SnapStart is on, or no snapshot is ever used."""
    for name, mapping, _, function in _worked_off(resources):
        on = (function.get("SnapStart") or {}).get("ApplyOn") == "PublishedVersions"
        if on and resources.properties(target(mapping.get("FunctionName")), FUNCTION) is not None:
            yield Broken(
                rule="snapshot",
                resource=name,
                text="the mapping calls $LATEST, which has no snapshot",
                fix="set FunctionName to an alias",
            )


def dead_letters(resources: Resources) -> Iterator[Broken]:
    """Put what cannot be done in a queue of the same kind that keeps it for longest."""
    for name, source in resources.of(QUEUE):
        redrive = source.get("RedrivePolicy")
        letters = resources.properties(target((redrive or {}).get("deadLetterTargetArn")), QUEUE)
        if redrive is None:
            continue
        receives = redrive.get("maxReceiveCount", 0)
        if receives < LEAST_RECEIVES:
            yield Broken(
                rule="dead-letters",
                resource=name,
                text=f"{receives} receives are spent by throttles and neighbours' failures alone",
                fix=f"set maxReceiveCount to {LEAST_RECEIVES} or more",
            )
        if letters is None:
            continue
        if bool(source.get("FifoQueue")) != bool(letters.get("FifoQueue")):
            yield Broken(
                rule="dead-letters",
                resource=name,
                text="a FIFO queue's dead letters need a FIFO queue, and only they",
                fix="set FifoQueue alike on both",
            )
        kept = letters.get("MessageRetentionPeriod", _RETENTION_SECONDS)
        if kept < DEAD_LETTER_RETENTION_SECONDS or kept <= source.get(
            "MessageRetentionPeriod", _RETENTION_SECONDS
        ):
            yield Broken(
                rule="dead-letters",
                resource=name,
                text="a dead letter keeps the age of its message, and expires before it is seen",
                fix=f"set the dead letters' MessageRetentionPeriod to"
                f" {DEAD_LETTER_RETENTION_SECONDS} and the queue's below it",
            )
        if (letters.get("RedriveAllowPolicy") or {}).get("redrivePermission") != "byQueue":
            yield Broken(
                rule="dead-letters",
                resource=name,
                text="any queue of the account may send its dead letters there",
                fix="set RedriveAllowPolicy to byQueue, with this queue",
            )


def no_dead_letters(resources: Resources) -> Iterator[Broken]:
    """Have somewhere to put what cannot be done."""
    for name, _, queue, _ in _worked_off(resources):
        if "RedrivePolicy" not in queue:
            yield Broken(
                rule="no-dead-letters",
                resource=name,
                text="what cannot be done comes back until it expires",
                fix="set the queue's RedrivePolicy",
            )


def log_groups(resources: Resources) -> Iterator[Broken]:
    """Write logs into a group that forgets, or Lambda makes one that never does."""
    for name, function in resources.of(FUNCTION):
        group = target((function.get("LoggingConfig") or {}).get("LogGroup"))
        if resources.properties(group, "AWS::Logs::LogGroup") is None:
            yield Broken(
                rule="log-groups",
                resource=name,
                text="the function writes into a log group that is not of this stack",
                fix="set LoggingConfig.LogGroup to one with a retention",
            )


def caches(resources: Resources) -> Iterator[Broken]:
    """Encrypt a cache, keep it private, let it survive a node, and bound its bill."""
    for name, group in resources.of(GROUP):
        nodes = max(group.get("NumCacheClusters", 1), group.get("ReplicasPerNodeGroup", 0) + 1)
        wanted = {
            "TransitEncryptionEnabled": True,
            "AtRestEncryptionEnabled": True,
            **({"AutomaticFailoverEnabled": True, "MultiAZEnabled": True} if nodes > 1 else {}),
        }
        for field, value in wanted.items():
            if group.get(field) != value:
                yield Broken(
                    rule="caches",
                    resource=name,
                    text=f"{field} is {group.get(field)}",
                    fix=f"set it to {value}",
                )
    for name, cache in resources.of(SERVERLESS):
        for field in ("UserGroupId", "SecurityGroupIds", "SubnetIds", "CacheUsageLimits"):
            if not cache.get(field):
                yield Broken(
                    rule="caches",
                    resource=name,
                    text=f"a serverless cache without {field}",
                    fix="name the users, the groups, the subnets and the limits",
                )


def cache_users(resources: Resources) -> Iterator[Broken]:
    """Allow a user of the cache what it sends, command by command."""
    for name, user in resources.of(USER):
        rights = str(user.get("AccessString", "")).split()
        if {"+@all", "allcommands", "~*", "allkeys"} & set(rights) or "on" not in rights:
            yield Broken(
                rule="cache-users",
                resource=name,
                text="the user may do more than its functions need, or nothing",
                fix="list the commands and the key prefixes, see infra/cache_access.py",
            )


def alarm_dimensions(resources: Resources) -> Iterator[Broken]:
    """Name a serverless cache by `clusterId`; by another name its alarm never fires."""
    serverless: set[str] = set()
    for name, cache in resources.of(SERVERLESS):
        serverless |= {name, str(cache.get("ServerlessCacheName", name))}
    for name, alarm in resources.of(ALARM):
        stats = [one.get("MetricStat", {}).get("Metric", {}) for one in alarm.get("Metrics", [])]
        for metric in (alarm, *stats):
            if metric.get("Namespace") != "AWS/ElastiCache":
                continue
            for dimension in metric.get("Dimensions", []):
                cache = target(dimension["Value"]) or dimension["Value"]
                if cache in serverless and dimension["Name"] != "clusterId":
                    yield Broken(
                        rule="alarm-dimensions",
                        resource=name,
                        text=f"there is no metric with the dimension {dimension['Name']}",
                        fix="name the dimension clusterId",
                    )


def alarms(resources: Resources) -> Iterator[Broken]:
    """Say what missing data mean, and what whoever is woken should do."""
    for name, alarm in resources.of(ALARM):
        for field, fix in (
            ("TreatMissingData", "set it: notBreaching where only faults are counted"),
            ("AlarmDescription", "say what it means, what to do first and where more is"),
        ):
            if not alarm.get(field):
                yield Broken(
                    rule="alarms", resource=name, text=f"an alarm without {field}", fix=fix
                )


RULES: Final[Sequence[Rule]] = (
    visibility,
    partial_batches,
    event_metrics,
    window,
    concurrency,
    snapshot,
    dead_letters,
    no_dead_letters,
    log_groups,
    caches,
    cache_users,
    alarm_dimensions,
    alarms,
)


def check(template: Mapping[str, Json]) -> list[Broken]:
    """Answer every rule that a template breaks."""
    resources = Resources(template.get("Resources", {}))
    return [broken for rule in RULES for broken in rule(resources)]


def _worked_off(resources: Resources) -> Iterator[tuple[str, Json, Json, Json]]:
    """Yield each mapping of a queue of this template: its id, itself, the queue, the function."""
    for name, mapping in resources.of(MAPPING):
        queue = resources.properties(target(mapping.get("EventSourceArn")), QUEUE)
        function = resources.properties(
            resources.function(target(mapping.get("FunctionName"))), FUNCTION
        )
        if queue is not None and function is not None:
            yield name, mapping, queue, function
