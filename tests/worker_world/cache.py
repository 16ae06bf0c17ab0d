"""The shared cache of the world: a real Valkey behind a client that can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as TimedOut

from sekali import scripts
from sekali.scripts import CLAIM, FINISH, LOG_TAIL, RENEW, Script
from tests.worker_world.faults import Killed

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from tests.worker_world.faults import Fault, Point

SCRIPTS: Final = [one for one in vars(scripts).values() if isinstance(one, Script)]

_POINTS: Final[dict[str, Point]] = {
    CLAIM.sha: "claim",
    LOG_TAIL.sha: "claim",
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

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.behind_ms = 0
        self.reset()

    def reset(self) -> None:
        """Empty it, and let both clocks agree."""
        self.behind_ms = 0
        self.client.flushall()
        self.load_scripts()

    def load_scripts(self) -> None:
        """Let it know every script, so that no flush is sent twice for that."""
        for script in SCRIPTS:
            self.client.script_load(script.source)

    def age(self, seconds: float) -> None:
        """Make everything stored older."""
        self.behind_ms += round(seconds * 1000)
        self.client.eval(_AGE, 0, round(seconds * 1000))


class FaultyClient:
    """Be a client of redis-py as one container holds it."""

    def __init__(
        self, server: Server, decide: Callable[[Point], Fault], stop: Callable[[], None]
    ) -> None:
        self.server = server
        self.decide = decide
        self.stop = stop

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
        # Any: the client's own stubs leave this method untyped.
        pipeline: Any = self._client.server.client.pipeline(transaction=False)
        for at, line in enumerate(lines):
            if at != refused:
                pipeline.execute_command(*line)
        replies = pipeline.execute(raise_on_error=False)
        if refused is not None:
            replies.insert(refused, OutOfMemoryError("the plan says so"))
        return [self._in_world_time(reply) for reply in replies]

    def _in_world_time(self, reply: Any) -> Any:  # Any: a reply
        """Bring the one absolute time that a script answers with into the world's time."""
        if isinstance(reply, list) and reply and reply[0] == b"acquired":
            return [*reply[:-1], reply[-1] + self._client.server.behind_ms]
        return reply


def _points_of(line: Line) -> list[Point]:
    return [_POINTS[str(part)] for part in line[:2] if str(part) in _POINTS]
