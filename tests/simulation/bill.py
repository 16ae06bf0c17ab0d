"""What a month costs, by formulas that stand here and inputs that stand in docs/prices.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.simulation.outcome import Outcome

PRICES: Final = Path(__file__).parents[2] / "docs" / "prices.toml"
HOURS: Final = 730
MILLION: Final = 1_000_000
# A receive or a delete takes ten messages, and so does a send.
PER_CALL: Final = 10

Section = dict[str, Any]  # Any: TOML


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """USD per month of one workload, by service."""

    workload: str
    jobs: int
    lines: Mapping[str, float]

    @property
    def total(self) -> float:
        """Return the sum."""
        return sum(self.lines.values())

    @property
    def per_million(self) -> float:
        """Return USD per million jobs."""
        return self.total / self.jobs * MILLION


def bills(inputs: Path = PRICES) -> Iterator[tuple[Bill, Bill]]:
    """Yield each workload's bill, ours first, then the one of the stack that is made by hand.

    Raises:
        KeyError: An input is missing; it is named.
    """
    given = tomllib.loads(inputs.read_text(encoding="utf-8"))
    for workload in given["workloads"]:
        yield (
            _bill(given, workload, given["ours"], given["stack"]["metrics_ours"]),
            _bill(given, workload, given["by_hand"], given["stack"]["metrics_by_hand"]),
        )


def billed_seconds(stack: Section, side: Section, workload: Section) -> float:
    """Return the seconds of one invocation: the bodies, the worker, the waits."""
    records, runs = workload["batch"], workload["batch"] * workload["runs_share"]
    waits = (
        side["waits_per_batch"]
        + runs * side["waits_per_cold_record"]
        + (records - runs) * side["waits_per_answered_record"]
    )
    # A record is written once for each body that ran, and once for each id that was answered.
    writes = records if workload["durable"] else 0
    return float(
        runs * workload["body_seconds"]
        + records * side["record_seconds"]
        + waits * stack["round_trip_seconds"]
        + writes * stack["table_write_seconds"]
    )


def usd_per_million(outcome: Outcome, inputs: Path = PRICES) -> float:
    """Return what Lambda and SQS cost for a million jobs as those of a run of the model."""
    given = tomllib.loads(inputs.read_text(encoding="utf-8"))
    prices = given["prices"]
    jobs = max(1, len(outcome.latencies))
    calls = outcome.queue_calls + jobs / PER_CALL
    together = (
        outcome.invocations / MILLION * prices["lambda_million_requests"]
        + outcome.billed_seconds * given["stack"]["memory_gb"] * prices["lambda_gb_second"]
        + calls / MILLION * prices["sqs_million_requests"]
    )
    return float(together / jobs * MILLION)


def _bill(given: Section, workload: Section, side: Section, metrics: int) -> Bill:
    prices, stack = given["prices"], given["stack"]
    jobs = workload["jobs"]
    invocations = jobs / workload["batch"]
    seconds = invocations * billed_seconds(stack, side, workload)
    calls = jobs / PER_CALL + 2 * jobs / min(workload["batch"], PER_CALL)
    return Bill(
        workload=workload["name"],
        jobs=jobs,
        lines={
            "Lambda requests": invocations / MILLION * prices["lambda_million_requests"],
            "Lambda seconds": seconds * stack["memory_gb"] * prices["lambda_gb_second"],
            "SQS": calls / MILLION * prices["sqs_million_requests"],
            "DynamoDB": jobs * workload["durable"] / MILLION * prices["dynamodb_million_writes"],
            "cache nodes": prices["cache_nodes"] * prices["cache_node_hour"] * HOURS,
            "CloudWatch metrics": metrics * prices["metric_month"],
            "CloudWatch logs": jobs * stack["log_bytes_per_record"] / 1e9 * prices["logs_gb"],
            "traces": invocations * stack["traced_share"] / MILLION * prices["traces_million"],
        },
    )
