"""Try calls with the functions' roles: those that they need, and those that must be refused."""

import io
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.rehearsal.deployment import Deployment, Shortfall

PROBE: Final = "sekali-probe"
REFUSALS: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"}
)
# A function of its own with the same role: what it cannot do, nothing with this role can.
_SOURCE: Final = """
import boto3
from botocore.exceptions import ClientError

def handler(event, context):
    answers = []
    for service, operation, arguments in event:
        try:
            getattr(boto3.client(service), operation)(**arguments)
        except ClientError as error:
            answers.append(error.response["Error"]["Code"])
        else:
            answers.append("")
    return answers
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a service, and whether the role may make it."""

    service: str
    operation: str
    arguments: dict[str, Any]  # Any: arguments of any operation
    allowed: bool = False

    def __str__(self) -> str:
        return f"{self.service}.{self.operation}"


def calls(outputs: dict[str, str], *, role: str, recover_role: str) -> dict[str, list[Call]]:
    """List what is tried as the worker, and as the watchman, by the name of the handler.

    A key, a queue or a prefix that is not the function's stands beside those that are.
    """
    table, bucket = {"TableName": outputs["TableName"]}, {"Bucket": outputs["BucketName"]}
    queue, letters = ({"QueueUrl": outputs[name]} for name in ("QueueUrl", "DeadLetterQueueUrl"))
    key = {"pk": {"S": "probe/1"}}
    receipt = {"ReceiptHandle": "none"}
    get = {"RequestItems": {outputs["TableName"]: {"Keys": [key]}}}
    pending = {
        **table,
        "KeyConditionExpression": "pending = :part",
        "ExpressionAttributeValues": {":part": {"N": "0"}},
    }
    everything_else = [
        Call("iam", "create_user", {"UserName": "probe"}),
        Call("iam", "list_roles", {}),
        Call("lambda", "list_functions", {}),
        Call("lambda", "invoke", {"FunctionName": outputs["FunctionName"]}),
        Call("logs", "describe_log_groups", {}),
        Call("events", "list_rules", {}),
        Call("kms", "list_keys", {}),
        Call("secretsmanager", "list_secrets", {}),
        Call("ssm", "get_parameter", {"Name": "/cdk-bootstrap/hnb659fds/version"}),
        Call("elasticache", "describe_users", {}),
        Call("ec2", "describe_vpcs", {}),
    ]
    worker = [
        # What the worker does, as a control: these are not refused.
        Call("dynamodb", "put_item", {**table, "Item": key}, allowed=True),
        Call("dynamodb", "batch_get_item", get, allowed=True),
        Call("s3", "put_object", {**bucket, "Key": "results/probe", "Body": b""}, allowed=True),
        Call("s3", "get_object", {**bucket, "Key": "results/probe"}, allowed=True),
        Call("s3", "get_object", {**bucket, "Key": "flights/2013-01.csv"}, allowed=True),
        Call("sqs", "get_queue_attributes", queue, allowed=True),
        # The table: no reading through it, no deleting, nothing about the table itself.
        Call("dynamodb", "scan", table),
        Call("dynamodb", "query", {**pending, "IndexName": "pending"}),
        Call("dynamodb", "get_item", {**table, "Key": key}),
        Call("dynamodb", "delete_item", {**table, "Key": key}),
        Call("dynamodb", "describe_table", table),
        Call("dynamodb", "delete_table", table),
        Call("dynamodb", "put_item", {"TableName": "other", "Item": key}),
        Call("dynamodb", "list_tables", {}),
        # The bucket: source data is read, results are written, nothing is deleted.
        Call("s3", "put_object", {**bucket, "Key": "flights/2013-01.csv", "Body": b""}),
        Call("s3", "delete_object", {**bucket, "Key": "results/probe"}),
        Call("s3", "put_object", {**bucket, "Key": "elsewhere", "Body": b""}),
        Call("s3", "get_object", {**bucket, "Key": "elsewhere"}),
        Call("s3", "delete_bucket", bucket),
        Call("s3", "put_bucket_versioning", {**bucket, "VersioningConfiguration": {}}),
        Call("s3", "list_buckets", {}),
        # The queues: dead letters are sent, not read; neither is emptied or changed.
        Call("sqs", "purge_queue", queue),
        Call("sqs", "delete_queue", queue),
        Call("sqs", "set_queue_attributes", {**queue, "Attributes": {}}),
        Call("sqs", "receive_message", letters),
        Call("sqs", "delete_message", {**letters, **receipt}),
        Call("sqs", "purge_queue", letters),
        Call("sqs", "list_queues", {}),
        # What an attacker would try first: other roles, and everything else.
        Call("iam", "attach_role_policy", _administrator(role)),
        Call("sts", "assume_role", {"RoleArn": recover_role, "RoleSessionName": "probe"}),
        *everything_else,
    ]
    recover = [
        # It reads the index, which holds keys, and nothing of the table itself.
        Call("dynamodb", "query", {**pending, "IndexName": "pending"}, allowed=True),
        Call("dynamodb", "scan", table),
        Call("dynamodb", "batch_get_item", get),
        Call("dynamodb", "put_item", {**table, "Item": key}),
        Call("dynamodb", "update_item", {**table, "Key": key}),
        Call("s3", "get_object", {**bucket, "Key": "results/probe"}),
        Call("s3", "get_object", {**bucket, "Key": "flights/2013-01.csv"}),
        Call("sqs", "receive_message", queue),
        Call("sqs", "send_message", {**queue, "MessageBody": "probe"}),
        Call("iam", "attach_role_policy", _administrator(recover_role)),
        Call("sts", "assume_role", {"RoleArn": role, "RoleSessionName": "probe"}),
        *everything_else,
    ]
    return {"reports": worker, "recover": recover}


