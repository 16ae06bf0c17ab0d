"""AWS/DynamoDB: capacity, latency, throttles and refused conditions, from the functions' calls.

Capacity is reckoned from what is sent: a write takes a unit for each KiB of its item, a read half a
unit for each key (eventually consistent, up to 4 KiB).
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import Datum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local.aws_calls import AwsCall
    from infra.local.cloudwatch.store import MetricStore

_NAMESPACE: Final = "AWS/DynamoDB"
_READS: Final = frozenset({"BatchGetItem", "GetItem", "Query", "Scan"})
_THROTTLED: Final = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException"})
_CONDITIONS: Final = frozenset({"ConditionalCheckFailedException"})
_SERVER_ERROR: Final = 500
_KIB: Final = 1024
_UNITS_PER_KEY: Final = 0.5


class DynamoDbMeter:
    """Puts what became of each call to a table."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store

    def heard(self, call: AwsCall) -> None:
        """Take in a function's call."""
        if call.service != "dynamodb" or not call.targets:
            return
        table = call.targets[0]
        of_table, of_operation = {"TableName": table}, {"TableName": table}
        of_operation["Operation"] = call.operation
        reads = call.operation in _READS
        if call.accepted:
            milliseconds = call.seconds * 1000
            self._put("SuccessfulRequestLatency", milliseconds, call, of_operation, "Milliseconds")
            name = "ConsumedReadCapacityUnits" if reads else "ConsumedWriteCapacityUnits"
            self._put(name, _read_units(call) if reads else _write_units(call), call, of_table)
        elif call.refusal in _THROTTLED:
            self._put("ThrottledRequests", 1.0, call, of_operation)
            self._put("ReadThrottleEvents" if reads else "WriteThrottleEvents", 1.0, call, of_table)
        elif call.refusal in _CONDITIONS:
            self._put("ConditionalCheckFailedRequests", 1.0, call, of_table)
        elif call.status >= _SERVER_ERROR:
            self._put("SystemErrors", 1.0, call, of_operation)
        else:
            self._put("UserErrors", 1.0, call, {})

    def _put(
        self,
        name: str,
        value: float,
        call: AwsCall,
        dimensions: Mapping[str, str],
        unit: str = "Count",
    ) -> None:
        named = metric(_NAMESPACE, name, dimensions)
        self._store.put([Datum(name=named, values=((value, 1.0),), unit=unit, at=call.at)])


def _read_units(call: AwsCall) -> float:
    return _UNITS_PER_KEY * call.entries


def _write_units(call: AwsCall) -> float:
    sizes = [len(json.dumps(item)) for _, item in call.items] or [call.request_bytes]
    return float(sum(max(1, math.ceil(size / _KIB)) for size in sizes))
