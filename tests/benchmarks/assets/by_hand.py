"""The same job on the stack that is made by hand; `hand_made` lies beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hand_made import HandMade  # type: ignore[import-not-found]  # it lies beside this file there

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = os.environ["SEKALI_TABLE_NAME"]
_dynamodb = boto3.client("dynamodb")
_logger = Logger(service="bench")
_metrics = Metrics(namespace="Bench", service="bench")


class Told:
    """One log line and three metrics per record."""

    def record(self, job_id: str) -> None:
        """Tell of one record."""
        _logger.info("record done", job="square", id=job_id, outcome="done")
        _metrics.add_metric(name="JobsCompleted", unit=MetricUnit.Count, value=1)
        _metrics.add_metric(name="QueueDelay", unit=MetricUnit.Milliseconds, value=3.5)
        _metrics.add_metric(name="RunTime", unit=MetricUnit.Milliseconds, value=1.5)

    def batch(self) -> None:
        """Write the metrics."""
        _metrics.flush_metrics()


def compute(payload: Mapping[str, Any]) -> dict[str, object]:  # Any: the payload's own JSON
    """Do next to nothing."""
    return {"n": payload["n"], "answer": 42}


def record(job_id: str, result: str) -> None:
    """Keep the first result of an id, as a careful engineer does."""
    try:
        _dynamodb.put_item(
            TableName=TABLE,
            Item={"pk": {"S": f"square#{job_id}"}, "result": {"S": result}},
            ConditionExpression="attribute_not_exists(pk)",
        )
    except _dynamodb.exceptions.ConditionalCheckFailedException:
        return


handler = HandMade(
    os.environ["SEKALI_CACHE_URL"].replace("valkey://", "redis://"),
    compute,
    record=record if os.environ["SEKALI_DURABLE_MODE"] == "recorded" else None,
    telling=Told(),
).handler
