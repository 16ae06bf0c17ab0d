"""The servers that the fixtures start are the real thing, and empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import NoScriptError

from sekali.clock import SystemClock
from sekali.connections import full_client
from sekali.shared import Command, Shared, connect

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster


@pytest.mark.parametrize("visit", ["first", "second"])
def test_each_test_finds_an_empty_valkey(valkey: Redis, visit: str) -> None:
    found = valkey.dbsize()

    valkey.set("left behind", visit)

    assert found == 0


def test_each_test_finds_an_empty_script_cache(valkey: Redis) -> None:
    sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

    with pytest.raises(NoScriptError):
        valkey.evalsha(sha, 0)


def test_the_server_is_valkey_and_keeps_nothing_on_disk(valkey: Redis) -> None:
    assert valkey.info("server")["server_name"] == "valkey"
    assert valkey.config_get("save") == {"save": ""}


def test_the_cluster_owns_every_slot(valkey_cluster: RedisCluster) -> None:
    valkey_cluster.set("a", "1")
    valkey_cluster.set("b", "2")

    values = [valkey_cluster.get("a"), valkey_cluster.get("b")]

    assert values == [b"1", b"2"]


@dataclass(frozen=True)
class Plain:
    """What a connection needs to know, without TLS: there is no server here that speaks it."""

    cache_url: str
    cache_cluster: bool = False
    cache_iam_user: str | None = "sekali-worker"
    cache_name: str | None = "reports-cache"
    cache_serverless: bool | None = False
    cache_connect_timeout_seconds: float = 1.0
    cache_timeout_seconds: float = 1.0


def test_role_logs_in_as_its_user(valkey: Redis, valkey_url: str) -> None:
    valkey.acl_setuser("sekali-worker", enabled=True, nopass=True, keys=["*"], commands=["+@all"])

    door = Shared(connect(Plain(valkey_url)), clock=SystemClock())
    client = full_client(Plain(valkey_url))()

    assert door.flush([Command(("ACL", "WHOAMI"))]) == [b"sekali-worker"]
    assert client.acl_whoami() in {b"sekali-worker", "sekali-worker"}
    door.close()
    client.close()
    valkey.acl_deluser("sekali-worker")
