"""The layer alone and the worker keep the contract of idempotency, over a real Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contracts.idempotency import IdempotencyContract
from tests.contracts.idempotency_benches import Bench, LayerBench, WorkerBench
from tests.worker_kit import started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis


class TestLayerAlone(IdempotencyContract):
    @pytest.fixture
    def bench(self, valkey: Redis, valkey_url: str) -> Bench:
        return LayerBench(valkey, valkey_url)


class TestLayerWithLocalCache(IdempotencyContract):
    @pytest.fixture
    def bench(self, valkey: Redis, valkey_url: str) -> Bench:
        return LayerBench(valkey, valkey_url, use_local_cache=True)


class TestWorker(IdempotencyContract):
    @pytest.fixture(params=["recorded", "redis"])
    def bench(
        self,
        request: pytest.FixtureRequest,
        monkeypatch: pytest.MonkeyPatch,
        valkey: Redis,
        valkey_url: str,
    ) -> Iterator[Bench]:
        with started_kit(monkeypatch, valkey_url, SEKALI_DURABLE_MODE=request.param) as kit:
            yield WorkerBench(valkey, kit, monkeypatch)
