"""Serve the page on loopback, to browsers of this machine only.

    /            the page, its script and style, and the vendored charting library
    /api/layout  what stays
    /api/read    ?dashboard=…&minutes=…: what changes

It answers only GET, only under its own address as `Host` (so that no foreign page reaches it by a
name that it made up), and allows a page nothing but itself (Content-Security-Policy).
"""

from __future__ import annotations

import json
import threading
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.local.page.layout import layout
from infra.local.page.readings import MOST_MINUTES, Readings

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.local.faults import Strike
    from infra.local.stack import LocalStack

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = ROOT / ".cache" / "page" / "node_modules"
_STATIC: Final = Path(__file__).parent / "static"
_FILES: Final = {
    "/": (_STATIC / "index.html", "text/html; charset=utf-8"),
    "/charts.js": (_STATIC / "charts.js", "text/javascript; charset=utf-8"),
    "/page.css": (_STATIC / "page.css", "text/css; charset=utf-8"),
    "/page.js": (_STATIC / "page.js", "text/javascript; charset=utf-8"),
    "/uplot.css": (PACKAGES / "uplot/dist/uPlot.min.css", "text/css; charset=utf-8"),
    "/uplot.js": (PACKAGES / "uplot/dist/uPlot.esm.js", "text/javascript; charset=utf-8"),
    "/inter.woff2": (
        PACKAGES / "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
        "font/woff2",
    ),
}
_POLICY: Final = "default-src 'none'; connect-src 'self'; font-src 'self'; img-src 'self' data:; "
_POLICY_REST: Final = "script-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'"


def available() -> bool:
    """Whether the vendored packages are here; `make` fetches them at set-up."""
    return all(path.exists() for path, _ in _FILES.values())


class Page:
    """The page of one running, watched stack, from `start` to `close`.

    Args:
        stack: Whose template and metrics it shows.
        strikes: Answers the faults that were injected so far.
    """

    def __init__(self, stack: LocalStack, *, strikes: Callable[[], list[Strike]] = list) -> None:
        monitoring = stack.template.monitoring
        handler = type(
            "Handler",
            (_Handler,),
            {
                "layout": layout(monitoring.dashboards, monitoring.alarms, stack.watch.pace),
                "readings": Readings(stack.watch, monitoring.dashboards, strikes),
            },
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    layout: dict[str, Any]  # Any: JSON
    readings: Readings
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request."""
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") not in {f"127.0.0.1:{port}", f"localhost:{port}"}:
            self._answer(HTTPStatus.FORBIDDEN, b"not this host", "text/plain")
            return
        asked = urllib.parse.urlsplit(self.path)
        if asked.path in _FILES:
            path, kind = _FILES[asked.path]
            self._answer(HTTPStatus.OK, path.read_bytes(), kind)
        elif asked.path == "/api/layout":
            self._json(self.layout)
        elif asked.path == "/api/read":
            self._read(dict(urllib.parse.parse_qsl(asked.query)))
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"no such page", "text/plain")

    def log_message(self, *_: object) -> None:
        """Keep quiet: the terminal belongs to the demo."""

    def _read(self, asked: dict[str, str]) -> None:
        known = {dashboard["name"] for dashboard in self.layout["dashboards"]}
        minutes = asked.get("minutes", "")
        if asked.get("dashboard") not in known or not minutes.isdecimal():
            self._answer(HTTPStatus.BAD_REQUEST, b"dashboard=NAME&minutes=N", "text/plain")
            return
        most = max(1, min(MOST_MINUTES, int(minutes)))
        self._json(self.readings.read(asked["dashboard"], minutes=most))

    def _json(self, value: Any) -> None:  # Any: JSON
        self._answer(HTTPStatus.OK, json.dumps(value).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY + _POLICY_REST)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)
