"""What caches inside one process do: cachetools, cachebox, aiocache's and dogpile's memory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import aiocache
import cachebox
import cachetools
from dogpile.cache import make_region

if TYPE_CHECKING:
    from collections.abc import Callable

# Any stands for the peers' own objects throughout: their types differ, the questions do not.


def memory_region(**options: Any) -> Any:
    """Return dogpile's memory backend, which keeps the objects that it is given."""
    return make_region().configure("dogpile.cache.memory", **options)


def aliased(put: Callable[[Any], object], get: Callable[[], Any]) -> bool:
    """Tell whether one caller's change to a value reaches another caller."""
    put({"rows": [1]})
    get()["rows"].append(2)
    return bool(get() == {"rows": [1, 2]})


def cachetools_aliases() -> bool:
    """Share the stored object."""
    cache: Any = cachetools.TTLCache(10, 60)
    return aliased(lambda value: cache.__setitem__("k", value), lambda: cache["k"])


def cachebox_aliases() -> bool:
    """Share the stored object, where the decorator does not copy it."""
    cache: Any = cachebox.TTLCache(10, 60)
    return aliased(lambda value: cache.__setitem__("k", value), lambda: cache["k"])


def cachebox_decorator_aliases() -> bool:
    """Copy one level: what lies deeper is shared."""

    @cachebox.cached(cachebox.TTLCache(10, 60))
    def load() -> Any:
        return {"rows": [1]}

    load()["rows"].append(2)
    return bool(load() == {"rows": [1, 2]})


def dogpile_aliases() -> bool:
    """Share the stored object."""
    region = memory_region()
    return aliased(lambda value: region.set("k", value), lambda: region.get("k"))


def aiocache_aliases() -> bool:
    """Share the stored object."""
    cache: Any = aiocache.SimpleMemoryCache()

    async def scene() -> bool:
        await cache.set("k", {"rows": [1]})
        (await cache.get("k"))["rows"].append(2)
        return bool(await cache.get("k") == {"rows": [1, 2]})

    return asyncio.run(scene())


def cachetools_serves_after_a_freeze() -> bool:
    """Age by one timer: while that stands still, ten minutes do not pass."""
    standing = 1_000.0
    cache: Any = cachetools.TTLCache(10, 60, timer=lambda: standing)
    cache["k"] = "old"
    return "k" in cache


def dogpile_serves_after_a_set_back() -> bool:
    """Age by the wall clock: set back by an hour, a value of a minute lives for an hour more."""
    region = memory_region(expiration_time=60)
    region.set("k", "old")
    honest = time.time
    now = honest()
    time.time = lambda: now + 61 - 3_600
    try:
        return bool(region.get("k") == "old")
    finally:
        time.time = honest


class First:
    """One of two classes with a method of one name."""

    def total(self, month: str) -> str:
        return f"first {month}"


class Second:
    """The other one."""

    def total(self, month: str) -> str:
        return f"second {month}"


def dogpile_mixes_methods() -> bool:
    """Leave the class out of the key."""
    region = memory_region()
    first = region.cache_on_arguments()(First.total)
    second = region.cache_on_arguments()(Second.total)
    first(First(), "2013-01")
    return bool(second(Second(), "2013-01") == "first 2013-01")


def cachetools_mixes_types() -> bool:
    """Take 1 and True for one argument."""

    @cachetools.cached(cachetools.TTLCache(10, 60))
    def kind(value: object) -> str:
        return type(value).__name__

    kind(1)
    return kind(True) == "int"  # noqa: FBT003 - the argument is the point


def cachebox_mixes_types() -> bool:
    """Take 1 and True for one argument, unless asked to tell them apart."""

    @cachebox.cached(cachebox.TTLCache(10, 60))
    def kind(value: object) -> str:
        return type(value).__name__

    kind(1)
    return kind(True) == "int"  # noqa: FBT003 - the argument is the point
