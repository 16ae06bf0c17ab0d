"""A world for the tests of single rows, and collectors of what is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sekali.hits import Way
from tests.properties.protocol.world import World
from tests.tracing_kit import Daemon, on_lambda

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis


_PARTS = ("", "_calls", "_coherence", "_failure", "_flights", "_joining", "_many", "_tags", "_time")
BOTH_WAYS: Final = frozenset(f"test_cache{part}" for part in _PARTS)
"""Suites of the cache that run with the short way through the shared tier, and without it."""


class Closed:
    """Stand for a short way that nobody can go (see `sekali.shared_hits`)."""

    def __init__(self, *_: object, **__: object) -> None:
        self.get = self.get_or_load = lambda *_: Way.LONG


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.fixturenames.append("way")
        metafunc.parametrize("way", ["short", "long"], indirect=True)


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let every cache of this test go one way."""
    chosen: str = request.param
    if chosen == "long":
        monkeypatch.setattr("sekali.tiered.SharedHits", Closed)
    return chosen


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
