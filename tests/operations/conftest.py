"""A local stack for the rehearsals, which break it; nobody else may share it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.pace import Pace
from infra.local.stack import LocalStack
from infra.local.synthesis import synthesize
from sekali import Producer
from sekali.cli import shelf
from tests.cli.conftest import Sekali
from tests.flight_data import invented_month

if TYPE_CHECKING:
    from collections.abc import Iterator

MONTH = "2013-01"


@pytest.fixture(scope="session")
def stack() -> Iterator[LocalStack]:
    """Run the stack of the demo, with one invented month of flights and short minutes."""
    with LocalStack(synthesize(), pace=Pace(minute_seconds=2.0)) as started:
        (bucket,) = started.template.buckets.values()
        started.aws.s3.put_object(
            Bucket=bucket, Key=f"flights/{MONTH}.csv", Body=invented_month(MONTH).encode()
        )
        yield started


@pytest.fixture(autouse=True)
def _no_long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "WAIT_SECONDS", 0)


@pytest.fixture
def sekali(stack: LocalStack, capsys: pytest.CaptureFixture[str]) -> Sekali:
    """Run the command on this stack."""
    return Sekali(capsys, str(stack.folder))


@pytest.fixture(scope="session")
def producer(stack: LocalStack) -> Producer:
    """Return who sends the jobs that go wrong, and waits for their results."""
    (table,) = stack.template.tables
    clients: dict[str, Any] = {
        "sqs": stack.aws.sqs,
        "dynamodb": stack.aws.dynamodb,
        "s3": stack.aws.s3,
    }  # Any: boto3's
    return Producer(
        stack.aws.queue_url(stack.source_queue()),
        table_name=table.name,
        client_factory=lambda service: clients[service],
        sleep=lambda _: time.sleep(0.05),
    )
