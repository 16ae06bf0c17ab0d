"""What a run did, as it was seen from outside: on the wires, and in the lines that bodies write."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from infra.local.aws_calls import AwsCalls, HttpObserver
from sekali import scripts
from sekali.scripts import Script
from tests.chaos import resp
from tests.chaos.asset.chaosjobs import mutants
from tests.chaos.deployment import LEDGER, RESULTS

if TYPE_CHECKING:
    from tests.chaos.resp import Command, Reply

_SCRIPTS: Final = (
    *(value for value in vars(scripts).values() if isinstance(value, Script)),
    *(changed for name in mutants.names() if (changed := mutants.script(name)) is not None),
)
_BY_SHA: Final = {script.sha.encode(): script.name for script in _SCRIPTS}
_BY_TEXT: Final = {script.source.encode(): script.name for script in _SCRIPTS}
_STEPS: Final = frozenset({"claim", "renew", "finish"})
_RUN: Final = frozenset({b"EVALSHA", b"EVAL"})
_KEYED: Final = frozenset({b"GET", b"HMGET", b"MGET", b"PTTL", b"SET", b"XRANGE"})
# Commands whose second word says what they do.
_CONTAINERS: Final = frozenset({"CLIENT", "CLUSTER", "COMMAND", "CONFIG", "SCRIPT"})
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The server answered a claim, a renewal or a finish; `fence` is that of a lease it gave."""

    step: str
    word: str
    key: bytes
    token: bytes
    at: float
    fence: int = 0


@dataclass(slots=True)
class History:
    """Everything that passed the wires; written by their thread, read when it has ended."""

    calls: AwsCalls = field(default_factory=AwsCalls)
    commands: Counter[str] = field(default_factory=Counter)
    crossing: list[Command] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    replies: Counter[str] = field(default_factory=Counter)

    def take_command(self, command: Command) -> None:
        """Count a command that went to the cache, and look at its keys."""
        name = command[0].decode().upper()
        step = script_of(command)
        if name in _CONTAINERS and len(command) > 1:
            name = f"{name} {command[1].decode().upper()}"
        self.commands[f"{name} {step}".strip()] += 1
        keys = keys_of(command)
        if len({resp.slot_of(key) for key in keys}) > 1 or (step and not keys):
            self.crossing.append(command)

    def take_reply(self, command: Command, reply: Reply) -> None:
        """Keep what the checker reads of an answer."""
        step = script_of(command)
        if step not in _STEPS or not isinstance(reply, list) or not reply:
            return
        word = bytes(reply[0]).decode()
        self.replies[f"{step} {word}"] += 1
        keys = keys_of(command)
        self.steps.append(
            Step(
                step=step,
                word=word,
                key=keys[3],
                token=command[3 + len(keys)],
                at=time.time(),
                fence=int(reply[1]) if word == "acquired" else 0,
            )
        )

    @property
    def grants(self) -> list[Step]:
        """Answer the leases that were given, in order."""
        return [one for one in self.steps if one.word == "acquired"]

    def of_token(self, token: str) -> list[Step]:
        """Answer what the holder of one claim asked the server for, in order."""
        return [one for one in self.steps if one.token == token.encode()]


def script_of(command: Command) -> str:
    """Name the script that a command runs; empty for any other command."""
    if command[0].upper() not in _RUN:
        return ""
    return _BY_SHA.get(command[1]) or _BY_TEXT.get(command[1]) or "unknown"


def keys_of(command: Command) -> Command:
    """Answer the keys that a command declares."""
    if command[0].upper() in _RUN:
        count = int(command[2])
        return command[3 : 3 + count]
    if command[0].upper() in _KEYED:
        return command[1:] if command[0].upper() == b"MGET" else command[1:2]
    return ()


class CacheTap:
    """Reads one connection to the cache."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._requests = resp.Reader()
        self._ahead = resp.Reader()
        self._replies = resp.Reader()
        self._waiting: list[Command] = []

    @property
    def unanswered(self) -> bool:
        return bool(self._waiting)

    def cut(self, data: bytes) -> list[bytes]:
        """Leave what came at once together: a pipeline is one flush."""
        return [data]

    def windows(self, parcel: bytes) -> tuple[str, ...]:
        commands = [resp.command(value) for value in self._ahead.feed(parcel)]
        steps = [script_of(command) for command in commands if command]
        return tuple(dict.fromkeys(step for step in steps if step in _STEPS))

    def sent(self, parcel: bytes) -> None:
        for value in self._requests.feed(parcel):
            command = resp.command(value)
            if command:
                self._waiting.append(command)
                self._history.take_command(command)

    def received(self, data: bytes) -> None:
        for reply in self._replies.feed(data):
            if self._waiting:
                self._history.take_reply(self._waiting.pop(0), reply)


class AwsTap:
    """Reads one connection to the AWS interfaces: cuts requests apart, records calls."""

    def __init__(self, history: History) -> None:
        self._observer = HttpObserver(history.calls)
        self._buffer = bytearray()
        self._body_bytes = 0
        self.unanswered = False

    def cut(self, data: bytes) -> list[bytes]:
        """Hand on whole requests; one that asks before it sends its body, in two parcels."""
        self._buffer += data
        parcels = []
        while self._buffer:
            size = self._body_bytes or _head_size(self._buffer)
            if not self._body_bytes and size:
                head = bytes(self._buffer[:size])
                length = _header(head, b"content-length")
                if _header(head, b"expect"):
                    self._body_bytes = int(length)
                else:
                    size += int(length or b"0")
            elif self._body_bytes <= len(self._buffer):
                self._body_bytes = 0
            if not size or size > len(self._buffer):
                break
            parcels.append(bytes(self._buffer[:size]))
            del self._buffer[:size]
        return parcels

    def windows(self, parcel: bytes) -> tuple[str, ...]:
        head, _, body = parcel.partition(_HEAD_END)
        if b"DynamoDB_" not in head:
            return ("send",) if b"SendMessage" in head else ()
        if b".PutItem" in head and b'"%b' % RESULTS.encode() in body:
            return ("table", "dynamodb")
        if b".UpdateItem" in head and b'"%b' % LEDGER.encode() in body:
            return ("ledger", "dynamodb")
        return ("dynamodb",)

    def sent(self, parcel: bytes) -> None:
        self.unanswered = True
        self._observer.sent(parcel)

    def received(self, data: bytes) -> None:
        self.unanswered = False
        self._observer.received(data)


def _head_size(data: bytearray) -> int:
    end = data.find(_HEAD_END)
    return 0 if end < 0 else end + len(_HEAD_END)


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(name + b":"):
            return line.partition(b":")[2].strip()
    return b""


def outcomes(history: History, table: str) -> list[tuple[float, Any]]:  # Any: DynamoDB's typed JSON
    """Answer every item with an outcome that the table accepted, in order, with its time."""
    return [
        (at, item)
        for at, item in history.calls.accepted_writes(table)
        if item.get("st", {}).get("S") in {"done", "failed"}
    ]
