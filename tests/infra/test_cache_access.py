"""The cache's user can do what the library does, and nothing else: asked of a real server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import redis

from infra.cache_access import CommandForbidden, access_string, commands
from sekali import claims as protocol
from sekali.clock import SystemClock
from sekali.invalidation import Entry, Log, new_mark
from sekali.keys import Keyspace
from sekali.scripts import Command
from sekali.shared import Shared
from tests.infra.synthesized import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Client = Any  # redis-py's own `execute_command` has no types.

USER = "worker"
PASSWORD = "of-this-test"


@pytest.fixture
def as_worker(valkey: Client) -> Iterator[Client]:
    """A client of the user that the stack would make, with a password in place of a signature."""
    rights = access_string(namespace="sekali", cluster=False).split()
    valkey.execute_command("ACL", "SETUSER", USER, "reset", f">{PASSWORD}", *rights)
    kwargs = valkey.connection_pool.connection_kwargs
    client = redis.Redis(host=kwargs["host"], port=kwargs["port"], username=USER, password=PASSWORD)
    yield client
    client.close()
    valkey.execute_command("ACL", "DELUSER", USER)
    valkey.execute_command("ACL", "LOG", "RESET")


@pytest.mark.usefixtures("as_worker")
def test_every_script_runs_with_the_rights_of_the_user(valkey: Client) -> None:
    """A script runs with its caller's rights; what it may not call fails inside of it."""
    folder = ROOT / "layers" / "sekali" / "python" / "sekali" / "scripts"
    refused = {}
    for script in sorted(folder.glob("*.lua")):
        for command in commands_of(script.read_text(encoding="utf-8")):
            key = "sekali:log" if command == "PUBLISH" else "{sekali:1}:x"
            answer = valkey.execute_command("ACL", "DRYRUN", USER, command, key, *filler(command))
            if answer not in {b"OK", "OK"}:
                refused[script.name, command] = answer

    assert refused == {}


def test_a_job_an_invalidation_and_a_tag_need_no_more(as_worker: Client, valkey: Client) -> None:
    keyspace = Keyspace("sekali", 64)
    claims = protocol.Claims(keyspace, "owner")
    log = Log(keyspace)
    ask = protocol.Ask(
        name="job",
        id="1",
        key="k",
        payload_hash="0" * 32,
        token=protocol.new_token(),
        terms=protocol.Terms(
            lease_seconds=12,
            record_ttl_seconds=100,
            max_attempts=3,
            cooling_base_seconds=1,
            cooling_cap_seconds=2,
            born_ttl_seconds=100,
        ),
    )
    shared = Shared(lambda: as_worker, clock=SystemClock())

    replies = shared.flush(
        [
            log.tail(None),
            log.epoch("month", new_mark()),
            claims.claim(ask),
            claims.bind(ask),
            log.epoch_set("month", new_mark()),
            claims.invalidate("job", "k"),
            log.append([Entry("t", "month", new_mark())]),
            Command(("XRANGE", keyspace.log, "-", "+", "COUNT", 10)),
        ]
    )

    assert [reply for reply in replies if isinstance(reply, Exception)] == []
    denied = [line for line in valkey.execute_command("ACL", "LOG") if is_ours(line)]
    assert denied == []


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("CLIENT", "LIST"),
        ("GET", "elsewhere:1"),
        ("SUBSCRIBE", "anything"),
        ("EVAL", "return redis.call('GET', 'elsewhere:1')", "0"),
    ],
)
def test_what_the_library_does_not_do_is_refused(
    command: tuple[str, ...], as_worker: Client
) -> None:
    with pytest.raises((redis.exceptions.NoPermissionError, redis.exceptions.ResponseError)) as no:
        as_worker.execute_command(*command)

    assert "permission" in str(no.value).lower()


def test_a_user_in_cluster_mode_may_ask_where_keys_are() -> None:
    alone, cluster = (
        set(access_string(namespace="n", cluster=cluster).split()) for cluster in (False, True)
    )

    assert alone < cluster
    assert "+cluster|slots" in cluster - alone


def test_commands_are_read_from_scripts_and_from_beside_them(tmp_path: Path) -> None:
    (tmp_path / "one.lua").write_text("redis.call('HGET', KEYS[1]) redis.pcall( 'Ttl', KEYS[1])")
    (tmp_path / "two.py").write_text('Command(("XLEN", key))\nCommand(\n    ("XACK", key)\n)')

    assert commands(tmp_path) == {"eval", "evalsha", "hget", "ttl", "xlen", "xack"}


def test_a_command_that_serverless_lacks_stops_the_synth(tmp_path: Path) -> None:
    (tmp_path / "one.lua").write_text("return redis.call('TIME')")

    with pytest.raises(CommandForbidden, match="time"):
        commands(tmp_path)


def commands_of(source: str) -> set[str]:
    """The commands that a script calls."""
    return set(re.findall(r"redis\.p?call\(\s*'([A-Z]+)'", source))


def filler(command: str) -> list[str]:
    """Arguments that make a command well-formed; it is not run."""
    return {
        "GET": [], "TTL": [], "PTTL": [], "DEL": [], "EXISTS": [], "HGETALL": [],
        "PEXPIRETIME": [], "SMEMBERS": [], "ZCARD": [], "PERSIST": [], "STRLEN": [],
        "HSET": ["f", "v"], "ZADD": ["1", "m"], "XADD": ["*", "f", "v"], "SET": ["v"],
        "XREVRANGE": ["+", "-"], "XRANGE": ["-", "+"], "ZRANGE": ["0", "1"],
        "ZRANGEBYSCORE": ["0", "1"], "GETRANGE": ["0", "1"],
    }.get(command, ["1"])  # fmt: skip


def is_ours(line: list[bytes]) -> bool:
    """Whether an entry of the server's log of refusals is about the worker."""
    return USER.encode() in line
