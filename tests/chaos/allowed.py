"""What may be sent to ElastiCache Serverless, and whether a run kept to it (FACTS §6).

A list of what is allowed, not of what is refused, so that a new command has to be looked at first.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.chaos.history import History

# Outside scripts: the steps, and what a client says when it connects.
COMMANDS: Final = frozenset(
    {"AUTH", "CLIENT SETINFO", "EVAL", "EVALSHA", "HELLO", "HMGET", "PING", "PTTL", "SET", "XRANGE"}
)

# Inside scripts. PEXPIRETIME is open on Serverless: the scripts fall back where it is refused.
IN_SCRIPTS: Final = frozenset(
    {
        *(
            "DEL",
            "EXISTS",
            "GET",
            "GETEX",
            "GETRANGE",
            "HDEL",
            "HGET",
            "HGETALL",
            "HINCRBY",
            "HMGET",
            "HSET",
        ),
        *(
            "MGET",
            "PEXPIRE",
            "PEXPIRETIME",
            "PTTL",
            "PUBLISH",
            "SET",
            "XADD",
            "XRANGE",
            "XREVRANGE",
        ),
        *("XTRIM", "ZADD", "ZRANGE", "ZRANGEBYSCORE", "ZREM", "ZSCORE"),
    }
)
_CALL: Final = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'\s*,\s*([A-Za-z_]+)")
_ANY_CALL: Final = re.compile(r"redis\.p?call\(")


def refused(history: History) -> list[str]:
    """Answer what a run sent that is not allowed, and calls whose keys are not in one slot."""
    found = [
        name
        for name in sorted(history.commands)
        if name not in COMMANDS and name.split(" ")[0] not in COMMANDS
    ]
    found += [f"unknown script: {name}" for name in history.commands if "unknown" in name]
    return found + [f"keys of several slots: {command[:3]!r}" for command in history.crossing]


def scripts() -> dict[str, str]:
    """Answer the text of every script by its name."""
    folder = files("sekali.scripts")
    return {path.name: path.read_text() for path in folder.iterdir() if path.name.endswith(".lua")}


def calls(source: str) -> list[tuple[str, str]]:
    """Answer each command of a script with the first word of its key.

    Raises:
        ValueError: A call does not name its command, so nobody can tell what it does.
    """
    code = "\n".join(line.partition("--")[0] for line in source.splitlines())
    found = _CALL.findall(code)
    if len(found) != len(_ANY_CALL.findall(code)):
        raise ValueError("a call does not name its command and key")
    return found
