"""Serve the status of a running stream: Prometheus text, JSON, and a live page that draws it. Nothing can change it."""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from motet.compile import Program
from motet.engine.live.costs import name_unit
from motet.errors import DataError
from motet.explain.page.document import POLICY, build_document
from motet.explain.page.plan import render_plan_html
from motet.plans.compiled import CompiledQuery
from motet.plans.detect.query import DetectQuery
from motet.spark.monitor import StreamMonitor
from motet.spark.tasks import find_records

LOOPBACK = "127.0.0.1"
PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
HTML = "text/html; charset=utf-8"
# The live page asks its own server for numbers.
LIVE_POLICY = f"{POLICY}; connect-src 'self'"


class StatusPages:
    """The pages about a stream: metrics, status and plan. `get_program` returns what the stream runs now."""

    def __init__(
        self, monitor: StreamMonitor, title: str = "stream", get_program: Callable[[], Program] | None = None
    ) -> None:
        self.monitor = monitor
        self.title = title
        self.get_program = get_program
        self.drawn: tuple[Program, str] | None = None  # the last plan and its page

    def respond(self, path: str, asked: dict[str, list[str]], page: bool) -> tuple[str, str] | None:
        """Return the content type and text of a path, or None; without `page`, only metrics are served."""
        if path == "/metrics" or (path == "/" and not page):
            return PLAIN_TEXT, self.monitor.to_prometheus()
        if path == "/":
            live = {"title": self.title, "plan": self.get_program is not None}
            return HTML, build_document("live", live, LIVE_POLICY)
        if path == "/status.json" and page:
            since = asked.get("since", ["0"])[0][-18:]  # more digits than that are no number of a micro-batch
            status = self.monitor.to_json(int(since) if since.isdecimal() else 0)
            program = None if self.get_program is None else self.get_program()
            status["places"] = {} if program is None else _list_places(program)
            told = self.monitor.list_executed()
            status["executed"] = [] if program is None else [each.describe() for each in find_records(program, told)]
            return "application/json", json.dumps(status, allow_nan=False)
        if path == "/plan" and page and self.get_program is not None:
            program = self.get_program()
            if self.drawn is None or self.drawn[0] is not program:
                self.drawn = program, render_plan_html(program, title=self.title)
            return HTML, self.drawn[1]
        return None


def _list_places(program: Program) -> dict[str, dict[str, Any]]:
    """Return what each query runs in, by the name that its costs are reported under, and how many queries that has."""
    groups: list[tuple[str, Sequence[CompiledQuery | DetectQuery]]]
    groups = [(name_unit(unit), unit.reported) for branch in program.branches for unit in branch.units]
    groups += [(branch.name, branch.queries) for branch in program.detect]
    return {each.query.name: {"unit": name, "queries": len(group)} for name, group in groups for each in group}


def start_server(pages: StatusPages, port: int, host: str = LOOPBACK, page: bool = False) -> ThreadingHTTPServer:
    """Serve pages on a port of a host until `shutdown` is called; port 0 takes a free one."""
    local = is_loopback(host)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere may have a name that leads here: what serves this machine answers to its names only.
            if local and not is_loopback(parse_host(self.headers.get("Host", ""))):
                self._send(403, PLAIN_TEXT, "this answers to the loopback address only\n")
                return
            path, _, query = self.path.partition("?")
            found = pages.respond(path, parse_qs(query), page)
            if found is None:
                self._send(404, PLAIN_TEXT, f"try {'/ or ' if page else ''}/metrics\n")
            else:
                self._send(200, *found)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if self.command != "HEAD":
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
    """Return the name in a Host header without its port; nothing if it has none."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Return whether a host name is that of the loopback interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