def _administrator(role: str) -> dict[str, str]:
    name = role.rpartition("/")[2]
    return {"RoleName": name, "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}


def prove_refusals(deployment: Deployment) -> Iterator[str]:
    """Make the calls with the role of each function; list those that were refused.

    Raises:
        Shortfall: A call that must be refused was not, or the other way round.
    """
    roles = {name: deployment.function(name)["Role"] for name in ("reports", "recover")}
    tried = calls(deployment.outputs, role=roles["reports"], recover_role=roles["recover"])
    codes = {name: _try(deployment, tried[name], role=roles[name]) for name in tried}
    wrong = [
        f"{name}: {call} ({'should be allowed' if call.allowed else 'must be refused'}):"
        f" {code or 'done'}"
        for name, made in tried.items()
        for call, code in zip(made, codes[name], strict=True)
        if (code in REFUSALS) == call.allowed
    ]
    if wrong:
        raise Shortfall("a role is not what it should be: " + "; ".join(wrong))
    refused = {name: [one for one in made if not one.allowed] for name, made in tried.items()}
    allowed = sum(one.allowed for made in tried.values() for one in made)
    yield (
        f"{sum(map(len, refused.values()))} calls refused, {allowed} that the functions need are"
        " not"
    )
    for name, made in refused.items():
        for service in dict.fromkeys(one.service for one in made):
            operations = [one.operation for one in made if one.service == service]
            yield f"  {name:<8} {service:<15} {', '.join(operations)}"


def _try(deployment: Deployment, tried: list[Call], *, role: str) -> list[str]:
    functions = deployment.client("lambda")
    functions.create_function(
        FunctionName=PROBE,
        Role=role,
        Runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
        Handler="probe.handler",
        Code={"ZipFile": _zipped()},
        Timeout=60,
    )
    event = [[one.service, one.operation, _as_json(one.arguments)] for one in tried]
    try:
        codes = deployment.invoke(PROBE, event)
    finally:
        functions.delete_function(FunctionName=PROBE)
        # Lambda made it, and keeps it.
        deployment.client("logs").delete_log_group(logGroupName=f"/aws/lambda/{PROBE}")
    if not isinstance(codes, list):
        raise Shortfall(f"the probe failed: {codes}")
    return codes


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("probe.py", _SOURCE)
    return packed.getvalue()


def _as_json(arguments: dict[str, Any]) -> dict[str, Any]:  # Any: arguments of any operation
    return {name: "" if value == b"" else value for name, value in arguments.items()}
