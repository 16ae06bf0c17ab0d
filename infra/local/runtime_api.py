"""The HTTP side of the Lambda Runtime API that one execution environment talks to.

It is no server with threads: whoever drives the environment asks `requests` for what has come in
and answers with `respond`, so that one invocation reads top to bottom in one place
(`environment.py`). Each answer is one write on a socket without Nagle's delay; with two writes, or
with the delay, a warm invocation would wait for the client's delayed acknowledgement.
https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import selectors
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

VERSION: Final = "/2018-06-01/runtime"
_READ_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 16
# A client that does not read its answer for so long hangs; its environment counts as dead.
_SEND_WITHIN_SECONDS: Final = 5.0


class RequestMalformed(ValueError):
    """The client sent something that is not HTTP/1.1 as the Runtime API uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One complete request; header names are in lower case."""

    connection: socket.socket
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class RuntimeApi:
    """Listens on a port of its own and watches its sockets through the caller's selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._received: dict[socket.socket, bytearray] = {}
        selector.register(self._listener, selectors.EVENT_READ, self)

    @property
    def address(self) -> str:
        """What `AWS_LAMBDA_RUNTIME_API` must say."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def requests(self, ready: socket.socket) -> list[Request]:
        """Read what has come in on a socket that is ready, and answer the complete requests.

        Raises:
            RequestMalformed: What came in is not HTTP.
        """
        if ready is self._listener:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_SEND_WITHIN_SECONDS)
            self._received[connection] = bytearray()
            self._selector.register(connection, selectors.EVENT_READ, self)
            return []
        try:
            data = ready.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self._drop(ready)
            return []
        buffer = self._received[ready]
        buffer += data
        complete = []
        while (request := _take(ready, buffer)) is not None:
            complete.append(request)
        return complete

    def respond(
        self,
        request: Request,
        status: HTTPStatus,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        """Answer a request in one write; an OSError means that the client is gone or hangs."""
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        request.connection.sendall("\r\n".join(lines).encode("latin-1") + body)

    def close(self) -> None:
        """Close every socket."""
        for connection in list(self._received):
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._received[connection]
        connection.close()


def _take(connection: socket.socket, buffer: bytearray) -> Request | None:
    """Cut one complete request off the front of `buffer`, or leave it until more has come."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > _HEAD_BYTES:
            raise RequestMalformed("the head of a request is longer than 64 KiB")
        return None
    first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    if "transfer-encoding" in headers:
        raise RequestMalformed("a body in chunks; the runtime client sends lengths")
    used = end + 4 + int(headers.get("content-length", "0"))
    if len(buffer) < used:
        return None
    body = bytes(buffer[end + 4 : used])
    del buffer[:used]
    parts = first.split(" ")
    if len(parts) != 3:  # noqa: PLR2004 - method, path, version
        raise RequestMalformed("the first line of a request has no method, path and version")
    return Request(
        connection=connection, method=parts[0], path=parts[1], headers=headers, body=body
    )
