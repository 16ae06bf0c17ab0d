"""Containers in many processes that ask one cache at once: what each process does.

A thread stands for a container, with a local tier and a connection of its own, so nothing but the
shared cache keeps two of them from computing the same.
"""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from redis import Redis
from redis.lock import Lock

from sekali.clock import SystemClock
from tests.cache_kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import SpawnContext

    Load = Callable[[], object]
    Ask = Callable[[str, Load], object]

LOADS: Final = "bench:loads"
VALUE: Final = {"flights": 2341, "cancelled": 17}
TTL_SECONDS: Final = 300
PAUSE_SECONDS: Final = 0.05
LOCK_SECONDS: Final = 10
INVOCATION_SECONDS: Final = 60.0

Kind = Literal["sekali", "by hand"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What one process is told: how many containers it is, and what they ask for.

    Attributes:
        keys: One key: each container asks once. More: each asks for one after the other, for
            `seconds`.
    """

    kind: Kind
    port: int
    containers: int
    load_seconds: float
    keys: int = 1
    seconds: float = 0.0


class Start:
    """The second at which all processes begin: shortly after the last of them stands ready.

    Threads that connect and processes that import are of different speed; whoever begins before the
    others is not a part of the herd.
    """

    def __init__(self, context: SpawnContext, processes: int) -> None:
        """Wait for so many processes, and for the one that makes this."""
        self._all = context.Barrier(processes + 1)
        self._at = context.Value("d", 0.0)

    def order(self) -> float:
        """Wait until all stand ready, and tell them when to begin: that unix second."""
        self._all.wait()
        begins_at = time.time() + _NOTICE_SECONDS
        self._at.value = begins_at
        self._all.wait()
        return begins_at

    def wait(self) -> None:
        """Stand ready, and return when it is time to begin."""
        self._all.wait()
        self._all.wait()
        time.sleep(max(0.0, self._at.value - time.time()))


_NOTICE_SECONDS: Final = 0.5
_start: Start | None = None


def stand(start: Start) -> None:
    """Keep the start of this process's herd: it can be handed over only as a process begins."""
    global _start  # noqa: PLW0603
    _start = start


def obey(orders: Orders) -> list[float]:
    """Be so many containers; return the seconds that each waited for its first answer.

    Raises:
        RuntimeError: Nobody told this process of a start.
    """
    if _start is None:
        raise RuntimeError("a process of the herd needs a start")
    containers = [Container(orders, number) for number in range(orders.containers)]
    ready = threading.Barrier(orders.containers + 1)
    begin = threading.Event()

    def run(container: Container) -> float:
        container.warm_up()
        ready.wait()
        begin.wait()
        began = time.monotonic()
        container.ask("key-0")
        waited = time.monotonic() - began
        # Each begins elsewhere, so that all keys are asked for all the time.
        turn = container.number * orders.keys // orders.containers
        while time.monotonic() - began < orders.seconds:
            turn += 1
            container.ask(f"key-{turn % orders.keys}")
            time.sleep(PAUSE_SECONDS)
        return waited

    with ThreadPoolExecutor(orders.containers) as pool:
        running = [pool.submit(run, container) for container in containers]
        ready.wait()
        _start.wait()
        begin.set()
        return [one.result() for one in running]


class Container:
    """A client of the cache, and what it is asked with."""

    def __init__(self, orders: Orders, number: int) -> None:
        """Connect to nothing yet."""
        self.number = number
        self._load_seconds = orders.load_seconds
        self._client: Any = Redis(port=orders.port)  # Any: redis-py's replies vary by client
        self._ask = _by_hand(self._client) if orders.kind == "by hand" else _sekali(orders.port)

    def warm_up(self) -> None:
        """Ask for a key of its own, as one that has served before: imported, connected."""
        self._ask(f"own-{uuid.uuid4()}", lambda: VALUE)

    def ask(self, key: str) -> None:
        """Ask for a key."""
        self._ask(key, self._load)

    def _load(self) -> dict[str, int]:
        # When the load began, so that the loads of each second can be counted.
        self._client.rpush(LOADS, time.time())
        time.sleep(self._load_seconds)
        return VALUE


def _sekali(port: int) -> Ask:
    # Many on a few cores wait for a core before they read a reply.
    fleet = Fleet(f"redis://127.0.0.1:{port}", cache_timeout_seconds=10.0)
    box = fleet.box(SystemClock())

    def ask(key: str, load: Load) -> object:
        return box.invoke(INVOCATION_SECONDS).get_or_load(key, load, ttl_seconds=TTL_SECONDS)

    return ask


def _by_hand(client: Any) -> Ask:  # Any: redis-py's replies vary by client
    """Look, take redis-py's lock, look again, load: as its documentation suggests."""

    def ask(key: str, load: Load) -> object:
        value = client.get(key)
        if value is None:
            lock = Lock(
                client,
                f"lock:{key}",
                timeout=LOCK_SECONDS,
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
