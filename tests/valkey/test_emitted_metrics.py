"""What the real worker writes to its log: each metric, under exactly the dimensions that are read.

No metric is put by the test: each scene lets a worker, a cache, a lock or the recovery function do
what the metric tells of, against a real Valkey, and reads what they printed as CloudWatch would.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from handlers import recover
from infra.local.cloudwatch import emf
from sekali import PermanentError, Worker, cache, lease, warm
from sekali.invocation import CURRENT
from sekali.telemetry.measures import METRICS
from sekali.testing import FrozenClock
from tests.conftest import free_port
from tests.worker_kit import TABLE, Context, Kit, event, job, started_kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

    from sekali import Job

pytestmark = pytest.mark.slow

# As the stack calls them; tests/infra/test_metrics_contract.py compares the dashboards with those.
SERVICE, NAME = "flight-reports", "delay-report"


class Stage:
    """A worker of the example's name, whose bodies do what their message's test wants."""

    def __init__(self, kit: Kit, valkey: Redis) -> None:
        self.kit = kit
        self.valkey = valkey
        self.bodies: dict[str, Callable[[Job], object]] = {}
        self.worker = Worker(SERVICE)
        self.worker.job(NAME, key="{payload[key]}", ttl_seconds=60)(self._body)

    def _body(self, job: Job) -> object:
        body = self.bodies.get(job.id)
        return "done" if body is None else body(job)

    def run(self, job_id: str, key: str = "k", **attributes: str) -> dict[str, Any]:
        """Deliver one message."""
        record = job(job_id, {"key": key}, name=NAME)
        record["attributes"] |= attributes
        return self.worker.handler(event(record), Context(seconds=10))

    def elsewhere(self, run: Callable[[], object]) -> None:
        """Do something in another container."""
        settings = warm.container().settings
        other = warm.Container(settings, emit=warm.container().emit)
        with warm.inside(other):
            run()
        other.close()

    def drop(self, kind: str) -> None:
        """Delete the shared keys of a kind."""
        self.valkey.delete(*self.valkey.scan_iter(match=f"*:{kind}:*"))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Stage]:
    monkeypatch.setenv("SEKALI_SERVICE", SERVICE)
    monkeypatch.setenv("SEKALI_REVOKE_ENDLESS", "true")
    # A busy machine may stop a server for longer than half a second.
    monkeypatch.setenv("SEKALI_CACHE_TIMEOUT_SECONDS", "10")
    with started_kit(monkeypatch, valkey_url) as kit:
        warm.reset()
        yield Stage(kit, valkey)


def answers(stage: Stage) -> None:
    """A body, the value of its key from both tiers, an id that is done."""
    stage.run("one")
    stage.run("two")
    stage.run("one")
    warm.reset()
    stage.run("three")
    (value,) = stage.valkey.scan_iter(match=f"*:value:{NAME}/k")
    whole = stage.valkey.get(value)
    assert isinstance(whole, bytes)
    stage.valkey.set(value, whole[:-1] + b"X", keepttl=True)
    warm.reset()
    stage.run("four")


def failures(stage: Stage) -> None:
    """A body that fails for good, and one that fails for now and is asked for while it cools."""
    stage.bodies["never"] = lambda _: (_ for _ in ()).throw(PermanentError("no such month"))
    stage.bodies["later"] = lambda _: (_ for _ in ()).throw(OSError("no answer"))
    stage.run("never", "n")
    stage.run("later", "l")
    stage.run("later", "l")


def loads(stage: Stage) -> None:
    """Loads: one that is kept, a hit, a stale value, one that is refused, a wait in vain."""

    def refuse() -> str:
        with cache() as other:
            other.invalidate(["refused"])
        return "late"

    def fail() -> str:
        raise OSError

    def wait() -> str:
        def impatient() -> None:
            with cache() as tiers:
                tiers.get_or_load("slow", lambda: "own", wait_seconds=0.01)

        stage.elsewhere(impatient)
        return "slow"

    def body(job: Job) -> None:
        job.cache.get_or_load("month", lambda: "flights")
        job.cache.get_or_load("month", lambda: "flights")
        stale = {"ttl_seconds": 0.05, "stale_if_error_seconds": 60.0}
        job.cache.get_or_load("stale", lambda: "old", **stale)
        time.sleep(0.1)
        job.cache.get_or_load("stale", fail, **stale)
        job.cache.get_or_load("slow", wait)

    stage.bodies["loads"] = body
    stage.run("loads", "loads")
    with cache() as tiers:
        tiers.get_or_load("refused", refuse)


def leases(stage: Stage) -> None:
    """A holder that dies, its successor, and a holder that comes back too late."""
    stage.bodies["dies"] = lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        stage.run("dies", "d")
    stage.drop("lease")
    stage.bodies["dies"] = lambda _: "alive"
    stage.run("dies", "d")

    def late(_: Job) -> str:
        stage.drop("lease")
        stage.elsewhere(lambda: stage.run("newer", "late"))
        invocation = CURRENT.get()
        assert invocation is not None
        invocation.heartbeat.beat()
        return "too late"

    stage.bodies["late"] = late
    stage.run("late", "late")


def tiers(stage: Stage) -> None:
    """A log that lost this container's place, and a wall clock that was set back."""
    with cache() as own:
        own.invalidate(["anything"])
    stage.run("reads the log", "log")
    stage.valkey.delete(*stage.valkey.scan_iter(match="*:log"))
    stage.run("finds it gone", "gap")
    clock = FrozenClock()
    container = warm.Container(warm.container().settings, emit=warm.container().emit, clock=clock)
    container.local.put("a", "v", ttl_seconds=3_600)
    clock.advance(wall=-600.0, monotonic=0.0)
    container.local.get("a")
    container.close()


