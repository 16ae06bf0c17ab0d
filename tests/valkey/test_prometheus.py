"""The metrics of a worker, as Prometheus scrapes them."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, start_http_server

from sekali import PermanentError, Worker, warm
from sekali.telemetry.events import InvocationEnded, RecordSettled
from sekali.telemetry.measures import MEASURES
from sekali.telemetry.opentelemetry_metrics import OpenTelemetryMetrics, metric_name
from tests.worker_kit import Context, event, job, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job
    from tests.worker_kit import Kit


@pytest.fixture
def provider() -> Iterator[MeterProvider]:
    """Return a provider of this test alone: OpenTelemetry takes one for the process for good."""
    made = MeterProvider(metric_readers=[PrometheusMetricReader()])
    yield made
    made.shutdown()


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        yield started


def scrape() -> str:
    """Return the text that Prometheus would be given, over HTTP on a free port."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=REGISTRY)
    try:
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            text: bytes = answer.read()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
    return text.decode()


def values(text: str, name: str) -> dict[str, float]:
    """Return the samples of a metric by job."""
    pattern = re.compile(rf'^{name}{{[^}}]*sekali_job="([^"]+)"[^}}]*}} (\S+)$', re.MULTILINE)
    return {job: float(value) for job, value in pattern.findall(text)}


def test_metrics_of_a_run_are_scraped(kit: Kit, provider: MeterProvider) -> None:
    warm.reset()
    worker = Worker("scraped", hooks=[OpenTelemetryMetrics(provider), kit.events.append])

    @worker.job("report", key="{payload[n]}", ttl_seconds=60)
    def report(_: Job) -> int:
        return 1

    @worker.job("refuse")
    def refuse(_: Job) -> None:
        raise PermanentError

    batch = [job(f"a{n}", {"n": n % 2}, name="report") for n in range(4)]
    worker.handler(event(*batch, job("b", {}, name="refuse")), Context())

    text = scrape()
    done = [one for one in kit.events if isinstance(one, RecordSettled)]
    assert len(done) == 5
    assert values(text, "sekali_jobs_completed_total") == {"report": 4}
    assert values(text, "sekali_jobs_computed_total") == {"report": 2}
    assert values(text, "sekali_jobs_served_total") == {"report": 2}
    assert values(text, "sekali_jobs_dead_lettered_total") == {"refuse": 1}
    assert values(text, "sekali_queue_to_finish_latency_seconds_count") == {"report": 4}
    latency = values(text, "sekali_queue_to_finish_latency_seconds_sum")["report"]
    assert latency == pytest.approx(
        sum(one.latency_seconds for one in done if one.name == "report"), abs=0.01
    )


def test_nothing_is_added_before_the_invocation_ends(provider: MeterProvider) -> None:
    metrics = OpenTelemetryMetrics(provider)
    settled = RecordSettled(name="late", id="a", key="a", outcome="delete")

    metrics(settled)
    before = values(scrape(), "sekali_jobs_completed_total")
    metrics(InvocationEnded())
    after = values(scrape(), "sekali_jobs_completed_total")

    assert before == {}
    assert after == {"late": 1}


def test_every_metric_of_the_table_has_a_name_of_its_own() -> None:
    assert metric_name("QueueToFinishLatency") == "sekali.queue_to_finish_latency"
    assert len(MEASURES) > 10
