"""A world for the tests of single rows, and collectors of what is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.properties.protocol.world import World
from tests.tracing_kit import Daemon, on_lambda

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis


@pytest.fixture
def world(valkey: Redis) -> World:
    """Return an empty server with the model beside it."""
    return World(valkey)


@pytest.fixture(scope="session")
def spans() -> InMemorySpanExporter:
    """Return what every span of this process goes to; OpenTelemetry takes one provider for good."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def otel(spans: InMemorySpanExporter) -> InMemorySpanExporter:
    spans.clear()
    return spans


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    with on_lambda(monkeypatch) as collected:
        yield collected
