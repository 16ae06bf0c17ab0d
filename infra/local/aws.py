"""SQS, DynamoDB and S3 on this machine: ministack, stock, on loopback, through its HTTP interface.

It has a virtual environment of its own (`.venv-ministack`, made by `make`), because it pins
botocore. Its Lambda is not used. What it does not do: a message's trace header is lost in
`SendMessageBatch`; a message goes to the dead letters at the next receive of its queue.
"""

import os
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.local import differences
from infra.local.processes import Nursery
from infra.local.relay import Address
from infra.local.template import Queue, Table, Template
from infra.local.valkey import ServerNotReady, free_port

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sqs.client import SQSClient

_READY_WITHIN_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.02
_ATTEMPTS: Final = 5
_CONNECTIONS: Final = 64
PYTHON: Final = Path(__file__).parents[2] / ".venv-ministack" / "bin" / "python"


def start(nursery: Nursery, *, folder: Path) -> Address:
    """Start the server with all of its files in `folder`; answer its address once it serves.

    Raises:
        ServerNotReady: It never answered, or is not installed (`make setup`).
    """
    if not PYTHON.exists():
        raise ServerNotReady("ministack", f"{PYTHON} does not exist: run `make setup`")
    log = folder / "ministack.log"
    for _ in range(_ATTEMPTS):
        port = free_port()
        with log.open("ab") as output:
            child = nursery.start(
                [str(PYTHON), "-m", "ministack"],
                variables=_variables(port, folder),
                folder=folder,
                output=output,
            )
        deadline = time.monotonic() + _READY_WITHIN_SECONDS
        while time.monotonic() < deadline and child.alive:
            if _healthy(port):
                return ("127.0.0.1", port)
            time.sleep(_POLL_SECONDS)
        child.kill()
    raise ServerNotReady("ministack", log.read_text(errors="replace"))


def _variables(port: int, folder: Path) -> dict[str, str]:
    return {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # It would listen on a fixed port.
        "LOG_LEVEL": "WARNING",
        "MINISTACK_REGION": differences.REGION,
        "PATH": os.environ["PATH"],
        "SERVICES": "dynamodb,s3,sqs",
        "TMPDIR": str(folder),
    }


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/_ministack/health", timeout=1.0
        ) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - OK
    except OSError:
        return False


class Aws:
    """Clients of the server, for whoever stands outside the functions, and the stack's resources.

    The functions come through doors of their own (`doors.py`); this is the direct way.
    """

    def __init__(self, address: Address) -> None:
        # Imported here: reading a template needs no boto3.
        import boto3
        from botocore.config import Config

        host, port = address
        self.endpoint = f"http://{host}:{port}"
        session = boto3.Session(
            aws_access_key_id="local",
            aws_secret_access_key="local",
            region_name=differences.REGION,
        )
        # A receive waits a second at most; more than ten means that the server hangs.
        config = Config(
            max_pool_connections=_CONNECTIONS,
            connect_timeout=2.0,
            read_timeout=10.0,
            retries={"total_max_attempts": 3},
        )
        endpoint = self.endpoint
        self.sqs: SQSClient = session.client("sqs", endpoint_url=endpoint, config=config)
        self.dynamodb: DynamoDBClient = session.client(
            "dynamodb", endpoint_url=endpoint, config=config
        )
        self.s3: S3Client = session.client("s3", endpoint_url=endpoint, config=config)

    def close(self) -> None:
        """Hang up."""
        for client in (self.sqs, self.dynamodb, self.s3):
            client.close()

    def queue_url(self, queue: Queue) -> str:
        """Answer a queue's URL as it is reached directly."""
        return differences.queue_url(queue.url, aws_endpoint=self.endpoint)

    def create(self, template: Template) -> None:
        """Create the stack's queues, tables and buckets as the template describes them."""
        for queue in template.queues.values():
            self.sqs.create_queue(
                QueueName=queue.name,
                Attributes={
                    name: value  # type: ignore[misc]  # The stubs want literal names.
                    for name, value in queue.attributes.items()
                    if name != "RedrivePolicy"
                },
            )
        # A queue's dead letters must exist first, and may stand anywhere in the template.
        for queue in template.queues.values():
            if "RedrivePolicy" in queue.attributes:
                self.sqs.set_queue_attributes(
                    QueueUrl=self.queue_url(queue),
                    Attributes={"RedrivePolicy": queue.attributes["RedrivePolicy"]},
                )
        for table in template.tables:
            self._create_table(table)
        for bucket in template.buckets.values():
            self.s3.create_bucket(Bucket=bucket)

    def _create_table(self, table: Table) -> None:
        self.dynamodb.create_table(**table.definition)
        if table.ttl_attribute is not None:
            self.dynamodb.update_time_to_live(
                TableName=table.name,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl_attribute},
            )