def recovery(stage: Stage) -> None:
    """A look for leaks, which finds an endless holder."""
    with lease("ledger"):
        began = str(int((time.time() - 5_000) * 1000))
        for record in stage.valkey.scan_iter(match="*:key:@/ledger"):
            stage.valkey.hset(record, "started", began)
        recover.handler({}, Context())


def table(stage: Stage) -> None:
    """A table that is asked about a message that came back, and one that is gone."""
    stage.run("came back", "back", ApproximateReceiveCount="2")
    stage.kit.dynamodb.delete_table(TableName=TABLE)
    stage.run("not kept", "gone", ApproximateReceiveCount="2")


def outage(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs without the shared cache, by policy."""
    with monkeypatch.context() as away:
        away.setenv("SEKALI_CACHE_URL", f"redis://127.0.0.1:{free_port()}")
        away.setenv("SEKALI_DEGRADED", "durable")
        warm.reset()
        stage.run("alone")
        away.setenv("SEKALI_DEGRADED", "fail")
        warm.reset()
        stage.run("outside")
    warm.reset()


def test_every_metric_is_written_under_the_dimensions_that_dashboards_and_alarms_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for scene in (answers, failures, loads, leases, tiers, recovery):
        scene(stage)
    outage(stage, monkeypatch)
    table(stage)

    written = metrics(capsys.readouterr().out)

    of_service = frozenset({("service", SERVICE)})
    of_job = of_service | {("job", NAME)}
    expected = {(name, of_service) for name in METRICS}
    expected |= {(name, of_job) for name, one in METRICS.items() if one.of == "job"}
    assert written == expected


def metrics(output: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The metrics that CloudWatch takes out of what was printed."""
    found = set()
    for line in output.splitlines():
        fields = json.loads(line) if line.startswith("{") else {}
        if "_aws" in fields:
            for datum in emf.data(fields):
                assert datum.name.namespace == "Sekali"
                found.add((datum.name.name, datum.name.dimensions))
    return found
