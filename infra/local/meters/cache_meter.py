"""AWS/ElastiCache: what INFO of the embedded server says, as ElastiCache publishes it.

A node has a processor for its engine; here it shares one. So the time in which the engine was ready
to run and had to wait counts as used, where the kernel tells it (Linux's schedstat).

https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheMetrics.Redis.html
"""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import Datum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from infra.local.cloudwatch.store import MetricStore
    from infra.local.relay import Address

_NAMESPACE: Final = "AWS/ElastiCache"
_WITHIN_SECONDS: Final = 2.0
_END: Final = b"\r\n"
# Counters of the server that only grow, and the metrics of their growth.
_COUNTERS: Final = {
    "evicted_keys": "Evictions",
    "expired_keys": "Reclaimed",
    "keyspace_hits": "CacheHits",
    "keyspace_misses": "CacheMisses",
    "total_connections_received": "NewConnections",
}


class CacheMeter:
    """Asks one node how it is, when it is told to.

    Args:
        store: Where it puts what it hears.
        address: The server's own address; the answer does not pass through any door.
        node: The name of the node: `<group>-001`.
    """

    def __init__(self, store: MetricStore, *, address: Address, node: str) -> None:
        self._store = store
        self._address = address
        self._node = node
        self._connection: socket.socket | None = None
        self._before: tuple[float, Mapping[str, float]] | None = None

    def sample(self) -> None:
        """Ask; a server that does not answer publishes nothing, as in AWS."""
        try:
            told = dict(_numbers(self._ask()))
        except OSError:
            self.close()
            return
        told["waited"] = _waited_seconds(int(told["process_id"]))
        at, now = time.time(), time.monotonic()
        self._put("CurrConnections", told["connected_clients"], at)
        self._put("CurrItems", told["items"], at)
        self._put("BytesUsedForCache", told["used_memory"], at, "Bytes")
        if told.get("maxmemory"):
            share = 100 * told["used_memory"] / told["maxmemory"]
            self._put("DatabaseMemoryUsagePercentage", share, at, "Percent")
        if self._before is not None:
            self._put_growth(told, at, now, *self._before)
        self._before = (now, told)

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _put_growth(
        self,
        told: Mapping[str, float],
        at: float,
        now: float,
        then: float,
        before: Mapping[str, float],
    ) -> None:
        for counter, name in _COUNTERS.items():
            # A server that was started again counts from zero.
            grown = told[counter] - before[counter]
            self._put(name, grown if grown >= 0 else told[counter], at)
        used = [
            sum(one[f"used_cpu_{kind}_main_thread"] for kind in ("user", "sys")) + one["waited"]
            for one in (before, told)
        ]
        share = 100 * max(0.0, used[1] - used[0]) / max(1e-6, now - then)
        self._put("EngineCPUUtilization", min(100.0, share), at, "Percent")
        hits, misses = (told[name] - before[name] for name in ("keyspace_hits", "keyspace_misses"))
        if hits + misses > 0:
            self._put("CacheHitRate", 100 * hits / (hits + misses), at, "Percent")

    def _put(self, name: str, value: float, at: float, unit: str = "Count") -> None:
        self._store.put(
            Datum(
                name=metric(_NAMESPACE, name, dimensions),
                values=((value, 1.0),),
                unit=unit,
                at=at,
            )
            for dimensions in (
                {"CacheClusterId": self._node},
                {"CacheClusterId": self._node, "CacheNodeId": "0001"},
            )
        )

    def _ask(self) -> str:
        if self._connection is None:
            self._connection = socket.create_connection(self._address, timeout=_WITHIN_SECONDS)
        self._connection.sendall(b"INFO everything\r\n")
        answer = b""
        while _END not in answer:
            answer += self._more()
        head, _, body = answer.partition(_END)
        length = int(head[1:])
        while len(body) < length:
            body += self._more()
        return body.decode(errors="replace")

    def _more(self) -> bytes:
        if self._connection is None:
            raise ConnectionError("hung up")
        data = self._connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the server hung up")
        return data


def _waited_seconds(process: int) -> float:
    """Answer how long a process's main thread was ready to run and did not; 0 where untold."""
    try:
        told = Path(f"/proc/{process}/task/{process}/schedstat").read_text()
        return int(told.split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _numbers(info: str) -> Iterator[tuple[str, float]]:
    items = 0.0
    for line in info.splitlines():
        name, _, value = line.partition(":")
        if name.startswith("db"):
            items += float(value.partition("keys=")[2].partition(",")[0])
            continue
        with contextlib.suppress(ValueError):
            yield name, float(value)
    yield "items", items
