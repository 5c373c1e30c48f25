"""Numbers are honest: reported at full precision, when all of them are there, to whatever asks."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import motet
from motet.compile import compile_workload
from motet.explain.text import render_plan_mermaid
from motet.options import Options
from motet.spark.monitor import StreamMonitor
from motet.spark.status_server import StatusPages, start_server
from motet.spark.stream import COUNTS, RESULT_METRICS
from tests.faults.test_editors import FIRST, SCHEMA, WatchedService

PROGRESS: dict[str, Any] = {
    "numInputRows": 123_456_789,
    "processedRowsPerSecond": 12345678.25,
    "durationMs": {"triggerExecution": 1234567},
    "observedMetrics": {
        "motet": {
            "late": 7,
            "state_bytes": 123_456_789_012,
            "units": '{"bucket": "k/0", "branch": "k", "keys": 1, "units": {"q": [0.1234567890123, 123456789012345]}}',
        }
    },
}


def test_prometheus_gets_values_at_full_precision() -> None:
    monitor = StreamMonitor(["q\n1"])
    monitor.add(PROGRESS)
    lines = monitor.to_prometheus().splitlines()
    assert "motet_rows_total 123456789" in lines
    assert "motet_rows_per_second 12345678.25" in lines
    assert "motet_batch_seconds 1234.567" in lines
    assert "motet_state_bytes 123456789012" in lines
    assert 'motet_unit_seconds_total{unit="q"} 0.1234567890123' in lines
    assert 'motet_unit_state_bytes{unit="q"} 123456789012345' in lines
    assert 'motet_results_total{query="q\\n1"} 0' in lines


def test_prometheus_has_no_series_of_queries_and_units_that_are_gone() -> None:
    monitor = StreamMonitor(["q", "gone"])
    results = {RESULT_METRICS: {COUNTS: '{"q": 2, "gone": 3}'}}
    monitor.add({**PROGRESS, "observedMetrics": {**PROGRESS["observedMetrics"], **results}})
    assert 'motet_results_total{query="gone"} 3' in monitor.to_prometheus()
    monitor.follow_run(("q", "new"), "")
    text = monitor.to_prometheus()
    assert 'query="gone"' not in text
    assert "unit=" not in text
    assert 'motet_results_total{query="q"} 2\n' in text
    assert 'motet_results_total{query="new"} 0\n' in text
    assert "5 results" in monitor.status()  # of the whole run


def test_the_status_has_what_workers_said_they_executed() -> None:
    queries = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 10 s SLIDE 5 s"
    program = compile_workload(motet.parse(queries), SCHEMA, Options(mode="append"))
    ((unit,),) = (branch.units for branch in program.branches)
    monitor = StreamMonitor(["q"])
    told = {"bucket": "k/0", "branch": "k", "keys": 1, "units": {}, "executed": [unit.planned.signature, "panes-old"]}
    monitor.add({**PROGRESS, "observedMetrics": {"motet": {"units": json.dumps(told)}}})
    pages = StatusPages(monitor, get_program=lambda: program)
    _, text = pages.respond("/status.json", {}, page=True) or ("", "")
    assert json.loads(text)["executed"] == [unit.planned.describe()]
    monitor.follow_run(("q",), "another plan")
    assert not monitor.list_executed()


@pytest.fixture
def port() -> Iterator[int]:
    server = start_server(StatusPages(StreamMonitor(["q"])), 0, page=True)
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("request_line", "host", "status"),
    [
        ("GET /metrics HTTP/1.1", "localhost", 200),
        ("GET //[ HTTP/1.1", "localhost", 404),
        ("GET http://[::1/metrics HTTP/1.1", "localhost", 404),
        ("GET /metrics HTTP/1.1", "[", 403),
        ("GET /metrics HTTP/1.1", "localhost:99999999999", 200),
        ("GET /metrics?%ff=%zz&since=\udcff HTTP/1.1", "localhost", 200),
        ("GET /status.json?since=-1 HTTP/1.1", "localhost", 200),
        ("GET /status.json?since=" + "9" * 5000 + " HTTP/1.1", "localhost", 200),
        ("GET /\udcff\udcfe HTTP/1.1", "localhost", 404),
        ("HEAD /metrics HTTP/1.1", "localhost", 200),
        ("POST /metrics HTTP/1.1", "localhost", 501),
        ("GET /" + "a" * 100_000 + " HTTP/1.1", "localhost", 414),
        ("GET /metrics HTTP/9.9", "localhost", 505),
        ("nonsense with too many words in it", "localhost", 400),
    ],
)
def test_the_server_answers_any_request_line(port: int, request_line: str, host: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        text = f"{request_line}\r\nHost: {host}\r\n\r\n"
        client.sendall(text.encode("utf-8", "surrogateescape"))
        client.settimeout(30)
        answer = client.recv(4096).decode("latin-1")
    assert re.match(rf"HTTP/1\.\d {status} ", answer) or f"Error code: {status}" in answer, answer


def test_the_last_status_waits_for_the_last_progress(tmp_path: Path) -> None:
    """Spark ends a stream before its listeners have heard of the last micro-batch."""
    file = tmp_path / "q.motet"
    said: list[str] = []
    file.write_text(FIRST)
    watched = WatchedService(file, said)
    watched.session.streams.removeListener = lambda monitor: None
    watched.monitor.run_id = "run"
    watched.query = SimpleNamespace(awaitTermination=lambda seconds: True, isActive=False)

    def report() -> None:
        time.sleep(0.2)
        watched.monitor.add(PROGRESS)
        ended: Any = SimpleNamespace(runId="run")
        watched.monitor.onQueryTerminated(ended)

    threading.Thread(target=report).start()
    watched.run(watch=False, every=60.0, show=said.append)
    assert said == [watched.monitor.status()]
    assert "123,456,789 rows" in said[0]
    assert "7 late" in said[0]


def test_rows_are_those_that_were_observed_and_not_read_again() -> None:
    """Spark's own number has the rows of repeated tasks twice."""
    monitor = StreamMonitor(["q"])
    monitor.add({**PROGRESS, "observedMetrics": {"motet_rows": {"rows": 1000, "set_aside": 3}}})
    assert (monitor.metrics.rows, monitor.metrics.set_aside) == (1000, 3)
    monitor.add({"numInputRows": 5})  # where nothing was observed
    assert monitor.metrics.rows == 1005


