"""A deployed stack, reached from outside with boto3."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from infra.rehearsal.servers import REGION, Cloud

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

Json = Any  # Whatever a function answers, or a template refers to.

STACK: Final = "Sekali-dev"
TOOLKIT: Final = "CDKToolkit"


class Shortfall(AssertionError):
    """The deployed stack did not do what it must; the text says what was found."""


class Account:
    """The account of the person who deploys, with every right."""

    def __init__(self, cloud: Cloud) -> None:
        import boto3

        self.cloud = cloud
        self._session = boto3.Session(
            aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION
        )

    def client(self, service: str) -> Any:  # Any: a client of whichever service
        """Make a client that trusts the rehearsal's certificate."""
        return self._session.client(  # type: ignore[call-overload]  # Any service.
            service,
            endpoint_url=self.cloud.endpoint,
            verify=self.cloud.variables["AWS_CA_BUNDLE"],
        )

    def status(self, stack: str) -> str:
        """Answer what CloudFormation says of a stack."""
        (found,) = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return f"stack {stack} is {found['StackStatus']}"


class Deployment(Account):
    """A deployed stack: its parts by their logical ids, and clients for them."""

    def __init__(self, cloud: Cloud, outputs: Mapping[str, str]) -> None:
        super().__init__(cloud)
        self.outputs = dict(outputs)
        self.sqs: SQSClient = self.client("sqs")
        self.dynamodb: DynamoDBClient = self.client("dynamodb")
        self.s3: S3Client = self.client("s3")

    @cached_property
    def resources(self) -> dict[str, dict[str, str]]:
        """The stack's resources as CloudFormation lists them, by logical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return {
            one["LogicalResourceId"]: one
            for page in pages.paginate(StackName=STACK)
            for one in page["StackResourceSummaries"]
        }

    def physical_id(self, reference: Json) -> str:
        """Follow a reference of the template to the resource that was made."""
        name = reference.get("Ref") or reference["Fn::GetAtt"][0]
        return self.resources[name]["PhysicalResourceId"]

    def all_made(self) -> str:
        """Count the resources that were made.

        Raises:
            Shortfall: Some were not.
        """
        statuses = [one["ResourceStatus"] for one in self.resources.values()]
        made = statuses.count("CREATE_COMPLETE")
        if made != len(statuses):
            raise Shortfall(f"{made} of {len(statuses)} resources were made")
        return f"{self.status(STACK)}: {made} of {len(statuses)} resources"

    def function(self, handler: str) -> Json:
        """Answer the configuration of the function behind a module of `handlers`."""
        listed = self.client("lambda").list_functions()["Functions"]
        (found,) = [one for one in listed if one["Handler"] == f"handlers.{handler}.handler"]
        return found

    def invoke(self, name: str, event: Json) -> Json:
        """Call a function and wait for its answer.

        Raises:
            Shortfall: It failed.
        """
        answer = self.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        body = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise Shortfall(f"{name} failed: {body}")
        return body

    def rows(self) -> dict[str, Json]:
        """Read the table of results."""
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.outputs["TableName"])
        return {item["pk"]["S"]: item for page in pages for item in page["Items"]}

    def messages(self, output: str) -> int:
        """Count the messages of a queue, whatever they wait for."""
        found = self.sqs.get_queue_attributes(
            QueueUrl=self.outputs[output], AttributeNames=["All"]
        )["Attributes"]
        return (
            int(found["ApproximateNumberOfMessages"])
            + int(found["ApproximateNumberOfMessagesNotVisible"])
            + int(found["ApproximateNumberOfMessagesDelayed"])
        )
