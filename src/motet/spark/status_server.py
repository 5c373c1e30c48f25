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

from motet.compile import Program
from motet.errors import DataError
from motet.explain.page.document import POLICY, build_document
from motet.explain.page.plan import render_plan_html
from motet.spark.monitor import StreamMonitor

LOOPBACK = "127.0.0.1"
PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
# The live page asks its own server for numbers.
LIVE_POLICY = f"{POLICY}; connect-src 'self'"

Plan = Callable[[], Program]


class StatusPages:
    """The pages about a stream: metrics, status and plan."""

    def __init__(self, monitor: StreamMonitor, title: str = "stream", plan: Plan | None = None) -> None:
        self.monitor = monitor
        self.title = title
        self.plan = plan
        self.plan_page: tuple[int, str] | None = None  # the plan's page, and how many changes there had been

    def respond(self, path: str, asked: dict[str, list[str]], page: bool) -> tuple[str, str] | None:
        """Return the content type and text of a path, or None; without `page`, only metrics are served."""
        match path:
            case "/metrics":
                return PLAIN_TEXT, self.monitor.to_prometheus()
            case "/" if not page:
                return PLAIN_TEXT, self.monitor.to_prometheus()
            case "/":
                live = {"title": self.title, "plan": self.plan is not None}
                return "text/html; charset=utf-8", build_document("live", live, LIVE_POLICY)
            case "/status.json" if page:
                since = asked.get("since", ["0"])[0]
                status = self.monitor.to_json(int(since) if since.isdecimal() else 0)
                return "application/json", json.dumps(status, allow_nan=False)
            case "/plan" if page and self.plan is not None:
                return "text/html; charset=utf-8", self._draw_plan(self.plan)
        return None

    def _draw_plan(self, plan: Plan) -> str:
        """Return the plan's page, drawn once for each change."""
        changes = len(self.monitor.changes)
        if self.plan_page is None or self.plan_page[0] != changes:
            self.plan_page = changes, render_plan_html(plan(), title=self.title)
        return self.plan_page[1]


def start_server(pages: StatusPages, port: int, host: str = LOOPBACK, page: bool = False) -> ThreadingHTTPServer:
    """Serve pages on a port of a host until `shutdown` is called; port 0 takes a free one."""
    local = is_loopback(host)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere may have a name that leads here: what serves this machine answers to its names only.
            if local and not is_loopback(parse_host(self.headers.get("Host", ""))):
                self._send(403, PLAIN_TEXT, "this answers to the loopback address only\n")
                return
            url = urlsplit(self.path)
            found = pages.respond(url.path, parse_qs(url.query), page)
            if found is None:
                self._send(404, PLAIN_TEXT, f"try {'/ or ' if page else ''}/metrics\n")
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


def parse_host(header: str) -> str:
    """Return the name in a Host header without its port."""
    return urlsplit(f"//{header}").hostname or ""


def is_loopback(host: str) -> bool:
    """Return whether a host name is that of the loopback interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
