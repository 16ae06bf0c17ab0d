"""Everything in which the stack on this machine differs from the deployed one.

1. It is synthesized with `-c target=host`: this machine's architecture and Python, and no IAM
   authentication of the cache. Nothing else in the template may depend on the target.
2. Names, account and region are those of the local server of AWS interfaces.
3. Endpoints: each execution environment reaches AWS and the cache at addresses of its own, where
   a relay counts what passes (`relay.py`) and hands it on unchanged. `AWS_ENDPOINT_URL` says so.
4. TLS is off, because neither server speaks it here: `valkeys://` becomes `valkey://`.
5. The assets are compiled once (`synthesis.py`), because nothing may be written beside them while
   they run; Lambda compiles a layer's packages at each cold start.
6. What has no meaning here is not run: networks, roles and policies. The template reader lists what
   it left out (`Template.left_out`).
7. Alarms and dashboards are evaluated by `cloudwatch/` with CloudWatch's rules, at a pace of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.local.intrinsics import TemplateUnsupported

ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"

# Stand for an address that each execution environment has its own of. `.invalid` never resolves
# (RFC 2606), so a value that was forgotten fails at once.
_AWS: Final = "http://aws.invalid"
_CACHE_HOST: Final = "cache.invalid"
_CACHE_PORT: Final = "6379"
_ABSENT: Final = "absent.invalid/"

_WITHOUT_TLS: Final = {"valkeys": "valkey", "rediss": "redis", "valkey": "valkey", "redis": "redis"}

_CACHES: Final = {
    "AWS::ElastiCache::ReplicationGroup": (
        "PrimaryEndPoint",
        "ReaderEndPoint",
        "ConfigurationEndPoint",
    ),
    "AWS::ElastiCache::ServerlessCache": ("Endpoint", "ReaderEndpoint"),
}
# What people and alarms know by an ARN: its service, and what stands before the name.
_WITH_ARN: Final = {
    "AWS::CloudWatch::Alarm": ("cloudwatch", "alarm:"),
    "AWS::CloudWatch::CompositeAlarm": ("cloudwatch", "alarm:"),
    "AWS::Events::Rule": ("events", "rule/"),
    "AWS::Logs::LogGroup": ("logs", "log-group:"),
}
# Which property names a resource; where it is absent, CloudFormation makes a name up.
NAME_PROPERTIES: Final = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::CompositeAlarm": "AlarmName",
    "AWS::CloudWatch::InsightRule": "RuleName",
    "AWS::DynamoDB::GlobalTable": "TableName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::ElastiCache::ReplicationGroup": "ReplicationGroupId",
    "AWS::Events::Rule": "Name",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a resource answers to `Ref` and `Fn::GetAtt` on this machine."""

    ref: str
    attributes: Mapping[str, str]
    logical_id: str

    def reference(self) -> str:
        """Answer `Ref`."""
        return self.ref

    def attribute(self, name: str) -> str:
        """Answer `Fn::GetAtt`; an attribute of something that is not run resolves to a mark."""
        return self.attributes.get(name, f"{_ABSENT}{self.logical_id}.{name}")


def pseudo_parameters(stack_name: str) -> dict[str, str]:
    """Answer `Ref` of the names that every template may use."""
    return {
        "AWS::AccountId": ACCOUNT,
        "AWS::Partition": "aws",
        "AWS::Region": REGION,
        "AWS::StackId": arn("cloudformation", f"stack/{stack_name}/local"),
        "AWS::StackName": stack_name,
        "AWS::URLSuffix": "amazonaws.com",
    }


def arn(service: str, resource: str) -> str:
    """Name a resource of this account and region."""
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def place(logical_id: str, *, kind: str, name: str | None, function: str | None = None) -> Place:
    """Say where a resource of the template is found on this machine.

    Args:
        logical_id: Its name inside the template.
        kind: Its CloudFormation type.
        name: Its physical name, where the template gives one.
        function: For an alias or a version: the function that it belongs to.
    """
    known = name or logical_id
    if kind == "AWS::SQS::Queue":
        url = f"{_AWS}/{ACCOUNT}/{known}"
        attributes = {"Arn": arn("sqs", known), "QueueName": known, "QueueUrl": url}
        return Place(ref=url, attributes=attributes, logical_id=logical_id)
    if kind in {"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"}:
        attributes = {"Arn": arn("dynamodb", f"table/{known}")}
        return Place(ref=known, attributes=attributes, logical_id=logical_id)
    if kind == "AWS::S3::Bucket":
        bucket = known.lower()
        return Place(
            ref=bucket, attributes={"Arn": f"arn:aws:s3:::{bucket}"}, logical_id=logical_id
        )
    if kind == "AWS::Lambda::Function":
        attributes = {"Arn": arn("lambda", f"function:{known}")}
        return Place(ref=known, attributes=attributes, logical_id=logical_id)
    if kind in {"AWS::Lambda::Alias", "AWS::Lambda::Version"} and function is not None:
        qualified = arn("lambda", f"function:{function}:{logical_id}")
        return Place(ref=qualified, attributes={}, logical_id=logical_id)
    if kind == "AWS::SNS::Topic":
        return Place(ref=arn("sns", known), attributes={}, logical_id=logical_id)
    if kind in _WITH_ARN:
        attributes = {"Arn": arn(*_WITH_ARN[kind]) + known}
        return Place(ref=known, attributes=attributes, logical_id=logical_id)
    endpoint: dict[str, str] = {}
    for field in _CACHES.get(kind, ()):
        endpoint |= {f"{field}.Address": _CACHE_HOST, f"{field}.Port": _CACHE_PORT}
    return Place(ref=known, attributes=endpoint, logical_id=logical_id)


def check_variables(function: str, variables: Mapping[str, str]) -> None:
    """Refuse a function whose variables name something that is not run here.

    Raises:
        TemplateUnsupported: Naming the function, the variable and the resource.
    """
    for variable, value in variables.items():
        if _ABSENT in value:
            source = value.partition(_ABSENT)[2]
            raise TemplateUnsupported(f"{function}: its variable {variable} needs {source}")


def localise(
    variables: Mapping[str, str], *, aws_endpoint: str, cache: tuple[str, int]
) -> dict[str, str]:
    """Put this machine's addresses into a function's variables, and take TLS out."""
    host, port = cache
    local: dict[str, str] = {"AWS_ENDPOINT_URL": aws_endpoint}
    for variable, value in variables.items():
        scheme, separator, rest = value.partition("://")
        if separator and rest.startswith(f"{_CACHE_HOST}:{_CACHE_PORT}"):
            tail = rest.removeprefix(f"{_CACHE_HOST}:{_CACHE_PORT}")
            local[variable] = f"{_WITHOUT_TLS[scheme]}://{host}:{port}{tail}"
        else:
            local[variable] = value.replace(_AWS, aws_endpoint)
    return local


def queue_url(place_url: str, *, aws_endpoint: str) -> str:
    """Answer a queue's URL as it is reached at `aws_endpoint`."""
    return place_url.replace(_AWS, aws_endpoint)


def needs_cluster(kind: str, properties: Mapping[str, Any]) -> bool:  # Any JSON.
    """Whether a cache speaks the cluster protocol, which the local server does not."""
    if kind == "AWS::ElastiCache::ServerlessCache":
        return True
    return properties.get("ClusterMode") == "enabled" or int(properties.get("NumNodeGroups", 1)) > 1
