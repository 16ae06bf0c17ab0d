"""One execution environment: a process of the genuine Lambda runtime client, and its life.

    start ── INIT ──> frozen ──invoke──> running ──> frozen ...        (SIGSTOP / SIGCONT)
               │                            │
               └─ init error, 10 s over     └─ timeout, death: killed, never used again

The process sees the function's asset, its layers, the runtime's folder and the standard library;
no site-packages, no variable and no file of ours. Whoever calls `invoke` drives it: there is no
thread beside, so each log line that is read belongs to the invocation that is on. What cannot be
shown here: the sandbox (user, memory limit, read-only file system, CPU share).
"""

import collections
import secrets
import selectors
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal

from infra.local import differences
from infra.local.doors import Doors
from infra.local.output import Output
from infra.local.processes import Nursery
from infra.local.runtime_api import VERSION, Request, RequestMalformed, RuntimeApi
from infra.local.template import Function
from infra.local.variables import reserved_variables

INIT_WITHIN_SECONDS: Final = 10.0
_RESPONSE_BYTES: Final = 6 * 1024 * 1024
# Death shows at once as an end of file; this bounds the wait for the process to be reapable.
_TICK_SECONDS: Final = 0.05

Kind = Literal["answered", "failed", "timed_out", "died", "init_failed", "throttled"]
OnLine = Callable[["LogLine"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a function's output; `request_id` is empty during INIT."""

    environment: "Environment"
    request_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an invocation ended. `payload` is the answer's or the error's JSON.

    One that was throttled never began.
    """

    kind: Kind
    request_id: str
    payload: bytes
    started_at: float  # Unix seconds.
    seconds: float
    round_trips: int


class EnvironmentDied(RuntimeError):
    """The process ended, or stopped speaking the Runtime API; never leaves this file."""


class InitFailed(RuntimeError):
    """INIT ended in an error, in death, or not within ten seconds; the environment is gone.

    `payload` is the error that the runtime client reported, as JSON.
    """

    def __init__(self, function: str, payload: bytes) -> None:
        self.function = function
        self.payload = payload
        super().__init__(f"{function} did not initialise: {payload.decode(errors='replace')}")


class Environment:
    """One execution environment; used by one thread at a time, but `kill` comes from any."""

    def __init__(
        self,
        function: Function,
        *,
        number: int,
        nursery: Nursery,
        doors: Doors,
        runtime: Path,
        folder: Path,
        on_line: OnLine,
    ) -> None:
        self.function = function
        self.number = number
        self.doors = doors
        self.request_id = ""
        self._on_line = on_line
        self._inbox: collections.deque[Request] = collections.deque()
        self._selector = selectors.DefaultSelector()
        self._api = RuntimeApi(self._selector)
        self._output = Output(self._selector)
        folder.mkdir()
        try:
            self._child = nursery.start(
                [sys.executable, "-S", "-s", "-P", "-m", "awslambdaric", function.handler],
                variables=self._variables(runtime, folder),
                folder=function.code,
                output=self._output.lines_end,
                descriptors=(self._output.frames_end,),
            )
        finally:
            self._output.hand_over()
        doors.round_trips.client_pid = self._child.pid
        self._waiting: Request | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be invoked again."""
        return self._waiting is not None and self._child.alive

    def init(self) -> float:
        """Let INIT run until the client asks for work, freeze, and answer the seconds it took.

        Raises:
            InitFailed: It did not get there; the process is gone.
        """
        started = time.monotonic()
        try:
            request = self._next_request(started + INIT_WITHIN_SECONDS)
        except EnvironmentDied:
            request = None
        if request is not None and request.path == f"{VERSION}/invocation/next":
            self._freeze(request)
            return time.monotonic() - started
        error = b'{"errorType": "Runtime.ExitError", "errorMessage": "INIT ended or took too long"}'
        if request is not None:
            error = request.body
            self._respond(request, HTTPStatus.ACCEPTED)
        self.close()
        raise InitFailed(self.function.name, error)

    def invoke(self, event: bytes) -> Outcome:
        """Hand over one event and wait for its end; the caller looks at `alive` afterwards."""
        if self._waiting is None:
            raise EnvironmentDied("invoked without INIT, or after its end")
        self.request_id = str(uuid.uuid4())
        trips = self.doors.round_trips.flushes
        started_at, started = time.time(), time.monotonic()
        waiting, self._waiting = self._waiting, None
        self._child.send(signal.SIGCONT)
        kind, payload = self._run(waiting, event, started + self.function.timeout_seconds)
        outcome = Outcome(
            kind=kind,
            request_id=self.request_id,
            payload=payload,
            started_at=started_at,
            seconds=time.monotonic() - started,
            round_trips=self.doors.round_trips.flushes - trips,
        )
        self.request_id = ""
        return outcome

    def kill(self) -> None:
        """Kill the process as `kill -9` does; `invoke`, if it is on, answers that it died."""
        self._child.send(signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and give back every socket."""
        self._waiting = None
        self._child.kill()
        if self._selector.get_map():
            for text in self._output.close():
                self._emit(text)
            self._api.close()
            self._selector.close()
            self.doors.close()

    def _run(self, waiting: Request, event: bytes, deadline: float) -> tuple[Kind, bytes]:
        answer: tuple[Kind, bytes] | None = None
        try:
            self._api.respond(waiting, HTTPStatus.OK, headers=self._headers(), body=event)
            while (request := self._next_request(deadline)) is not None:
                if request.path == f"{VERSION}/invocation/next":
                    self._freeze(request)
                    return answer or ("failed", b'{"errorType": "Runtime.NoResponse"}')
                answer = self._accept(request)
        except (EnvironmentDied, OSError):
            self.close()
            return answer or ("died", b'{"errorType": "Runtime.ExitError"}')
        # A client that answered and then hung has answered all the same.
        self.close()
        limit = self.function.timeout_seconds
        self._emit(f"{self.request_id} Task timed out after {limit:.2f} seconds")
        return answer or ("timed_out", b'{"errorType": "Sandbox.Timedout"}')

    def _accept(self, request: Request) -> tuple[Kind, bytes] | None:
        """Take an answer or an error of this invocation; refuse anything else."""
        ours = f"{VERSION}/invocation/{self.request_id}/"
        if request.path == f"{ours}response" and len(request.body) > _RESPONSE_BYTES:
            self._respond(request, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return "failed", b'{"errorType": "Function.ResponseSizeTooLarge"}'
        if request.path in {f"{ours}response", f"{ours}error"}:
            self._respond(request, HTTPStatus.ACCEPTED)
            return ("answered" if request.path.endswith("/response") else "failed"), request.body
        self._respond(request, HTTPStatus.BAD_REQUEST)
        return None

    def _respond(self, request: Request, status: HTTPStatus) -> None:
        body = b'{"status": "OK"}' if status is HTTPStatus.ACCEPTED else b'{"errorType": "Refused"}'
        self._api.respond(request, status, body=body)

    def _next_request(self, deadline: float) -> Request | None:
        """Wait for the client's next request; None at the deadline."""
        while not self._inbox:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _ in self._selector.select(min(left, _TICK_SECONDS)):
                if key.data is self._output:
                    self._drain_output()
                elif isinstance(key.fileobj, socket.socket):
                    self._read_request(key.fileobj)
            if not self._inbox and not self._child.alive:
                raise EnvironmentDied("the process ended")
        return self._inbox.popleft()

    def _read_request(self, ready: socket.socket) -> None:
        try:
            self._inbox.extend(self._api.requests(ready))
        except RequestMalformed as error:
            raise EnvironmentDied(str(error)) from error

    def _freeze(self, request: Request) -> None:
        self._waiting = request
        self._child.send(signal.SIGSTOP)
        # All that it wrote before it asked for more work is in the pipe by now.
        self._drain_output()

    def _drain_output(self) -> None:
        for text in self._output.drain():
            self._emit(text)

    def _emit(self, text: str) -> None:
        self._on_line(LogLine(environment=self, request_id=self.request_id, text=text))

    def _headers(self) -> dict[str, str]:
        deadline_ms = int((time.time() + self.function.timeout_seconds) * 1000)
        root = f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
        return {
            "Lambda-Runtime-Aws-Request-Id": self.request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": differences.arn(
                "lambda", f"function:{self.function.name}"
            ),
            "Lambda-Runtime-Trace-Id": f"Root={root};Parent={secrets.token_hex(8)};Sampled=1",
        }

    def _variables(self, runtime: Path, folder: Path) -> dict[str, str]:
        own = differences.localise(
            self.function.variables,
            aws_endpoint=self.doors.aws_endpoint,
            cache=self.doors.cache,
        )
        return (
            own
            | reserved_variables(
                self.function, runtime=runtime, folder=folder, runtime_api=self._api.address
            )
            | {"_LAMBDA_TELEMETRY_LOG_FD": str(self._output.frames_end)}
        )
