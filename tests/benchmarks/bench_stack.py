"""Measure the throughput of the whole stack of one machine, ours beside the one made by hand.

Queue server, poller, the genuine runtime client, cache and table are the same; only the function's
code differs. Everything is in the queue when the pollers start, and the clock stops when the last
message is deleted. Environments start in that time as well. Both sides log a line and three
metrics per record and write the same table.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from infra.local.stack import LocalStack
from tests.benchmarks.harness import Row, Sample, benchmark
from tests.benchmarks.loads import KINDS, Load
from tests.chaos.deployment import Deployment, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.loads import Kind

HERE: Final = Path(__file__).parent
JOBS: Final = 1_200
ROUNDS: Final = 2
_PER_CALL: Final = 10
_DRAINED_WITHIN_SECONDS: Final = 120.0

Side = Literal["sekali", "by hand"]
SIDES: Final[tuple[Side, ...]] = ("sekali", "by hand")


@benchmark("stack, jobs per second")
def jobs_per_second() -> Iterator[Row]:
    """Compare the seconds per job, which is what a budget can bound; the note tells the rate."""
    told: dict[tuple[Side, Kind], list[float]] = {}
    for turn in range(ROUNDS):
        for side in SIDES if turn % 2 == 0 else reversed(SIDES):
            for kind, seconds in _measured(side):
                told.setdefault((side, kind), []).append(seconds)
    for kind in KINDS:
        ours, theirs = (Sample(tuple(told[side, kind])) for side in SIDES)
        yield Row(
            f"whole stack, {kind}",
            ours.times(1e3),
            "ms per job",
            peer="made by hand",
            peer_value=theirs.times(1e3),
            ratio_at_most=1,
            note=f"{1 / ours.median:,.0f} jobs per second, by hand {1 / theirs.median:,.0f}",
        )


def _measured(side: Side) -> Iterator[tuple[Kind, float]]:
    """Run each load on a stack of its own side and yield seconds per job."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        deployment = Deployment(
            code=_asset(folder / "code", side),
            handler="handler.handler",
            timeout_seconds=30,
            visibility_seconds=60,
            lease_seconds=10.0,
            max_concurrency=2,
            settings={"SEKALI_DURABLE_MODE": "recorded", "POWERTOOLS_LOG_LEVEL": "INFO"},
        )
        with LocalStack(write(folder / "cdk.out", deployment, sources=folder), poll=False) as stack:
            stack.start_polling()
            for kind in KINDS:
                load = Load(kind, name=f"{side.replace(' ', '-')}-{kind.replace(' ', '-')}")
                _drain(stack, [record["body"] for record in load.warm_up()["Records"]])
                bodies = [record["body"] for record in load.batch(JOBS)["Records"]]
                yield kind, _drain(stack, bodies) / JOBS


def _drain(stack: LocalStack, bodies: list[str]) -> float:
    """Send everything and return the seconds from the first send to the last deletion."""
    queue = stack.source_queue()
    url = stack.aws.queue_url(queue)
    before, began = len(stack.deliveries), time.time()
    for first in range(0, len(bodies), _PER_CALL):
        entries: list[Any] = [  # Any: the stub's type of an entry
            {"Id": str(index), "MessageBody": body}
            for index, body in enumerate(bodies[first : first + _PER_CALL])
        ]
        stack.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)
    stack.wait_until_drained(queue, within_seconds=_DRAINED_WITHIN_SECONDS)
    while len(stack.deliveries) - before < len(bodies):
        time.sleep(0.01)
    return max(delivery.at for delivery in stack.deliveries[before:]) - began


def _asset(folder: Path, side: Side) -> Path:
    """Write the folder that becomes the function's code."""
    folder.mkdir()
    module = "sekali_worker" if side == "sekali" else "by_hand"
    shutil.copy(HERE / "assets" / f"{module}.py", folder / "handler.py")
    if side == "by hand":
        shutil.copy(HERE / "hand_made.py", folder)
        found = find_spec("cachetools")
        if found is None or found.origin is None:
            raise RuntimeError("cachetools is not installed; `make setup` brings it")
        shutil.copytree(Path(found.origin).parent, folder / "cachetools")
    return folder
