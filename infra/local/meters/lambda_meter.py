"""AWS/Lambda: invocations, errors, durations, throttles, and what the mappings polled.

https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import Datum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local.cloudwatch.store import MetricStore
    from infra.local.event_source import Delivery
    from infra.local.fleet import Fleet, Invocation
    from infra.local.template import Function

_NAMESPACE: Final = "AWS/Lambda"


class LambdaMeter:
    """Puts what becomes of each invocation and of each batch."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store

    def invoked(self, function: Function, invocation: Invocation) -> None:
        """Take in the end of an invocation; one that was throttled was none."""
        at = time.time()
        outcome = invocation.outcome
        if outcome.kind == "throttled":
            self._put(function, "Throttles", 1.0, "Count", at)
            return
        failed = float(outcome.kind != "answered")
        self._put(function, "Invocations", 1.0, "Count", at)
        self._put(function, "Errors", failed, "Count", at)
        self._put(function, "Throttles", 0.0, "Count", at)
        self._put(function, "Duration", outcome.seconds * 1000, "Milliseconds", at)

    def delivered(self, mapping: str, delivery: Delivery) -> None:
        """Take in what became of one message of a mapping."""
        handed_over = delivery.outcome != "throttled"
        counts = Counter(
            PolledEventCount=1,
            InvokedEventCount=int(handed_over),
            FailedInvokeEventCount=int(delivery.outcome != "answered"),
            DeletedEventCount=int(delivery.deleted),
        )
        named = {"EventSourceMappingUUID": mapping}
        self._store.put(
            Datum(
                name=metric(_NAMESPACE, name, named),
                values=((float(count), 1.0),),
                unit="Count",
                at=delivery.at,
            )
            for name, count in counts.items()
        )

    def sample(self, fleets: Mapping[str, Fleet], functions: Mapping[str, Function]) -> None:
        """Read how many environments are at work."""
        at = time.time()
        for logical_id, fleet in fleets.items():
            if fleet.busy:
                self._put(
                    functions[logical_id], "ConcurrentExecutions", float(fleet.busy), "Count", at
                )

    def _put(self, function: Function, name: str, value: float, unit: str, at: float) -> None:
        self._store.put(
            # Of the function over all of its versions, and of the account.
            Datum(
                name=metric(_NAMESPACE, name, dimensions),
                values=((value, 1.0),),
                unit=unit,
                at=at,
            )
            for dimensions in ({"FunctionName": function.name}, {})
        )
