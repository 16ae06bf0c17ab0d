"""Run a table of results on this machine, and write into it as the hand-made stack does."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from infra.local import aws
from infra.local.processes import Nursery

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "results"


@dataclass(frozen=True)
class Table:
    """A table over HTTP, and one client of it."""

    endpoint: str
    client: Any  # Any: boto3's client

    def record(self, job_id: str, result: str) -> None:
        """Write one outcome unless there is one already: what the library writes, by hand."""
        self.client.put_item(
            TableName=TABLE,
            Item={
                "pk": {"S": f"square/{job_id}"},
                "st": {"S": "done"},
                "result": {"B": result.encode()},
                "expires": {"N": str(int(time.time()) + 1_209_600)},
            },
            ConditionExpression="attribute_not_exists(pk)",
        )


@contextmanager
def started_table() -> Iterator[Table]:
    """Start the server of AWS interfaces and make the table."""
    nursery = Nursery()
    with tempfile.TemporaryDirectory(prefix="sekali-bench-") as folder:
        try:
            host, port = aws.start(nursery, folder=Path(folder))
            endpoint = f"http://{host}:{port}"
            client = boto3.client("dynamodb", endpoint_url=endpoint)
            client.create_table(
                TableName=TABLE,
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
            yield Table(endpoint, client)
        finally:
            nursery.close()
