"""Try calls with the worker's role: those that it needs, and those that must be refused."""

import io
import json
import sys
import zipfile
from dataclasses import dataclass
from typing import Any, Final

from infra.rehearsal.jobs import Deployment, Shortfall

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


def calls(outputs: dict[str, str], *, role: str) -> list[Call]:
    """List what is tried. A key, a queue or a prefix that is not the worker's stands beside."""
    table, bucket = {"TableName": outputs["TableName"]}, {"Bucket": outputs["BucketName"]}
    queue, letters = ({"QueueUrl": outputs[name]} for name in ("QueueUrl", "DeadLetterQueueUrl"))
    key = {"pk": {"S": "probe/1"}}
    receipt = {"ReceiptHandle": "none"}
    return [
        # What the worker does, as a control: these are not refused.
        Call("dynamodb", "put_item", {**table, "Item": key}, allowed=True),
        Call(
            "dynamodb",
            "batch_get_item",
            {"RequestItems": {outputs["TableName"]: {"Keys": [key]}}},
            allowed=True,
        ),
        Call("s3", "put_object", {**bucket, "Key": "results/probe", "Body": b""}, allowed=True),
        Call("s3", "get_object", {**bucket, "Key": "results/probe"}, allowed=True),
        Call("s3", "get_object", {**bucket, "Key": "flights/2013-01.csv"}, allowed=True),
        Call("sqs", "get_queue_attributes", queue, allowed=True),
        # The table: no reading through it, no deleting, nothing about the table itself.
        Call("dynamodb", "scan", table),
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
        # Everything else that an attacker would try first.
        Call("iam", "create_user", {"UserName": "probe"}),
        Call("iam", "list_roles", {}),
        Call(
            "iam",
            "attach_role_policy",
            {
                "RoleName": role.rpartition("/")[2],
                "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess",
            },
        ),
        Call("sts", "assume_role", {"RoleArn": role, "RoleSessionName": "probe"}),
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


def prove_refusals(deployment: Deployment) -> str:
    """Make the calls as the worker's role; answer the list of those that were refused.

    Raises:
        Shortfall: A call that must be refused was not, or the other way round.
    """
    functions = deployment.client("lambda")
    worker = functions.get_function_configuration(FunctionName=deployment.outputs["FunctionName"])
    functions.create_function(
        FunctionName=PROBE,
        Role=worker["Role"],
        Runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
        Handler="probe.handler",
        Code={"ZipFile": _zipped()},
        Timeout=60,
    )
    try:
        tried = calls(deployment.outputs, role=worker["Role"])
        event = [[one.service, one.operation, _as_json(one.arguments)] for one in tried]
        answer = functions.invoke(FunctionName=PROBE, Payload=json.dumps(event).encode())
        codes = json.loads(answer["Payload"].read())
    finally:
        functions.delete_function(FunctionName=PROBE)
    if not isinstance(codes, list):
        raise Shortfall(f"the probe failed: {codes}")
    wrong = [
        f"{call} ({'should be allowed' if call.allowed else 'must be refused'}): {code or 'done'}"
        for call, code in zip(tried, codes, strict=True)
        if (code in REFUSALS) == call.allowed
    ]
    if wrong:
        raise Shortfall("the worker's role is not what it should be: " + "; ".join(wrong))
    refused = [str(call) for call in tried if not call.allowed]
    return f"  {len(refused)} calls refused: {', '.join(refused)}"


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("probe.py", _SOURCE)
    return packed.getvalue()


def _as_json(arguments: dict[str, Any]) -> dict[str, Any]:  # Any: arguments of any operation
    return {name: "" if value == b"" else value for name, value in arguments.items()}