@pytest.mark.spark
@pytest.mark.slow
def test_rows_of_repeated_tasks_are_counted_once(tmp_path: Path) -> None:
    """A Spark of its own loses what its tasks have written, and runs them again."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join((str(Path(motet.__file__).parents[1]), str(root)))
    command = [sys.executable, "-m", "tests.faults.repeated_tasks", str(tmp_path)]
    ended = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=1800)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    batch = {"rows": 800, "null_times": 0, "null_types": 16, "set_aside": 16, "overflows": 0, "results": 116}
    assert found["files"] == batch
    assert found["rows"] == batch
    spark = found["stream"].pop("spark")
    assert spark > 800, "no task that had read rows was repeated, so nothing was tried"
    assert found["stream"] == {"rows": 800, "set_aside": 16, "late": 0, "A": 392, "B": 392, "results": 115}
    assert {file.name for file in tmp_path.glob("lost-*")} == {"lost-files", "lost-rows", "lost-stream"}


def test_names_of_queries_are_no_ids_of_drawings() -> None:
    """`end` closes a subgraph in Mermaid, and `click` begins a link."""
    names = ["end", "click", "subgraph"]
    texts = [f"QUERY {name} RETURN a PATTERN SEQ(A a, B b) WHERE a.k < b.k WITHIN 10 s" for name in names]
    options = Options(watermark="5 seconds", mode="append")
    lines = render_plan_mermaid(compile_workload(motet.parse("\n".join(texts)), SCHEMA, options)).splitlines()
    for name in names:
        assert sum(f'(["{name}"])' in line for line in lines) == 1
        assert all(re.fullmatch(r".*b1q\d+", line) for line in lines if "-->" in line and "q" in line)
        assert not any(re.search(rf"b1{name}\b", line) for line in lines)
