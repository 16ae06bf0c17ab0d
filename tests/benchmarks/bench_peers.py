"""What other caches do in the scenarios that the tiers are built for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekali.clock import SystemClock
from tests.benchmarks.harness import Row, Sample, benchmark
from tests.benchmarks.peers import local_caches, shared_caches
from tests.cache_kit import Fleet, loader
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL: dict[str, dict[str, Callable[[], bool]]] = {
    "a change by one caller reaches another": {
        "cachetools": local_caches.cachetools_aliases,
        "cachebox": local_caches.cachebox_aliases,
        "cachebox.cached": local_caches.cachebox_decorator_aliases,
        "dogpile.cache, memory": local_caches.dogpile_aliases,
        "aiocache, memory": local_caches.aiocache_aliases,
    },
    "served past its TTL after the clock stood still": {
        "cachetools": local_caches.cachetools_serves_after_a_freeze,
    },
    "served past its TTL after the wall clock was set back": {
        "dogpile.cache": local_caches.dogpile_serves_after_a_set_back,
    },
    "two methods of one name share a key": {
        "dogpile.cache": local_caches.dogpile_mixes_methods,
    },
    "1 and True share a key": {
        "cachetools.cached": local_caches.cachetools_mixes_types,
        "cachebox.cached": local_caches.cachebox_mixes_types,
    },
}
SHARED: dict[str, dict[str, Callable[[str], bool]]] = {
    "old value stored after an invalidation during its load": {
        "dogpile.cache": shared_caches.dogpile_loses_an_invalidation,
        "cashews, by tag": shared_caches.cashews_loses_an_invalidation,
        "aiocache": shared_caches.aiocache_loses_an_invalidation,
    },
    "value thrown away when the lock ended before the load": {
        "dogpile.cache": shared_caches.dogpile_throws_a_late_value_away,
    },
    "caller gets an error for a value that cannot be stored": {
        "dogpile.cache": shared_caches.dogpile_fails_on_what_it_cannot_store,
        "cashews": shared_caches.cashews_fails_on_what_it_cannot_store,
    },
    "refuses Valkey, or serves a stale value": {
        "redis-py client-side caching": shared_caches.redis_refuses_valkey,
    },
}


def _row(scenario: str, who: str, failed: object) -> Row:
    return Row(f"{scenario}: {who}", Sample.exactly(bool(failed)), "(1: yes)")


@benchmark("peers: what they do")
def what_they_do() -> Iterator[Row]:
    """Run every scenario with every peer that can; the tests run them with sekali."""
    for scenario, peers in LOCAL.items():
        for who, ask in peers.items():
            yield _row(scenario, who, ask())
    with started_valkey() as server:
        url = f"redis://127.0.0.1:{server.port}"
        for scenario, servers in SHARED.items():
            for who, ask_there in servers.items():
                yield _row(scenario, who, ask_there(url))
        yield _row("old value stored after an invalidation during its load", "sekali", _ours(url))


@benchmark("peers: waiters")
def waiters() -> Iterator[Row]:
    """Count what one waiter asks per second while somebody else loads for a second."""
    with started_valkey() as server:
        url = f"redis://127.0.0.1:{server.port}"
        for who, ask in (
            ("cashews", shared_caches.cashews_waiter_commands),
            ("dogpile.cache, distributed lock", shared_caches.dogpile_waiter_commands),
        ):
            yield Row(f"commands of one waiter: {who}", Sample.exactly(ask(url)), "per second")


def _ours(url: str) -> bool:
    cache: Any = Fleet(url).box(SystemClock()).invoke()
    cache.get_or_load("k", loader("old", during=lambda: cache.invalidate(["k"])))
    return bool(cache.get("k") == "old")
