"""What a user of the layer sees when the shared cache is away, before, during and after a body."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError
from redis import Redis
from redis.exceptions import ConnectionError as Disconnected

from sekali.errors import SharedUnavailable
from tests.conftest import free_port
from tests.contracts.idempotency import fail, never
from tests.contracts.idempotency_benches import Answer, LayerBench

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = {"id": "a", "payload": 1}
ATTEMPTS_PER_FLUSH = 2


class Line(Redis):
    """A client whose next pipelines fail as those to a dead server do."""

    failures = 0.0

    def pipeline(self, *arguments: Any, **options: Any) -> Any:  # Any: as redis-py's own
        if self.failures > 0:
            self.failures -= 1
            raise Disconnected
        return super().pipeline(*arguments, **options)


def line_to(url: str) -> Line:
    line = Line.from_url(url)
    assert isinstance(line, Line)
    return line


def bench_on(valkey: Redis, url: str, line: Line) -> LayerBench:
    return LayerBench(valkey, url, connect=lambda: line, lease_seconds=3.0)


@pytest.fixture
def line(valkey_url: str) -> Line:
    return line_to(valkey_url)


@pytest.fixture
def bench(valkey: Redis, valkey_url: str, line: Line) -> LayerBench:
    return bench_on(valkey, valkey_url, line)


def losing_the_line(line: Line, failures: float, ending: Callable[[], object]) -> Any:
    """Return a body that ends after the server has gone away."""

    def body() -> object:
        line.failures = failures
        return ending()

    return body


def test_unreachable_cache_is_named_and_the_body_does_not_run(valkey: Redis) -> None:
    bench = LayerBench(valkey, f"redis://127.0.0.1:{free_port()}")

    with pytest.raises(
        IdempotencyPersistenceLayerError, match="the shared cache is unavailable: claim failed"
    ) as caught:
        bench.call(request=REQUEST, body=never)

    assert isinstance(caught.value.__cause__, SharedUnavailable)


@pytest.mark.slow
def test_result_is_stored_once_the_cache_is_back(bench: LayerBench, line: Line) -> None:
    """Storing was tried once; then the work was reported as failed, and done again."""
    body = losing_the_line(line, ATTEMPTS_PER_FLUSH, lambda: "result")

    first = bench.deliver("a", body)

    assert first == bench.deliver("a", never) == Answer("result", "result")


@pytest.mark.slow
def test_storing_is_given_up_when_the_lease_would_be_over(bench: LayerBench, line: Line) -> None:
    began = time.monotonic()

    with pytest.raises(
        IdempotencyPersistenceLayerError, match="the shared cache is unavailable: finish failed"
    ):
        bench.call(request=REQUEST, body=losing_the_line(line, float("inf"), lambda: "result"))

    assert time.monotonic() - began < 60


def test_body_that_fails_keeps_its_own_error(bench: LayerBench, line: Line) -> None:
    """Powertools hid it behind that of the deletion."""
    with pytest.raises(OSError, match="no route"):
        bench.call(request=REQUEST, body=losing_the_line(line, float("inf"), fail))
