"""Count how often a client of the cache waited for an answer, from the bytes that pass.

A flush is what a client sends before it waits: a new one begins with the first byte that is sent
after every command sent before was answered, and the answer handed on. A server may catch up with a
client that is still sending: its answer is held back while the client has bytes under way, or, in a
flush that takes more than one write, while a thread of the client is running. Flushes that only
set a connection up (HELLO, AUTH, CLIENT, SELECT) are counted apart.
"""

import array
import fcntl
import termios
from pathlib import Path
from typing import Final

_SETUP: Final = frozenset({b"HELLO", b"AUTH", b"CLIENT", b"SELECT"})
_NESTED: Final = frozenset(b"*~>%")
_WITH_LENGTH: Final = frozenset(b"$=!")
_MAP: Final = ord("%")
_PUSH: Final = b">"
# redis-py writes a pipeline in pieces of 6,000 bytes: a shorter flush is one write.
_ONE_WRITE_BYTES: Final = 5_000


class RoundTrips:
    """One client's flushes over all of its connections.

    `client_pid` is the client's process, where it is known.
    """

    def __init__(self) -> None:
        self.client_pid: int | None = None
        self.flushes = 0
        self.setup_flushes = 0
        self.commands = 0

    def observe(self) -> "RespObserver":
        """Watch one more connection."""
        return RespObserver(self)


class RespObserver:
    """One connection: how many commands are unanswered, and what the flush consists of."""

    def __init__(self, counts: RoundTrips) -> None:
        self._counts = counts
        self._requests = RespReader(first_word=True)
        self._replies = RespReader(first_word=False)
        self._unanswered = 0
        self._open = False
        self._setup_only = True
        self._bytes = 0

    def sent(self, data: bytes) -> None:
        """Count the commands; the first byte after an answer opens a flush."""
        if not self._open:
            self._open = True
            self._setup_only = True
            self._bytes = 0
        self._bytes += len(data)
        for command in self._requests.feed(data):
            self._unanswered += 1
            self._counts.commands += 1
            self._setup_only = self._setup_only and command in _SETUP

    def received(self, data: bytes) -> None:
        """Count the replies."""
        for kind in self._replies.feed(data):
            # A push is no answer to anything.
            self._unanswered -= kind != _PUSH

    def settled(self, *, client: int) -> bool:
        """End the flush, once all of it is answered and the client does not go on sending."""
        if not self._open or self._unanswered > 0:
            return True
        if _has_more(client) or (self._bytes > _ONE_WRITE_BYTES and self._client_runs()):
            return False
        self._open = False
        self._unanswered = 0
        if self._setup_only:
            self._counts.setup_flushes += 1
        else:
            self._counts.flushes += 1
        return True

    def _client_runs(self) -> bool:
        """Whether a thread of the client runs or waits for a processor; one that reads, sleeps."""
        tasks = Path(f"/proc/{self._counts.client_pid}/task")
        try:
            states = [
                (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
                for task in tasks.iterdir()
            ]
        except OSError:
            # Not Linux, not known, or gone.
            return False
        return b"R" in states


class RespReader:
    """Cut a stream into top-level items of the Redis protocol, in whatever pieces it comes.

    Args:
        first_word: Label an item with its first word (a command's name), not with its type.
    """

    def __init__(self, *, first_word: bool) -> None:
        self._first_word = first_word
        self._buffer = bytearray()
        self._left = 0
        self._label: bytes | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Take more of the stream and answer the labels of the items that it completes."""
        self._buffer += data
        labels: list[bytes] = []
        try:
            self._cut(labels)
        except ValueError:
            # Not the protocol: forget it, and start again at the next piece.
            self._buffer.clear()
            self._left = 0
        return labels

    def _cut(self, labels: list[bytes]) -> None:
        buffer, position = self._buffer, 0
        while (end := buffer.find(b"\r\n", position)) >= 0:
            kind, after, children = buffer[position], end + 2, 0
            word = bytes(buffer[position + 1 : end])
            if kind in _WITH_LENGTH and (length := int(word)) >= 0:
                after += length + 2
                if len(buffer) < after:
                    break
                word = bytes(buffer[end + 2 : after - 2])
            elif kind in _NESTED:
                children = max(0, int(word)) * (2 if kind == _MAP else 1)
            if self._left == 0:
                self._left = 1
                self._label = None if self._first_word and kind in _NESTED else bytes([kind])
            elif self._label is None:
                self._label = word.upper()
            self._left += children - 1
            position = after
            if self._left == 0:
                labels.append(self._label or b"")
        del buffer[:position]


def _has_more(client: int) -> bool:
    """Whether the client has sent bytes that nobody has read yet."""
    if client < 0:
        return False
    unread = array.array("i", [0])
    fcntl.ioctl(client, termios.FIONREAD, unread)
    return unread[0] > 0
