"""Give the deployed stack work, and look at what it made of it."""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from infra.rehearsal.servers import REGION, Cloud

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

MONTH: Final = "2013-01"
CARRIERS: Final = ("UA", "B6", "DL")
JOBS: Final = 24
COPIES: Final = 6
# Longer than a visibility timeout: a cold start on a busy machine may cost one.
_WITHIN_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.25
# One month with three flights of each carrier, each one minute later than the one before.
_FLIGHTS: Final = "\n".join(
    [
        "carrier,origin,dest,hour,dep_delay,arr_delay",
        *(
            f"{carrier},JFK,LAX,{9 + late},{late},{late}"
            for carrier in CARRIERS
            for late in (0, 1, 2)
        ),
        "",
    ]
)


class Shortfall(AssertionError):
    """The deployed stack did not do what it must; the text says what was found."""


class Deployment:
    """A deployed stack, reached from outside with boto3."""

    def __init__(self, cloud: Cloud, outputs: Mapping[str, str]) -> None:
        import boto3

        self.cloud, self.outputs = cloud, dict(outputs)
        self._session = boto3.Session(
            aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION
        )
        self.sqs: SQSClient = self.client("sqs")
        self.dynamodb: DynamoDBClient = self.client("dynamodb")
        self.s3: S3Client = self.client("s3")

    def client(self, service: str) -> Any:  # Any: a client of whichever service
        """Make a client that trusts the rehearsal's certificate."""
        return self._session.client(  # type: ignore[call-overload]  # Any service.
            service,
            endpoint_url=self.cloud.endpoint,
            verify=self.cloud.variables["AWS_CA_BUNDLE"],
        )

    def work(self) -> str:
        """Send jobs, some of them twice and some that cannot be done; answer what came of them.

        Raises:
            Shortfall: A job has no result, or a bad message is not among the dead letters.
        """
        self.s3.put_object(
            Bucket=self.outputs["BucketName"],
            Key=f"flights/{MONTH}.csv",
            Body=_FLIGHTS.encode(),
        )
        expected = {f"delay-report/job-{number}" for number in range(JOBS)}
        bad = ["not JSON", _message("no-month", month="2013-02")]
        good = [_message(f"job-{number}", carrier=_carrier(number)) for number in range(JOBS)]
        for body in [*good, *good[:COPIES], *bad]:
            self.sqs.send_message(QueueUrl=self.outputs["QueueUrl"], MessageBody=body)
        deadline = time.monotonic() + _WITHIN_SECONDS
        rows: dict[str, Any] = {}
        letters = 0
        while time.monotonic() < deadline:
            rows, letters = self._rows(), self._waiting("DeadLetterQueueUrl")
            if expected <= rows.keys() and letters >= len(bad) and not self._waiting("QueueUrl"):
                break
            time.sleep(_POLL_SECONDS)
        done = {pk for pk, row in rows.items() if row["st"]["S"] == "done"}
        if not expected <= done or letters != len(bad):
            raise Shortfall(
                f"{len(expected & done)} of {JOBS} jobs are done and {letters} of {len(bad)} dead"
                f" letters came; {self._waiting('QueueUrl')} messages wait;"
                f" the server says:\n{self.cloud.log.read_text(errors='replace')[-6000:]}"
            )
        return (
            f"  {JOBS + COPIES} messages, {JOBS} jobs: {len(done & expected)} rows, each done once;"
            f" {letters} dead letters; {self.cloud.cache.connections} TLS connections to the cache"
        )

    def empty(self) -> None:
        """Remove the objects: a bucket that holds some is not deleted with its stack."""
        bucket = self.outputs["BucketName"]
        found = self.s3.list_object_versions(Bucket=bucket)
        for one in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]:
            self.s3.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])

    def left_over(self) -> str:
        """Look for what a destroyed stack left behind.

        Raises:
            Shortfall: Something is still there.
        """
        left = [
            *(url for url in self.sqs.list_queues().get("QueueUrls", []) if "Sekali" in url),
            *(name for name in self.dynamodb.list_tables()["TableNames"] if "Sekali" in name),
            *(
                one["FunctionName"]
                for one in self.client("lambda").list_functions()["Functions"]
                if one["FunctionName"].startswith("Sekali")
            ),
            *(
                one["Name"]
                for one in self.s3.list_buckets()["Buckets"]
                if one["Name"].startswith("sekali")
            ),
        ]
        if left:
            raise Shortfall(f"left behind: {', '.join(left)}")
        return "  nothing of the stack is left"

    def _rows(self) -> dict[str, Any]:  # Any: items as DynamoDB hands them over
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.outputs["TableName"])
        return {item["pk"]["S"]: item for page in pages for item in page["Items"]}

    def _waiting(self, output: str) -> int:
        found = self.sqs.get_queue_attributes(
            QueueUrl=self.outputs[output],
            AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )["Attributes"]
        return int(found["ApproximateNumberOfMessages"]) + int(
            found["ApproximateNumberOfMessagesNotVisible"]
        )


def _carrier(number: int) -> str:
    return CARRIERS[number % len(CARRIERS)]


def _message(job_id: str, *, month: str = MONTH, carrier: str = CARRIERS[0]) -> str:
    """Write the message by hand, as a producer in another language does (docs/message.md)."""
    return json.dumps(
        {
            "sekali": 1,
            "id": job_id,
            "name": "delay-report",
            "payload": {"month": month, "carrier": carrier},
        }
    )
