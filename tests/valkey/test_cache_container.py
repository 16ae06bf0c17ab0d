"""The containers of the kit that ships: what users test their caches with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sekali
from sekali.errors import LoadTimeout
from sekali.telemetry import events
from sekali.testing import CacheContainer, FakeLoader, FrozenClock

if TYPE_CHECKING:
    from redis import Redis


@pytest.fixture
def url(valkey: Redis, valkey_url: str) -> str:
    assert valkey.dbsize() == 0
    return valkey_url


def test_container_keeps_its_values_between_invocations_and_no_other_has_them(url: str) -> None:
    load = FakeLoader("v")
    with CacheContainer(url) as one, CacheContainer(url, namespace="other") as other:
        with one.invocation() as cache:
            cache.get_or_load("k", load)
        with one.invocation() as cache:
            assert cache.get("k") == "v"
        with other.invocation() as cache:
            assert cache.get("k") is None

        assert (one.local_entries, other.local_entries) == (1, 0)
        assert one.round_trips > other.round_trips > 0
    assert load.calls == 1


def test_decorated_functions_and_the_public_block_use_the_container(url: str) -> None:
    load = FakeLoader("v")
    stored = sekali.cached(name="stored", key="k")(lambda: str(load()))
    with CacheContainer(url) as container, container.invocation() as cache:
        assert stored() == "v"
        with sekali.cache() as same:
            assert same.get("stored/k") == "v"

        assert cache.get("stored/k") == "v"
        assert container.local_entries == 1


def test_waits_move_the_clock_and_end_with_the_invocation(url: str) -> None:
    clock = FrozenClock()
    began = clock.monotonic()
    with CacheContainer(url) as holder, CacheContainer(url, clock=clock) as waiter:

        def wait() -> str:
            with waiter.invocation(seconds=60) as cache, pytest.raises(LoadTimeout):
                cache.get_or_load("k", FakeLoader("w"), on_timeout="raise")
            return "v"

        with holder.invocation() as cache:
            assert cache.get_or_load("k", wait) == "v"

    assert 0 < clock.monotonic() - began <= 60
    assert [type(one) for one in waiter.events].count(events.LoadTimedOut) == 1


def test_hits_are_told_when_the_invocation_ends(url: str) -> None:
    with CacheContainer(url) as container, container.invocation() as cache:
        for _ in range(3):
            cache.get_or_load("k", FakeLoader("v"))

    reads = [one for one in container.events if isinstance(one, events.CacheRead)]
    assert [(one.source, one.count) for one in reads] == [("loaded", 1), ("local", 2)]
