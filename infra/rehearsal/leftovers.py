"""Look for what a destroyed stack left behind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from infra.rehearsal.deployment import STACK, Account, Deployment, Shortfall

Json = Any  # An answer of any service.

# Each service's list, and where a resource's name stands in it.
_LISTS: Final[Mapping[str, tuple[str, str, Callable[[Json], list[Json]]]]] = {
    "queues": ("sqs", "list_queues", lambda one: one.get("QueueUrls", [])),
    "tables": ("dynamodb", "list_tables", lambda one: one["TableNames"]),
    "buckets": ("s3", "list_buckets", lambda one: [each["Name"] for each in one["Buckets"]]),
    "functions": (
        "lambda",
        "list_functions",
        lambda one: [each["FunctionName"] for each in one["Functions"]],
    ),
    "mappings": (
        "lambda",
        "list_event_source_mappings",
        lambda one: [each["FunctionArn"] for each in one["EventSourceMappings"]],
    ),
    "layers": ("lambda", "list_layers", lambda one: [each["LayerName"] for each in one["Layers"]]),
    "roles": ("iam", "list_roles", lambda one: [each["RoleName"] for each in one["Roles"]]),
    "rules": ("events", "list_rules", lambda one: [each["Name"] for each in one["Rules"]]),
    "log groups": (
        "logs",
        "describe_log_groups",
        lambda one: [each["logGroupName"] for each in one["logGroups"]],
    ),
    "caches": (
        "elasticache",
        "describe_replication_groups",
        lambda one: [each["ReplicationGroupId"] for each in one["ReplicationGroups"]],
    ),
    "security groups": (
        "ec2",
        "describe_security_groups",
        lambda one: [each["GroupName"] for each in one["SecurityGroups"]],
    ),
    "endpoints": (
        "ec2",
        "describe_vpc_endpoints",
        lambda one: [each["VpcEndpointId"] for each in one["VpcEndpoints"]],
    ),
}


def quieten(deployment: Deployment) -> None:
    """Stop the rules, then remove the objects: a bucket that holds some is not deleted.

    ministack's Lambda makes its log group anew if it is called once more, which on AWS it may not.
    """
    events = deployment.client("events")
    for one in events.list_rules()["Rules"]:
        events.disable_rule(Name=one["Name"])
    bucket = deployment.outputs["BucketName"]
    found = deployment.s3.list_object_versions(Bucket=bucket)
    for one in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
        deployment.s3.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])


def listed(account: Account) -> dict[str, set[str]]:
    """Name everything that there is in the account, by kind."""
    return {
        kind: set(names(getattr(account.client(service), operation)()))
        for kind, (service, operation, names) in _LISTS.items()
    }


def none_left(account: Account, *, before: Mapping[str, set[str]]) -> str:
    """Compare with what there was before the stack was deployed.

    Raises:
        Shortfall: Something more is there.
    """
    left = {kind: names - before[kind] for kind, names in listed(account).items()}
    found = [f"{kind} {', '.join(sorted(names))}" for kind, names in left.items() if names]
    if found:
        raise Shortfall(f"left behind: {'; '.join(found)}")
    return f"{STACK} is gone, with its {', '.join(_LISTS)}"
