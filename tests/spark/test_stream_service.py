"""`motet stream`: queries that change while it runs or between runs, what it says, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import motet
from motet.options import Options
from motet.spark.monitor import StreamMonitor
from motet.spark.service import StreamJob, StreamService, StreamSink, StreamSource
from motet.spark.status_server import StatusPages, start_server
from motet.spark.tasks import find_records
from tests.command_line import Motet
from tests.comparison import assert_same_results
from tests.spark.test_stream import END, Folder, events_of, last_event, random_events

pytestmark = pytest.mark.spark

STAYS = "QUERY stays RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 60 s SLIDE 20 s\n"
GOES = "QUERY goes RETURN COUNT(*) PATTERN SEQ(B, A) GROUP BY k WITHIN 20 s SLIDE 20 s\n"
COMES = "QUERY comes RETURN COUNT(*), SUM(C.x) PATTERN SEQ(A, C) WHERE [k] WITHIN 40 s SLIDE 20 s\n"
RISES = "QUERY rises RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 s\n"
FALLS = "QUERY falls RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x > b.x WITHIN 10 s\n"


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession) -> Folder:
    return Folder(tmp_path / "events", spark)


def test_queries_change_between_runs(folder: Folder, tmp_path: Path, motet: Motet) -> None:
    queries = tmp_path / "queries.motet"
    arguments = ["stream", queries, "--option", f"path={folder.path}", "--option", "maxFilesPerTrigger=1", "--once"]
    arguments += ["--checkpoint", tmp_path / "state", "--watermark", "2 seconds", "--status", "60"]
    first, rest = random_events(200, 1, last=100), random_events(300, 2, first=100, last=300)
    folder.add(first)
    queries.write_text(STAYS + GOES + RISES)
    before = motet(*arguments)
    assert before.status == 0, before.stderr
    folder.add(rest)
    folder.add(last_event())
    queries.write_text(FALLS + COMES + STAYS + RISES)
    after = motet(*arguments, "--page", "0")
    assert after.status == 0, after.stderr
    assert "live page: http://127.0.0.1:" in after.stderr
    found = [json.loads(line) for outcome in (before, after) for line in outcome.stdout.splitlines()]
    assert windows(found, "stays") == expected(folder, STAYS, "stays")
    # The last row before the change was at 99, and rows may be 2 seconds late: it has seen all from 100 on.
    whole = {key: value for key, value in expected(folder, COMES, "comes").items() if key[0] >= 100}
    assert windows(found, "comes") == whole
    assert whole
    assert max(start for start, _ in windows(found, "goes")) < 100
    assert matches(found, "rises") == expected_matches(folder, RISES)
    assert matches(found, "falls") == [match for match in expected_matches(folder, FALLS) if match[1] >= 110]
    assert "500" not in before.stderr
    assert "results" in after.stderr


def windows(rows: list[dict[str, object]], query: str) -> dict[tuple[int, object], object]:
    """Values by window and group; no window may come twice."""
    own = [row for row in rows if row["query"] == query]
    found = {(row["window_start"], str(row.get("group"))): row["values"] for row in own}
    assert len(found) == len(own)
    return found


def matches(rows: list[dict[str, object]], query: str) -> list[tuple[object, ...]]:
    own = [(row["start"], row["end"], json.dumps(row["match"])) for row in rows if row["query"] == query]
    assert own
    return sorted(own)


def expected_matches(folder: Folder, text: str) -> list[tuple[object, ...]]:
    from motet.io.writers import json_lines

    workload = motet.read(text)
    lines = json_lines(motet.run(folder.events(), workload), workload)
    return matches([json.loads(line) for line in lines], workload.queries[0].name)


def expected(folder: Folder, text: str, query: str) -> dict[tuple[int, object], object]:
    from motet.io.writers import json_lines

    workload = motet.read(text)
    results = motet.run(folder.events(), workload)
    return windows([json.loads(line) for line in json_lines(results, workload)], query)


def test_a_new_query_needs_the_folder_of_the_checkpoint(folder: Folder, tmp_path: Path) -> None:
    folder.add(events_of([(1, "A", 1)]))
    run_all(motet.stream(folder.stream(), STAYS, watermark="0 seconds").results, tmp_path)
    folder.add(events_of([(2, "A", 1)]))
    with pytest.raises(Exception, match="goes: new to this checkpoint, so give its folder as checkpoint="):
        run_all(motet.stream(folder.stream(), STAYS + GOES, watermark="0 seconds").results, tmp_path)


def run_all(frame: DataFrame, folder: Path) -> None:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_changed_file_is_taken_up_without_a_restart(folder: Folder, tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "queries.motet"
    file.write_text(STAYS)
    folder.add(random_events(100, 1, last=100))
    said: list[str] = []
    lines: list[str] = []
    source = StreamSource("parquet", {"path": str(folder.path), "maxFilesPerTrigger": "1"})
    job = StreamJob(source, StreamSink(), Options(checkpoint=str(tmp_path / "state"), watermark="0 seconds"))
    service = StreamService(spark, job, file, said.append, lines.append)
    try:
        service.query.processAllAvailable()
        file.write_text("QUERY wrong RETURN")
        assert not service.reload_queries()
        assert "the queries go on as they were" in said[-1]
        assert not service.reload_queries()
        assert len(said) == 1  # once is enough
        file.write_text(STAYS + COMES)
        assert service.reload_queries()
        assert said[-1] == "queries changed: 1 added, 0 removed, 2 in all"
        changes = [change["words"] for change in service.monitor.changes]
        assert changes == ["started with 1 query", "added comes: 2 queries now"]
        assert [query.name for query in service.program.workload.queries] == ["stays", "comes"]
        folder.add(random_events(300, 2, first=100, last=300))
        folder.add(last_event())
        service.query.processAllAvailable()
        service.query.stop()
        service.monitor.wait_for_progress()
    finally:
        service.stop()
    found = [json.loads(line) for line in lines]
    assert windows(found, "stays") == expected(folder, STAYS, "stays")
    assert windows(found, "comes")
    assert "waiting" in service.monitor.status()
    executed = find_records(service.program, service.monitor.list_executed())
    assert sorted(name for each in executed for name in each.queries) == ["comes", "stays"]


def test_late_rows_go_to_a_folder(folder: Folder, tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "queries.motet"
    file.write_text(STAYS)
    folder.add(events_of([(1, "A", 1), (50, "B", 1)]))
    folder.add(events_of([(2, "B", 1), (END, "Z", 1)]))
    source = StreamSource("parquet", {"path": str(folder.path), "maxFilesPerTrigger": "1"})
    sink = StreamSink("parquet", {"path": str(tmp_path / "out")}, late=str(tmp_path / "late"))
    options = Options(checkpoint=str(tmp_path / "state"), watermark="0 seconds")
    service = StreamService(spark, StreamJob(source, sink, options, once=True), file, print, print)
    service.run(watch=False, every=5.0, show=lambda _: None)
    late = [json.loads(row["value"]) for row in spark.read.text(str(tmp_path / "late")).collect()]
    assert [(row["time"], row["type"], row["s"]) for row in late] == [(2, "B", "u")]
    found = pq.read_table(tmp_path / "out")
    kept = folder.events().filter(pa.array([time != 2 for time in folder.events()["time"].to_pylist()]))
    assert_same_results(found.drop_columns([n for n in ("batch",) if n in found.column_names]), motet.run(kept, STAYS))
    assert service.monitor.metrics.late == 1


def test_made_up_rows_go_to_the_console(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "queries.motet"
    file.write_text("QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 2 s SLIDE 2 s")
    source = StreamSource(
        "rate-micro-batch",
        {"rowsPerBatch": "1000", "numPartitions": "1", "startTimestamp": "1700000000000"},
        select=("timestamp AS time", "IF(value % 2 = 0, 'A', 'B') AS type", "value % 5 AS k"),
    )
    options = Options(checkpoint=str(tmp_path / "state"), watermark="1 second")
    service = StreamService(spark, StreamJob(source, StreamSink("console"), options), file, print, print)
    try:
        until = time.monotonic() + 600
        while service.monitor.metrics.results["pairs"] == 0 and time.monotonic() < until:
            assert service.query.exception() is None
            time.sleep(0.2)
    finally:
        service.stop()
    metrics = service.monitor.metrics
    assert metrics.results["pairs"] > 0
    assert metrics.rows >= 4000
    assert metrics.lag is not None
    assert metrics.state_bytes > 0


def test_mistakes_are_said_in_a_line(tmp_path: Path, motet: Motet) -> None:
    queries = tmp_path / "queries.motet"
    queries.write_text(STAYS)
    nowhere = motet("stream", queries, "--option", f"path={tmp_path / 'nothing'}", "--once")
    assert nowhere.status == 2
    assert "name them with --schema" in nowhere.stderr
    unequal = motet("stream", queries, "--option", "path", "--once")
    assert unequal.status == 2
    assert "write NAME=VALUE" in unequal.stderr
    queries.write_text("QUERY endless RETURN COUNT(*) PATTERN SEQ(A, B)")
    (tmp_path / "in").mkdir()
    pq.write_table(events_of([(1, "A", 1)]), tmp_path / "in" / "a.parquet")
    endless = motet("stream", queries, "--option", f"path={tmp_path / 'in'}", "--once")
    assert endless.status == 2
    assert "a stream never ends" in endless.stderr


RESULTS = "\n".join(json.dumps({'the "best"': count}) for count in (1, 2))  # of two tasks


def test_signals_stop_it_with_a_line_and_nothing_of_sparks_is_said(folder: Folder, tmp_path: Path) -> None:
    """Each start reads what has come since, is told to stop, and says so."""
    queries, out = tmp_path / "queries.motet", tmp_path / "out"
    queries.write_text(STAYS)
    arguments = ["stream", queries, "--option", f"path={folder.path}", "--checkpoint", tmp_path / "state"]
    arguments += ["--watermark", "0 seconds", "--sink", "parquet", "--output", out, "--status", "1 h"]
    arguments += ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(motet.__file__).parents[1])}
    batches = [random_events(200, 1, last=200), pa.concat_tables([random_events(100, 2, 200, 300), last_event()])]
    for batch, number in zip(batches, (signal.SIGINT, signal.SIGTERM), strict=True):
        folder.add(batch)
        before = len(list((tmp_path / "state" / "commits").glob("[0-9]*")))
        process = subprocess.Popen(
            [sys.executable, "-m", "motet", *map(str, arguments)], env=environment, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 600
        # The second micro-batch reports the windows that the first one ended.
        while len(list((tmp_path / "state" / "commits").glob("[0-9]*"))) < before + 2 and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0
        assert re.fullmatch(
            rf"stopped after \d+ micro-batche?s?: a start with --checkpoint {tmp_path}/state goes on from here\n", said
        )
    assert_same_results(pq.read_table(out), motet.run(folder.events(), STAYS))


def progress(watermark: str, waiting: int) -> dict[str, object]:
    units = [
        {"bucket": name, "branch": "k", "keys": 3, "units": {"q": [0.5, 100], "k": [0.25, 8]}}
        for name in ("k/0", "k/1")
    ]
    inside: dict[str, object] = {"late": 1, "set_aside": 0, "waiting": waiting, "state_bytes": 10}
    inside["units"] = "\n".join(map(json.dumps, units))
    return {
        "numInputRows": 5,
        "processedRowsPerSecond": 2.5,
        "durationMs": {"triggerExecution": 70},
        "eventTime": {"watermark": watermark},
        "observedMetrics": {"motet": inside, "motet_results": {"#counts": RESULTS}, "motet_rows": {"set_aside": 2}},
    }


def test_a_watermark_that_stands_still_while_rows_wait_is_warned_of_once() -> None:
    now = [0.0]
    said: list[str] = []
    monitor = StreamMonitor(("q",), said.append, stalled_after=30, clock=lambda: now[0])
    monitor.add(progress("2024-01-01T00:00:00.000Z", 4))
    now[0] = 29
    monitor.add(progress("2024-01-01T00:00:00.000Z", 4))
    assert not said
    now[0] = 31
    monitor.add(progress("2024-01-01T00:00:00.000Z", 4))
    monitor.add(progress("2024-01-01T00:00:00.000Z", 4))
    assert len(said) == 1
    assert "16 rows wait" not in said[0]
    assert "12 rows wait" in said[0]
    monitor.add(progress("2024-01-01T00:00:05.000Z", -16))
    now[0] = 100
    monitor.add(progress("2024-01-01T00:00:05.000Z", 0))
    assert len(said) == 1  # nothing waits


def test_metrics_are_served_as_prometheus_text() -> None:
    monitor = StreamMonitor(('the "best"',))
    monitor.add(progress("2024-01-01T00:00:00.000Z", 4))
    server = start_server(StatusPages(monitor), 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
        text = answer.read().decode()
    server.shutdown()
    assert 'motet_results_total{query="the \\"best\\""} 3\n' in text
    assert "motet_late_rows_total 1\n" in text
    assert 'motet_unit_seconds_total{unit="q"} 1.0\n' in text
    assert 'motet_unit_state_bytes{unit="q"} 200\n' in text
    assert "# TYPE motet_waiting_rows gauge\nmotet_waiting_rows 4\n" in text
