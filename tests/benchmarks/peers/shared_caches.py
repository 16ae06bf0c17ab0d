"""What caches on a server do: dogpile.cache, cashews, aiocache and redis-py, on one Valkey."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import aiocache
import redis
from cashews import Cache
from dogpile.cache import make_region
from redis.cache import CacheConfig
from redis.exceptions import RedisError

LOAD_SECONDS = 1.0

# Any stands for the peers' own objects throughout: their types differ, the questions do not.


def region(url: str, **arguments: Any) -> Any:
    """Return dogpile's Redis backend."""
    options = {"url": url, "redis_expiration_time": 60, "thread_local_lock": False, **arguments}
    return make_region().configure("dogpile.cache.redis", expiration_time=60, arguments=options)


def cashews_cache(url: str) -> Any:
    """Return a cashews cache on the server."""
    cache = Cache()
    cache.setup(url)
    return cache


def dogpile_loses_an_invalidation(url: str) -> bool:
    """Store what was loaded before the deletion."""
    cache = region(url)

    def load() -> str:
        cache.delete("k")  # the database has just changed
        return "old"

    cache.get_or_create("k", load)
    return bool(cache.get("k") == "old")


def cashews_loses_an_invalidation(url: str) -> bool:
    """Store what was loaded before its tag was deleted."""

    async def scene() -> bool:
        cache = cashews_cache(url)
        await cache.clear()

        async def _load() -> str:
            await cache.delete_tags("t")
            return "old"

        load: Any = cache(ttl=60, key="k", tags=["t"])(_load)

        await load()

        async def _fresh() -> str:
            return "new"

        fresh: Any = cache(ttl=60, key="k", tags=["t"])(_fresh)

        found = await fresh()
        await cache.close()
        return bool(found == "old")

    return asyncio.run(scene())


def aiocache_loses_an_invalidation(url: str) -> bool:
    """Store what was loaded before the deletion."""
    port = int(url.rpartition(":")[2])

    async def scene() -> bool:
        cache: Any = aiocache.RedisCache(endpoint="127.0.0.1", port=port)
        await cache.delete("k")

        async def _load() -> str:
            await cache.delete("k")
            return "old"

        load: Any = aiocache.cached(
            ttl=60, key_builder=lambda *_, **__: "k", cache=aiocache.RedisCache, port=port
        )(_load)

        await load()
        found = await cache.get("k")
        await cache.close()
        await load.cache.close()
        return bool(found == "old")

    return asyncio.run(scene())


def _commands(client: redis.Redis) -> int:
    about: Any = client.info("stats")
    return int(about["total_commands_processed"])


def cashews_waiter_commands(url: str) -> float:
    """Count the commands per second of one waiter for somebody else's load."""

    async def scene() -> float:
        holder, waiter = cashews_cache(url), cashews_cache(url)
        await holder.clear()

        def loading(cache: Any) -> Any:
            async def _load() -> str:
                await asyncio.sleep(LOAD_SECONDS)
                return "v"

            load: Any = cache(ttl=60, key="k", lock=True)(_load)

            return load

        with redis.Redis.from_url(url) as client:
            leading = asyncio.create_task(loading(holder)())
            await asyncio.sleep(LOAD_SECONDS / 5)
            before, began = _commands(client), time.monotonic()
            waiting = asyncio.create_task(loading(waiter)())
            await leading
            asked, took = _commands(client) - before, time.monotonic() - began
            await waiting
        await holder.close()
        await waiter.close()
        return asked / took

    return asyncio.run(scene())


def dogpile_waiter_commands(url: str) -> float:
    """Count the commands per second of one waiter for somebody else's load."""
    holder, waiter = region(url, distributed_lock=True), region(url, distributed_lock=True)
    holder.delete("k")
    leading = threading.Event()

    def load() -> str:
        leading.set()
        time.sleep(LOAD_SECONDS)
        return "v"

    thread = threading.Thread(target=lambda: holder.get_or_create("k", load))
    thread.start()
    leading.wait(5)
    with redis.Redis.from_url(url) as client:
        before, began = _commands(client), time.monotonic()
        waiter.get_or_create("k", load)
        asked, took = _commands(client) - before, time.monotonic() - began
    thread.join()
    return asked / took


def dogpile_throws_a_late_value_away(url: str) -> bool:
    """Raise where the lock ended before the load did."""
    cache = region(url, distributed_lock=True, lock_timeout=1)
    cache.delete("k")

    def load() -> str:
        time.sleep(1.2)
        return "computed"

    try:
        return bool(cache.get_or_create("k", load) != "computed")
    except RedisError:
        return True


def dogpile_fails_on_what_it_cannot_store(url: str) -> bool:
    """Give the caller the serializer's error instead of the value."""
    cache = region(url)
    cache.delete("k")
    try:
        cache.get_or_create("k", threading.Lock)
    except TypeError:
        return True
    return False


def cashews_fails_on_what_it_cannot_store(url: str) -> bool:
    """Give the caller the serializer's error instead of the value."""

    async def scene() -> bool:
        cache = cashews_cache(url)
        await cache.clear()

        async def _load() -> Any:
            return threading.Lock()

        load: Any = cache(ttl=60, key="k")(_load)

        try:
            await load()
        except TypeError:
            return True
        finally:
            await cache.close()
        return False

    return asyncio.run(scene())


def redis_refuses_valkey(url: str) -> bool:
    """Refuse the server, or serve a stale value."""
    try:
        with (
            redis.Redis.from_url(url, protocol=3, cache_config=CacheConfig()) as cached,
            redis.Redis.from_url(url) as other,
        ):
            other.set("k", "old")
            cached.get("k")
            other.set("k", "new")
            time.sleep(0.05)
            return bool(cached.get("k") != b"new")
    except RedisError:
        return True
