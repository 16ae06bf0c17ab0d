"""Read a synthesized stack out of `cdk.out`: what to run, with which settings, from which files.

Nothing about the stack is written twice: handlers, layers, variables, queue and mapping numbers all
come from the template and the asset manifest beside it. `differences.py` lists what is changed.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from infra.local import differences
from infra.local.cloudwatch import definitions
from infra.local.cloudwatch.definitions import Alarm
from infra.local.differences import Place
from infra.local.intrinsics import Scope, TemplateUnsupported, resolve
from infra.local.template import (
    Cache,
    EventRule,
    EventSourceMapping,
    FailureDestination,
    Function,
    InsightRule,
    Json,
    Monitoring,
    Queue,
    Table,
    Template,
)

_QUEUE: Final = "AWS::SQS::Queue"
_FUNCTION: Final = "AWS::Lambda::Function"
_TABLES: Final = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
_CACHES: Final = ("AWS::ElastiCache::ReplicationGroup", "AWS::ElastiCache::ServerlessCache")
_ALARM: Final = "AWS::CloudWatch::Alarm"
_COMPOSITE: Final = "AWS::CloudWatch::CompositeAlarm"
_DASHBOARD: Final = "AWS::CloudWatch::Dashboard"
_INVOKE: Final = "AWS::Lambda::EventInvokeConfig"
_RANKING: Final = "AWS::CloudWatch::InsightRule"
_RULE: Final = "AWS::Events::Rule"
_RUN: Final = {
    _QUEUE,
    _FUNCTION,
    *_TABLES,
    *_CACHES,
    _ALARM,
    _COMPOSITE,
    _DASHBOARD,
    _INVOKE,
    _RANKING,
    _RULE,
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::LayerVersion",
    "AWS::S3::Bucket",
}
_TABLE_FIELDS: Final = (
    "AttributeDefinitions",
    "BillingMode",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
)
_QUEUE_FIELDS: Final = (
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoQueue",
    "FifoThroughputLimit",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "VisibilityTimeout",
)
# How often Lambda tries an event again where nobody says.
_RETRIES: Final = 2
# Lambda's own limit where a mapping names none: the pollers it may grow to.
_MOST_POLLERS: Final = 1250


def read(folder: Path) -> Template:
    """Read the one stack of the cloud assembly in `folder`.

    Raises:
        TemplateUnsupported: The stack holds something that would run differently here.
        FileNotFoundError: `folder` is no cloud assembly: synthesize first.
    """
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    stacks = {
        name: artifact
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    if len(stacks) != 1:
        raise TemplateUnsupported(f"{len(stacks)} stacks at once ({', '.join(stacks) or 'none'})")
    ((name, artifact),) = stacks.items()
    document = json.loads((folder / artifact["properties"]["templateFile"]).read_text())
    return _Reader(name, document, dict(_assets(folder, artifacts))).template()


def _assets(folder: Path, artifacts: Mapping[str, Json]) -> Iterator[tuple[str, Path]]:
    """Yield the object key of each file asset with the folder that it is made of."""
    for artifact in artifacts.values():
        if artifact["type"] == "cdk:asset-manifest":
            manifest = json.loads((folder / artifact["properties"]["file"]).read_text())
            for asset in manifest["files"].values():
                for destination in asset["destinations"].values():
                    yield destination["objectKey"], folder / asset["source"]["path"]


class _Reader:
    """One pass over one template."""

    def __init__(self, stack_name: str, document: Json, assets: Mapping[str, Path]) -> None:
        self._stack_name = stack_name
        self._resources: Mapping[str, Json] = document["Resources"]
        self._assets = assets
        self._places: dict[str, Place] = {}
        defaults = {
            name: str(parameter["Default"])
            for name, parameter in document.get("Parameters", {}).items()
            if "Default" in parameter
        }
        self._scope = Scope(
            names={**defaults, **differences.pseudo_parameters(stack_name)},
            locate=self._locate,
            conditions=document.get("Conditions", {}),
            mappings=document.get("Mappings", {}),
        )

    def template(self) -> Template:
        self._check_caches()
        functions = {name: self._function(name) for name in self._python_functions()}
        kinds = {resource["Type"] for resource in self._resources.values()}
        return Template(
            stack_name=self._stack_name,
            functions=functions,
            queues={name: self._queue(name) for name in self._of(_QUEUE)},
            mappings=tuple(self._mappings(functions)),
            tables=tuple(self._table(name) for name in self._of(*_TABLES)),
            buckets={name: self._locate(name).ref for name in self._of("AWS::S3::Bucket")},
            left_out=tuple(sorted(kinds - _RUN)),
            caches=tuple(self._cache(name) for name in self._of(*_CACHES)),
            rules=tuple(self._rules(functions)),
            destinations=tuple(self._destinations(functions)),
            monitoring=self._monitoring(),
        )

    def _of(self, *kinds: str) -> list[str]:
        return [
            name
            for name, resource in self._resources.items()
            if resource["Type"] in kinds and self._wanted(resource)
        ]

    def _wanted(self, resource: Json) -> bool:
        return "Condition" not in resource or bool(
            resolve({"Condition": resource["Condition"]}, self._scope)
        )

    def _properties(self, logical_id: str) -> Json:
        return resolve(self._resources[logical_id].get("Properties", {}), self._scope)

    def _raw(self, logical_id: str, field: str) -> Json:
        value = self._resources[logical_id].get("Properties", {}).get(field)
        return resolve(value, self._scope)

    def _locate(self, logical_id: str) -> Place:
        if logical_id not in self._resources:
            raise TemplateUnsupported(f"the name {logical_id}, which is nowhere defined")
        if logical_id not in self._places:
            kind = self._resources[logical_id]["Type"]
            name = self._raw(logical_id, differences.NAME_PROPERTIES.get(kind, ""))
            qualified = kind in {"AWS::Lambda::Alias", "AWS::Lambda::Version"}
            target = self._raw(logical_id, "FunctionName") if qualified else None
            self._places[logical_id] = differences.place(
                logical_id,
                kind=kind,
                name=name,
                function=None if target is None else _function_name(target),
            )
        return self._places[logical_id]

    def _check_caches(self) -> None:
        for name in self._of(*_CACHES):
            kind = self._resources[name]["Type"]
            if differences.needs_cluster(kind, self._properties(name)):
                raise TemplateUnsupported(f"{name}: a cache in cluster mode")

    def _python_functions(self) -> list[str]:
        functions = self._of(_FUNCTION)
        return [name for name in functions if str(self._raw(name, "Runtime")).startswith("python")]

    def _function(self, logical_id: str) -> Function:
        properties = self._properties(logical_id)
        variables = properties.get("Environment", {}).get("Variables", {})
        variables = {name: str(value) for name, value in variables.items()}
        differences.check_variables(logical_id, variables)
        layers = self._resources[logical_id]["Properties"].get("Layers", [])
        return Function(
            logical_id=logical_id,
            name=self._locate(logical_id).ref,
            handler=properties["Handler"],
            runtime=properties["Runtime"],
            timeout_seconds=float(properties.get("Timeout", 3)),
            memory_mib=int(properties.get("MemorySize", 128)),
            variables=variables,
            code=self._asset(logical_id, properties["Code"]),
            layers=tuple(self._layer(logical_id, layer) for layer in layers),
            log_group=properties.get("LoggingConfig", {}).get(
                "LogGroup", f"/aws/lambda/{self._locate(logical_id).ref}"
            ),
            reserved_concurrency=properties.get("ReservedConcurrentExecutions"),
        )

    def _layer(self, function: str, layer: Json) -> Path:
        target = str(layer.get("Ref")) if isinstance(layer, dict) else ""
        if target not in self._resources:
            raise TemplateUnsupported(f"{function}: a layer that is not in the stack ({layer})")
        return self._asset(target, self._properties(target)["Content"])

    def _asset(self, owner: str, content: Json) -> Path:
        path = self._assets.get(content.get("S3Key", ""))
        if path is None or not path.is_dir():
            raise TemplateUnsupported(f"{owner}: code that is not a folder among the assets")
        return path.resolve()

    def _queue(self, logical_id: str) -> Queue:
        properties = self._properties(logical_id)
        place = self._locate(logical_id)
        redrive = properties.get("RedrivePolicy") or {}
        return Queue(
            logical_id=logical_id,
            name=place.attribute("QueueName"),
            url=place.ref,
            arn=place.attribute("Arn"),
            attributes={
                name: _attribute_text(properties[name])
                for name in _QUEUE_FIELDS
                if name in properties
            },
            fifo=bool(properties.get("FifoQueue", False)),
            dead_letters=redrive.get("deadLetterTargetArn"),
        )

    def _mappings(self, functions: Mapping[str, Function]) -> Iterator[EventSourceMapping]:
        queues = {self._locate(name).attribute("Arn"): name for name in self._of(_QUEUE)}
        by_name = {function.name: name for name, function in functions.items()}
        for logical_id in self._of("AWS::Lambda::EventSourceMapping"):
            properties = self._properties(logical_id)
            queue = queues.get(properties.get("EventSourceArn", ""))
            function = by_name.get(_function_name(properties["FunctionName"]))
            if queue is None or function is None:
                raise TemplateUnsupported(
                    f"{logical_id}: no queue of the stack to a function of it"
                )
            if "FilterCriteria" in properties:
                raise TemplateUnsupported(f"{logical_id}: filter criteria")
            if properties.get("Enabled", True):
                yield _mapping(logical_id, function, queue, properties)

    def _cache(self, logical_id: str) -> Cache:
        properties = self._properties(logical_id)
        parameters = properties.get("CacheParameterGroupName", "")
        group = self._properties(parameters) if parameters in self._resources else {}
        return Cache(
            logical_id=logical_id,
            name=self._locate(logical_id).ref,
            node_type=properties.get("CacheNodeType", ""),
            eviction=group.get("Properties", {}).get("maxmemory-policy", "volatile-lru"),
        )

    def _rules(self, functions: Mapping[str, Function]) -> Iterator[EventRule]:
        by_name = {function.name: name for name, function in functions.items()}
        for logical_id in self._of(_RULE):
            properties = self._properties(logical_id)
            called = [_function_name(str(one["Arn"])) for one in properties.get("Targets", [])]
            if properties.get("State", "ENABLED") == "ENABLED":
                yield EventRule(
                    name=self._locate(logical_id).ref,
                    pattern=properties.get("EventPattern"),
                    schedule=properties.get("ScheduleExpression", ""),
                    functions=tuple(by_name[name] for name in called if name in by_name),
                )

    def _destinations(self, functions: Mapping[str, Function]) -> Iterator[FailureDestination]:
        by_name = {function.name: name for name, function in functions.items()}
        for logical_id in self._of(_INVOKE):
            properties = self._properties(logical_id)
            function = by_name.get(_function_name(properties["FunctionName"]))
            failure = properties.get("DestinationConfig", {}).get("OnFailure", {})
            if function is not None:
                yield FailureDestination(
                    function=function,
                    retries=int(properties.get("MaximumRetryAttempts", _RETRIES)),
                    queue=failure.get("Destination"),
                )

    def _monitoring(self) -> Monitoring:
        return Monitoring(
            alarms=tuple(self._alarms()),
            dashboards=tuple(
                definitions.dashboard(name, self._properties(name)) for name in self._of(_DASHBOARD)
            ),
            rankings=tuple(
                InsightRule(
                    name=properties["RuleName"], body=json.loads(str(properties["RuleBody"]))
                )
                for properties in map(self._properties, self._of(_RANKING))
                if properties.get("RuleState", "ENABLED") == "ENABLED"
            ),
        )

    def _alarms(self) -> Iterator[Alarm]:
        for name in self._of(_ALARM, _COMPOSITE):
            read = (
                definitions.metric_alarm
                if self._resources[name]["Type"] == _ALARM
                else definitions.composite_alarm
            )
            place = self._locate(name)
            yield read(name, arn=place.attribute("Arn"), properties=self._properties(name))

    def _table(self, logical_id: str) -> Table:
        properties = self._properties(logical_id)
        name = self._locate(logical_id).ref
        ttl = properties.get("TimeToLiveSpecification") or {}
        definition = {field: properties[field] for field in _TABLE_FIELDS if field in properties}
        if "StreamSpecification" in properties:
            # CreateTable wants to be told what CloudFormation takes from the view's presence.
            definition["StreamSpecification"] = {
                **properties["StreamSpecification"],
                "StreamEnabled": True,
            }
        return Table(
            logical_id=logical_id,
            name=name,
            definition={"TableName": name, **definition},
            ttl_attribute=ttl.get("AttributeName") if ttl.get("Enabled") else None,
        )


def _mapping(logical_id: str, function: str, queue: str, properties: Json) -> EventSourceMapping:
    scaling = properties.get("ScalingConfig") or {}
    return EventSourceMapping(
        logical_id=logical_id,
        function=function,
        queue=queue,
        batch_size=int(properties.get("BatchSize", 10)),
        window_seconds=float(properties.get("MaximumBatchingWindowInSeconds", 0)),
        partial_batches="ReportBatchItemFailures" in properties.get("FunctionResponseTypes", []),
        max_concurrency=int(scaling.get("MaximumConcurrency", _MOST_POLLERS)),
    )


def _function_name(reference: str) -> str:
    """Take the function's name out of a name, an ARN or an ARN with an alias."""
    if ":function:" not in reference:
        return reference.partition(":")[0]
    return reference.partition(":function:")[2].partition(":")[0]


def _attribute_text(value: Json) -> str:
    """Write an attribute as the SQS interface wants it: everything is text there."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict) else str(value)
