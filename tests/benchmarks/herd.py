"""Containers in many processes that ask one cache at once: what each process does.

A thread stands for a container, with a local tier and a connection of its own, so nothing but the
shared cache keeps two of them from computing the same.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from redis import Redis
from redis.lock import Lock

from sekali.clock import SystemClock
from tests.cache_kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[str], object]

LOADS: Final = "bench:loads"
VALUE: Final = {"flights": 2341, "cancelled": 17}
TTL_SECONDS: Final = 300
PAUSE_SECONDS: Final = 0.05
INVOCATION_SECONDS: Final = 60.0

Kind = Literal["sekali", "by hand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What one process is told: how many containers it is, and what they ask for.

    Attributes:
        begins_at: Unix second at which all processes begin.
        keys: One key: each container asks once. More: each asks for one after the other, for
            `seconds`.
    """

    kind: Kind
    port: int
    containers: int
    begins_at: float
    load_seconds: float
    keys: int = 1
    seconds: float = 0.0


def obey(orders: Orders) -> list[float]:
    """Be so many containers; return the seconds that each waited for its first answer."""
    asks = [_container(orders) for _ in range(orders.containers)]
    ready = threading.Barrier(orders.containers)

    def run(number: int) -> float:
        ready.wait()
        time.sleep(max(0.0, orders.begins_at - time.time()))
        began = time.monotonic()
        asks[number]("key-0")
        waited = time.monotonic() - began
        # Each begins elsewhere, so that all keys are asked for all the time.
        turn = number * orders.keys // orders.containers
        while time.monotonic() - began < orders.seconds:
            turn += 1
            asks[number](f"key-{turn % orders.keys}")
            time.sleep(PAUSE_SECONDS)
        return waited

    with ThreadPoolExecutor(orders.containers) as pool:
        return list(pool.map(run, range(orders.containers)))


def _container(orders: Orders) -> Ask:
    client: Any = Redis(port=orders.port)  # Any: redis-py's replies vary by client

    def load() -> dict[str, int]:
        # When the load began, so that the loads of each second can be counted.
        client.rpush(LOADS, time.time())
        time.sleep(orders.load_seconds)
        return VALUE

    if orders.kind == "by hand":
        return _by_hand(client, load, orders.load_seconds)
    # A thousand threads on a few cores wait for a core before they read a reply.
    fleet = Fleet(f"redis://127.0.0.1:{orders.port}", cache_timeout_seconds=10.0)
    box = fleet.box(SystemClock())

    def ask(key: str) -> object:
        return box.invoke(INVOCATION_SECONDS).get_or_load(key, load, ttl_seconds=TTL_SECONDS)

    return ask


def _by_hand(client: Any, load: Callable[[], object], load_seconds: float) -> Ask:  # Any: as above
    """Look, take redis-py's lock, look again, load: as its documentation suggests."""

    def ask(key: str) -> object:
        value = client.get(key)
        if value is None:
            lock = Lock(
                client,
                f"lock:{key}",
                timeout=10 + load_seconds,
                blocking_timeout=30,
                # A flush takes the lock away from its holder.
                raise_on_release_error=False,
            )
            with lock:
                value = client.get(key)
                if value is None:
                    value = load()
                    client.set(key, repr(value), ex=TTL_SECONDS)
        return value

    return ask
