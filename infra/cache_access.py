"""What the cache's user may do: the commands that the library sends, and no other.

They are read from the library's own text when the app is built, so that the access string of a
deployment belongs to the code of the same deployment:

    redis.call('HMGET', …)      in a script; a script runs with its caller's rights
    Command(("XRANGE", …))      beside the scripts

A test runs the library as a user with this string against a real server, standalone and in cluster
mode, and looks for refusals.
"""

import re
from pathlib import Path
from typing import Final

from infra.vendor import ROOT

LIBRARY: Final = ROOT / "layers" / "sekali" / "python" / "sekali"

# How scripts are run: by name, and by their text where a node does not know them.
_SCRIPTS: Final = frozenset({"eval", "evalsha"})
# What the client itself sends when it opens a connection: who it is, and whether it is heard.
_CONNECTION: Final = frozenset({"auth", "client|setinfo", "client|setname", "hello", "ping"})
# What a client of the cluster protocol asks beside, to find the node of a key.
_CLUSTER: Final = frozenset({"asking", "cluster|shards", "cluster|slots", "command", "readonly"})

# Not there on a serverless cache, or able to see or stop more than this kit's own keys (FACTS 6).
_FORBIDDEN: Final = frozenset({
    "acl", "client", "config", "debug", "fcall", "fcall_ro", "flushall", "flushdb", "function",
    "keys", "latency", "memory", "module", "monitor", "object", "psubscribe", "replicaof", "save",
    "scan", "script", "shutdown", "slowlog", "swapdb", "time", "wait", "waitaof",
})  # fmt: skip

_IN_SCRIPT: Final = re.compile(r"redis\.p?call\(\s*'([A-Za-z]+)'")
_BESIDE: Final = re.compile(r"""\bCommand\(\s*\(\s*"([A-Za-z]+)\"""")


class CommandForbidden(ValueError):
    """The library sends a command that no access string of ours may hold; raised at synth."""

    def __init__(self, *, command: str) -> None:
        self.command = command
        super().__init__(f"the library sends {command}, which the cache must not allow")


def commands(library: Path = LIBRARY) -> frozenset[str]:
    """Return the commands that the library sends, in lower case.

    Raises:
        CommandForbidden: One of them must not be allowed.
    """
    found = set(_SCRIPTS)
    for path, pattern in [
        *((path, _IN_SCRIPT) for path in library.rglob("*.lua")),
        *((path, _BESIDE) for path in library.rglob("*.py")),
    ]:
        found |= {name.lower() for name in pattern.findall(path.read_text(encoding="utf-8"))}
    for command in sorted(found & _FORBIDDEN):
        raise CommandForbidden(command=command)
    return frozenset(found)


def access_string(*, namespace: str, cluster: bool, library: Path = LIBRARY) -> str:
    """Return the rights of the worker's user: these commands, on the keys of this namespace.

    Scripted keys begin with `{namespace:`, tags and the invalidation log with `namespace:`, and so
    does the channel that wakes processes that keep running.
    """
    allowed = commands(library) | _CONNECTION | (_CLUSTER if cluster else frozenset())
    rights = " ".join(f"+{command}" for command in sorted(allowed))
    return f"on resetchannels ~{{{namespace}:* ~{namespace}:* &{namespace}:* -@all {rights}"
