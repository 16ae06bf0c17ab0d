"""One layer serves one function with one configuration, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)
from redis.cluster import RedisCluster

from sekali import IdempotencyLayer, KeyInvalid, SettingInvalid, warm
from tests.contracts.idempotency import Held, never
from tests.contracts.idempotency_benches import Answer, LayerBench, once

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis


LIBRARY = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def layer(valkey: Redis, valkey_url: str) -> IdempotencyLayer:
    bench = LayerBench(valkey, valkey_url)
    return IdempotencyLayer("free", container=lambda: bench.container)


def test_layer_refuses_a_second_function(layer: IdempotencyLayer) -> None:
    @once(layer)
    def first(*, order: int) -> int:
        return order

    @once(layer)
    def second(*, order: int) -> int:
        return -order

    first(order=1)

    with pytest.raises(SettingInvalid, match=r"make a layer for each, got 'second beside first'"):
        second(order=1)


def test_layer_refuses_a_second_configuration(layer: IdempotencyLayer) -> None:
    def charge(*, order: dict[str, int]) -> int:
        return order["id"]

    by_id, by_customer = (
        once(layer, config=IdempotencyConfig(event_key_jmespath=path))(charge)
        for path in ("id", "customer")
    )
    by_id(order={"id": 1, "customer": 7})

    with pytest.raises(SettingInvalid, match="must serve one function with one configuration"):
        by_customer(order={"id": 2, "customer": 7})


def test_two_functions_that_race_for_a_layer_do_not_share_it(layer: IdempotencyLayer) -> None:
    start = threading.Barrier(2)
    refused: list[str] = []

    def use(function: Callable[..., object]) -> None:
        wrapped = once(layer)(function)
        start.wait(60)
        try:
            wrapped(order=1)
        except SettingInvalid:
            refused.append(function.__name__)

    def first(*, order: int) -> int:
        return order

    def second(*, order: int) -> int:
        return -order

    threads = [threading.Thread(target=use, args=(function,)) for function in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 1


@pytest.mark.parametrize("name", ["", "~", "@", "a b", "x" * 65])
def test_layer_needs_the_name_of_a_job(name: str) -> None:
    with pytest.raises(KeyInvalid, match="must match"):
        IdempotencyLayer(name)


def test_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEKALI_CACHE_URL", raising=False)
    warm.reset()

    @once(IdempotencyLayer())
    def charge(*, order: int) -> None:
        raise AssertionError(order)

    with pytest.raises(IdempotencyPersistenceLayerError, match="SEKALI_CACHE_URL is required"):
        charge(order=1)


def test_layer_works_on_a_cluster(valkey_cluster: Redis, valkey_cluster_url: str) -> None:
    bench = LayerBench(
        valkey_cluster,
        valkey_cluster_url,
        connect=lambda: RedisCluster.from_url(valkey_cluster_url),
    )
    with Held(bench, "a", lambda: "result") as held:
        busy = bench.deliver("a", never)
        done = held.finish()

    assert busy == Answer("in_progress")
    assert done == bench.deliver("a", never) == Answer("result", "result")


def test_in_progress_is_powertools_own_error(layer: IdempotencyLayer) -> None:
    @once(layer)
    def charge(*, order: int) -> object:
        return charge(order=order)

    with pytest.raises(IdempotencyAlreadyInProgressError, match="already in progress"):
        charge(order=1)


def test_layer_adds_nothing_heavy_to_the_import_of_powertools() -> None:
    program = (
        "import sys, aws_lambda_powertools.utilities.idempotency\n"
        "before = set(sys.modules)\n"
        "from sekali import IdempotencyLayer\n"
        "IdempotencyLayer()\n"
        "added = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(added), 'sekali.warm' in sys.modules)"
    )

    printed = subprocess.check_output([sys.executable, "-c", program], text=True, env=LIBRARY)

    assert printed.strip() == "['sekali'] False"
