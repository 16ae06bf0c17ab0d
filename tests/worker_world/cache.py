"""The shared cache of the world: a real Valkey behind a client that can fail."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as TimedOut

from sekali import scripts
from sekali.scripts import CLAIM, FINISH, LOAD, LOG_END, RENEW, Script
from tests.worker_world.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from tests.worker_world.faults import Fault, Point

SCRIPTS: Final = [one for one in vars(scripts).values() if isinstance(one, Script)]

_NOTICEABLE_SECONDS: Final = 0.01

# Where the arguments of a renewal stand in its command.
_TOKEN_AT: Final = 8
_STARTED_AT: Final = 14

_POINTS: Final[dict[str, Point]] = {
    CLAIM.sha: "claim",
    LOAD.sha: "claim",
    LOG_END.sha: "claim",
    "XRANGE": "claim",
    RENEW.sha: "renew",
    FINISH.sha: "finish",
}

# Everything that is stored gets older by ARGV[1] milliseconds: what ends by then is gone, and the
# moments that are written inside values move into the past.
_AGE: Final = """
local passed = tonumber(ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= passed then
    redis.call('DEL', key)
  else
    if key:sub(-5) == ':born' then
      local born = tonumber(redis.call('GET', key)) - passed
      redis.call('SET', key, string.format('%.0f', born))
    elseif redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, 'started') == 1 then
      redis.call('HINCRBY', key, 'started', -passed)
    end
    if left >= 0 then
      redis.call('PEXPIRE', key, left - passed)
    end
  end
end
return 0
"""

Line = tuple[Any, ...]  # Any: arguments of a command


class Server:
    """The Valkey, and how far its own clock is behind the world's."""

    def __init__(self, client: Redis, *, now: float) -> None:
        self.client = client
        self.behind_ms = round((now - time.time()) * 1000)
        self._held_at = time.monotonic()
        # By the name of a job's record: the claims whose body was marked as started.
        self.marked: defaultdict[bytes, set[str]] = defaultdict(set)
        self.reset()

    def reset(self) -> None:
        """Empty it."""
        self.client.flushall()
        self.load_scripts()

    def load_scripts(self) -> None:
        """Let it know every script, so that no flush is sent twice for that."""
        for script in SCRIPTS:
            self.client.script_load(script.source)

    def age(self, seconds: float) -> None:
        """Make everything stored older."""
        passed_ms = round(seconds * 1000)
        self.behind_ms += passed_ms
        self.client.eval(_AGE, 0, passed_ms)

    def hold_still(self) -> None:
        """Take back what the test itself took, so that a slow machine sees the same history."""
        passed = time.monotonic() - self._held_at
        if passed > _NOTICEABLE_SECONDS:
            self._held_at += passed
            self.age(-passed)


class Pool:
    """What a client's pool lets the library set: how long it may wait."""

    def __init__(self) -> None:
        self.connection_kwargs = {"socket_timeout": 0.5, "socket_connect_timeout": 1.0}

    def disconnect(self, *, inuse_connections: bool = True) -> None:
        """Keep the one connection of the test."""

    def reset(self) -> None:
        """Keep it here too."""


class FaultyClient:
    """Be a client of redis-py as one container holds it."""

    def __init__(
        self, server: Server, decide: Callable[[Point], Fault], stop: Callable[[], None]
    ) -> None:
        self.server = server
        self.decide = decide
        self.stop = stop
        self.connection_pool = Pool()

    def pipeline(self, *, transaction: bool) -> Pipeline:
        """Return a pipeline; the library never asks for a transaction."""
        assert not transaction
        return Pipeline(self)

    def close(self) -> None:
        """Keep the one connection of the test."""


class Pipeline:
    """Collect commands and send them, or what a fault leaves of them."""

    def __init__(self, client: FaultyClient) -> None:
        self._client = client
        self._lines: list[Line] = []

    def execute_command(self, *line: Any) -> None:  # Any: arguments of a command
        """Queue one command."""
        self._lines.append(line)

    def execute(self, *, raise_on_error: bool) -> list[Any]:  # Any: replies
        """Send what is queued, and fail as the plan says."""
        assert not raise_on_error
        point = self._point()
        fault = self._client.decide(point)
        if fault == "die_before":
            raise Killed
        if fault == "down":
            raise Disconnected("the plan says so")
        lines = self._lines[: len(self._lines) // 2] if fault == "half" else self._lines
        refused = None
        if fault == "refused":
            refused = max(at for at, line in enumerate(lines) if point in _points_of(line))
        replies = self._send(lines, refused)
        if fault == "half":
            raise Disconnected("the plan says so, half way")
        if fault == "lost":
            raise TimedOut("the plan says so")
        if fault == "die_after":
            raise Killed
        if fault == "stop_after":
            self._client.stop()
        return replies

    def _point(self) -> Point:
        return next((point for line in self._lines for point in _points_of(line)), "other")

    def _send(self, lines: list[Line], refused: int | None) -> list[Any]:  # Any: replies
        self._client.server.hold_still()
        # Any: the client's own stubs leave this method untyped.
        pipeline: Any = self._client.server.client.pipeline(transaction=False)
        for at, line in enumerate(lines):
            if at != refused:
                pipeline.execute_command(*line)
        replies = pipeline.execute(raise_on_error=False)
        for line in lines:
            if line[1] == RENEW.sha and line[_STARTED_AT] == 1:
                self._client.server.marked[line[3]].add(str(line[_TOKEN_AT]))
        if refused is not None:
            replies.insert(refused, OutOfMemoryError("the plan says so"))
        return [self._in_world_time(reply) for reply in replies]

    def _in_world_time(self, reply: Any) -> Any:  # Any: a reply
        """Bring the times that scripts answer with into the world's time.

        One is absolute. The others are lengths, from which the rest of the test's own running time
        is rounded off: nearly always a seed gives the same history again.
        """
        match reply:
            case [b"acquired", *rest, int(born_ms)]:
                born_ms = _rounded(born_ms + self._client.server.behind_ms)
                return [b"acquired", *rest, born_ms]
            case [b"busy", int(left_ms), owner, int(age_ms), *rest]:
                return [b"busy", _rounded(left_ms), owner, _rounded(age_ms), *rest]
        return reply


def _rounded(time_ms: int) -> int:
    return round(time_ms / 50) * 50


def _points_of(line: Line) -> list[Point]:
    return [_POINTS[str(part)] for part in line[:2] if str(part) in _POINTS]
