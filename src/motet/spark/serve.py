"""Serves what is known of a running stream: Prometheus text, JSON, and a live page that draws it; nothing can be asked
to change.
"""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from motet.engine import Program
from motet.errors import DataError
from motet.explain.page.document import POLICY, document
from motet.explain.page.plan import plan_html
from motet.spark.watch import Watcher

LOOPBACK = "127.0.0.1"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
# The live page asks its own server for numbers.
LIVE_POLICY = f"{POLICY}; connect-src 'self'"

Plan = Callable[[], Program]


class Pages:
    """What is answered to each path: a kind of content and its text, or None."""

    def __init__(self, watcher: Watcher, title: str = "stream", plan: Plan | None = None) -> None:
        self.watcher = watcher
        self.title = title
        self.plan = plan
        self.drawn: tuple[int, str] | None = None  # the plan's page, and how many changes there had been

    def answer(self, path: str, asked: dict[str, list[str]], page: bool) -> tuple[str, str] | None:
        """The content of a path; without a page, metrics are what there is."""
        match path:
            case "/metrics":
                return PLAIN, self.watcher.prometheus()
            case "/" if not page:
                return PLAIN, self.watcher.prometheus()
            case "/":
                live = {"title": self.title, "plan": self.plan is not None}
                return "text/html; charset=utf-8", document("live", live, LIVE_POLICY)
            case "/status.json" if page:
                since = asked.get("since", ["0"])[0]
                told = self.watcher.told(int(since) if since.isdecimal() else 0)
                return "application/json", json.dumps(told, allow_nan=False)
            case "/plan" if page and self.plan is not None:
                return "text/html; charset=utf-8", self._plan(self.plan)
        return None

    def _plan(self, plan: Plan) -> str:
        """The plan's page, drawn once for each change."""
        changes = len(self.watcher.changes)
        if self.drawn is None or self.drawn[0] != changes:
            self.drawn = changes, plan_html(plan(), title=self.title)
        return self.drawn[1]


def serve(pages: Pages, port: int, host: str = LOOPBACK, page: bool = False) -> ThreadingHTTPServer:
    """Answer on a port of a host until `shutdown` is called; port 0 takes a free one."""
    local = is_loopback(host)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere may have a name that leads here: what serves this machine answers to its names only.
            if local and not is_loopback(host_of(self.headers.get("Host", ""))):
                self._send(403, PLAIN, "this answers to the loopback address only\n")
                return
            url = urlsplit(self.path)
            found = pages.answer(url.path, parse_qs(url.query), page)
            if found is None:
                self._send(404, PLAIN, f"try {'/ or ' if page else ''}/metrics\n")
            else:
                self._send(200, *found)

        def _send(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise DataError(f"cannot serve on {host}:{port}: {error.strerror or error}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def host_of(header: str) -> str:
    """The name in a Host header, its port left off."""
    return urlsplit(f"//{header}").hostname or ""


def is_loopback(host: str) -> bool:
    """Whether a name is this machine's to itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
