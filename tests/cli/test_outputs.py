"""Where results go: every format holds the same, names tell formats, and nothing is replaced that is no file."""

from __future__ import annotations

import gc
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import motet as library
from motet.errors import RunError
from motet.spark.dataframes import write_table
from tests.command_line import Motet

MATCHES = """
QUERY pairs RETURN a.x AS first, b PATTERN SEQ(A a, B b) GROUP BY key WITHIN 10 s
QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY key WITHIN 10 s SLIDE 10 s
"""


@pytest.fixture
def matches(tmp_path: Path) -> Path:
    file = tmp_path / "matches.motet"
    file.write_text(MATCHES)
    return file


def read_back(file: Path) -> pa.Table:
    match file.suffix:
        case ".parquet" | ".pq":
            return pq.read_table(file)
        case ".arrow" | ".feather":
            return feather.read_table(file)
    return csv.read_csv(file)


@pytest.mark.parametrize("name", ["out.parquet", "out.pq", "out.arrow", "out.feather"])
@pytest.mark.parametrize("kind", ["queries", "matches"])
def test_columns_are_written_as_they_are(
    motet: Motet, request: pytest.FixtureRequest, events: Path, tmp_path: Path, name: str, kind: str
) -> None:
    file = request.getfixturevalue(kind)
    assert motet("run", file, "--events", events, "--output", tmp_path / name).status == 0
    expected = library.run(events, file)
    assert read_back(tmp_path / name).sort_by("query").equals(expected.sort_by("query"))


@pytest.mark.parametrize("kind", ["queries", "matches"])
def test_csv_and_json_lines_hold_the_same(
    motet: Motet, request: pytest.FixtureRequest, events: Path, tmp_path: Path, kind: str
) -> None:
    file = request.getfixturevalue(kind)
    for name in ("out.csv", "out.jsonl"):
        assert motet("run", file, "--events", events, "--output", tmp_path / name).status == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    table = read_back(tmp_path / "out.csv")
    assert [row["query"] for row in rows] == table["query"].to_pylist()
    groups = [row.get("group", {}).get("key") for row in rows]
    assert [group or "" for group in groups] == [key or "" for key in table["key"].to_pylist()]


def test_groups_are_in_json_lines_of_matches(motet: Motet, matches: Path, events: Path, tmp_path: Path) -> None:
    assert motet("run", matches, "--events", events, "--output", tmp_path / "out.jsonl").status == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    b = {"time": 2, "type": "B", "key": "u", "x": 2}
    first = {"query": "pairs", "start": 1, "end": 2, "group": {"key": "u"}, "match": {"first": 1, "b": b}}
    assert first in rows


@pytest.mark.parametrize("kind", ["queries", "matches"])
def test_a_duckdb_file_has_a_table_for_each_query(
    motet: Motet, request: pytest.FixtureRequest, events: Path, tmp_path: Path, kind: str
) -> None:
    file, target = request.getfixturevalue(kind), tmp_path / "out.duckdb"
    with duckdb.connect(str(target)) as session:
        session.execute("CREATE TABLE others AS SELECT 1 AS x")
    for _ in range(2):  # tables of the same names are replaced
        outcome = motet("run", file, "--events", events, "--output", target)
        assert outcome.status == 0, outcome.stderr
    answer = library.ask(events, file)
    with duckdb.connect(str(target)) as session:
        tables = [name for (name,) in session.sql("SHOW TABLES").fetchall()]
        assert sorted(tables) == sorted([*answer.queries, "others"])
        for name in answer.queries:
            assert session.sql(f"SELECT * FROM {name}").to_arrow_table().to_pylist() == answer[name].to_pylist()


def test_a_run_that_fails_leaves_a_database_as_it_was(motet: Motet, events: Path, tmp_path: Path) -> None:
    (tmp_path / "q.motet").write_text("QUERY others RETURN a PATTERN A+ a WITHIN 100 s")
    (tmp_path / "many.csv").write_text("time,type\n" + "".join(f"{at},A\n" for at in range(30)))
    run = ("run", tmp_path / "q.motet", "--events", tmp_path / "many.csv", "--match-limit", "5", "--output")
    with duckdb.connect(str(tmp_path / "old.duckdb")) as session:
        session.execute("CREATE TABLE others AS SELECT 1 AS x")
    before = {path.name for path in tmp_path.iterdir()}
    for name in ("old.duckdb", "new.duckdb"):
        assert motet(*run, tmp_path / name).status == 1
    assert {path.name for path in tmp_path.iterdir()} == before
    with duckdb.connect(str(tmp_path / "old.duckdb")) as session:
        assert session.sql("SELECT * FROM others").fetchall() == [(1,)]


def test_queries_that_name_one_table_are_refused(motet: Motet, events: Path, tmp_path: Path) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s\n"
    (tmp_path / "q.motet").write_text(f"QUERY pairs {query} QUERY Pairs {query}")
    outcome = motet("run", tmp_path / "q.motet", "--events", events, "--output", tmp_path / "out.duckdb")
    assert (outcome.status, "two queries are called 'pairs' but for capitals" in outcome.stderr) == (2, True)


@pytest.mark.parametrize("name", ["out", "out.xls", "out.json", "out.csv.old"])
def test_a_name_that_tells_no_format_is_refused(
    motet: Motet, queries: Path, events: Path, tmp_path: Path, name: str
) -> None:
    outcome = motet("run", queries, "--events", events, "--output", tmp_path / name)
    assert outcome.status == 2
    assert "cannot tell the format" in outcome.stderr
    assert not (tmp_path / name).exists()
    assert motet("run", queries, "--events", events, "--output", tmp_path / name, "--format", "csv").status == 0
    assert read_back(tmp_path / name).num_rows == 3


@pytest.mark.parametrize("name", ["out/", "out.csv/", "above/out/"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_name_that_ends_in_a_slash_is_a_folder_that_is_made(
    motet: Motet, matches: Path, events: Path, tmp_path: Path, name: str, format: str
) -> None:
    for _ in range(2):  # the second time it is there
        outcome = motet("run", matches, "--events", events, "--output", f"{tmp_path}/{name}", "--format", format)
        assert outcome.status == 0, outcome.stderr
    found = {file.stem: read_back(file) for file in (tmp_path / name).iterdir()}
    answer = library.ask(events, matches)
    assert {query: rows.num_rows for query, rows in found.items()} == {
        query: answer[query].num_rows for query in answer.queries
    }


def test_a_folder_without_a_format_holds_parquet(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    assert motet("run", queries, "--events", events, "--output", f"{tmp_path}/out/").status == 0
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".parquet"}


def test_the_result_of_a_statement_goes_to_a_new_folder(motet: Motet, events: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT COUNT(*) AS n FROM events")
    outcome = motet("sql", tmp_path / "q.sql", "--events", events, "--output", f"{tmp_path}/out/")
    assert outcome.status == 0, outcome.stderr
    assert pq.read_table(tmp_path / "out" / "results.parquet").num_rows == 1


@pytest.mark.parametrize("returns", ["a", "COUNT(*)"])
def test_a_run_that_fails_leaves_no_new_folder(motet: Motet, tmp_path: Path, returns: str) -> None:
    (tmp_path / "q.motet").write_text(
        f"QUERY q RETURN {returns} PATTERN A+ a WHERE COUNT(a) > 1 AND SUM(a.x) > 2 WITHIN 100 s"
    )
    (tmp_path / "many.csv").write_text("time,type,x\n" + "".join(f"{at},A,1\n" for at in range(30)))
    before = {path.name for path in tmp_path.iterdir()}
    run = ("run", tmp_path / "q.motet", "--events", tmp_path / "many.csv", "--match-limit", "5")
    assert motet(*run, "--output", f"{tmp_path}/above/out/").status == 1
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out/"])
def test_a_run_that_fails_says_that_alone(
    motet: Motet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    (tmp_path / "q.motet").write_text("QUERY q RETURN a PATTERN A+ a WITHIN 100 s")
    (tmp_path / "many.csv").write_text("time,type\n" + "".join(f"{at},A\n" for at in range(30)))
    run = ("run", tmp_path / "q.motet", "--events", tmp_path / "many.csv", "--match-limit", "5")
    assert motet(*run, "--output", f"{tmp_path}/{name}").status == 1
    gc.collect()
    assert not complaints


def test_a_folder_below_a_file_is_refused_before_a_run(
    motet: Motet, queries: Path, events: Path, tmp_path: Path
) -> None:
    for name in ("old", "old/out"):
        (tmp_path / "old").write_text("old")
        outcome = motet("run", queries, "--events", events, "--output", f"{tmp_path}/{name}/")
        assert (outcome.status, "old is a file: there can be no folder" in outcome.stderr) == (2, True)
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("name", ["out.delta", "out.delta/"])
def test_a_table_of_a_lakehouse_that_is_there_gets_no_files_of_queries(
    motet: Motet, queries: Path, events: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    outcome = motet("run", queries, "--events", events, "--output", f"{tmp_path}/{name}")
    assert (outcome.status, "is written by Spark: add --engine spark" in outcome.stderr) == (2, True)
    assert not list((tmp_path / name).iterdir())


@pytest.mark.parametrize("output", [["out.delta"], ["lake.db.out", "--format", "iceberg"]])
def test_tables_of_a_lakehouse_are_written_by_spark(
    motet: Motet, queries: Path, events: Path, output: list[str]
) -> None:
    outcome = motet("run", queries, "--events", events, "--output", *output)
    assert (outcome.status, "is written by Spark: add --engine spark" in outcome.stderr) == (2, True)


@pytest.mark.parametrize("format", [[], ["--format", "iceberg"]])
@pytest.mark.parametrize("name", ["new.iceberg", "new.iceberg/", "old.iceberg", "old.iceberg/"])
def test_iceberg_has_no_tables_at_paths(
    motet: Motet, queries: Path, events: Path, tmp_path: Path, name: str, format: list[str]
) -> None:
    (tmp_path / "old.iceberg").mkdir()
    outcome = motet("run", queries, "--events", events, "--output", f"{tmp_path}/{name}", *format)
    assert (outcome.status, f"--output {name[:3]} --format iceberg" in outcome.stderr) == (2, True)
    assert not (tmp_path / "new.iceberg").exists()
    assert not list((tmp_path / "old.iceberg").iterdir())


@pytest.mark.spark
def test_spark_writes_tables_by_the_connector_that_is_named(spark: SparkSession, tmp_path: Path) -> None:
    results = pa.table({"query": ["q", "q"], "COUNT(*)": [1, 2]})
    target = f"{tmp_path}/results"
    for _ in range(2):  # in place of what was there
        write_table(results, target, "orc")
    assert sorted(spark.read.orc(target).toArrow()["COUNT(*)"].to_pylist()) == [1, 2]
    with pytest.raises(RunError, match=r"cannot write results\.delta as delta: .*its connector is installed by"):
        write_table(results, "results.delta", "delta")


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "arrow", "table"])
def test_standard_output_is_written_to(tmp_path: Path, queries: Path, events: Path, output: str, format: str) -> None:
    command = [
        sys.executable,
        "-m",
        "motet",
        "run",
        queries,
        "--events",
        events,
        "--output",
        output,
        "--format",
        format,
    ]
    file = tmp_path / "found"
    with file.open("wb") as stream:
        stream.write(b"before\n")
        stream.flush()
        subprocess.run(command, stdout=stream, check=True, stderr=subprocess.PIPE)
        stream.write(b"after\n")
    start, middle, end = file.read_bytes().partition(b"before\n")[2].rpartition(b"after\n")
    assert (start != b"", middle, end) == (True, b"after\n", b"")


def test_a_device_stays_one(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    for name in ("null", "link"):
        target = Path("/dev/null") if name == "null" else tmp_path / "link"
        if name == "link":
            target.symlink_to("/dev/null")
        assert motet("run", queries, "--events", events, "--output", target, "--format", "csv").status == 0
        assert stat.S_ISCHR(target.stat().st_mode)
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_is_written_to(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    assert motet("run", queries, "--events", events, "--output", pipe, "--format", "jsonl").status == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(found[0].splitlines()) == 3


def test_a_link_stays_one_and_its_file_is_replaced(motet: Motet, queries: Path, events: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.csv").write_text("old")
    (tmp_path / "data" / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to(tmp_path / "data" / "real.csv")
    assert motet("run", queries, "--events", events, "--output", tmp_path / "link.csv").status == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "data" / "real.csv").read_text().startswith('"query"')
    assert stat.S_IMODE((tmp_path / "data" / "real.csv").stat().st_mode) == 0o640
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["real.csv"]


@pytest.mark.parametrize(
    ("leads_to", "message"), [("out.csv", "is a link that leads back to itself"), ("above/out.csv", "no folder")]
)
def test_a_link_that_leads_to_no_place_is_refused_before_a_run(
    motet: Motet, queries: Path, events: Path, tmp_path: Path, leads_to: str, message: str
) -> None:
    link = tmp_path / "out.csv"
    link.symlink_to(tmp_path / leads_to)
    outcome = motet("run", queries, "--events", events, "--output", link)
    assert (outcome.status, message in outcome.stderr) == (2, True)
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("closed", "output", "status", "said"),
    [
        ("1>&-", "out.csv", 0, "3 results"),
        ("1>&-", "-", 1, "error: Bad file descriptor\n"),
        ("2>&-", "out.csv", 0, ""),
        ("1>/dev/full", "-", 1, "error: No space left on device\n"),
    ],
)
def test_an_output_that_is_closed_or_full_is_an_error_only_where_something_is_written_to_it(
    queries: Path, events: Path, tmp_path: Path, closed: str, output: str, status: int, said: str
) -> None:
    target = output if output == "-" else str(tmp_path / output)
    command = [sys.executable, "-m", "motet", "run", queries, "--events", events, "--output", target, "--format", "csv"]
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *map(str, command)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(shell, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout) == (status, ""), ended.stderr
    assert said in ended.stderr
    if status:
        assert ended.stderr == said
    if output != "-":
        assert csv.read_csv(target).num_rows == 3


def test_a_plan_is_written_to_a_device_too(motet: Motet, queries: Path) -> None:
    assert motet("plan", queries, "--output", "/dev/null").status == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert "SEQ(A a, B b)" in motet("plan", queries, "--output", "-").stdout


VALUES = {pa.uuid(): b"0123456789abcdef", pa.month_day_nano_interval(): pa.MonthDayNano([1, 2, 3])}


@pytest.mark.parametrize(
    ("name", "kind", "refused"),
    [
        ("out.parquet", pa.month_day_nano_interval(), "results have a type that parquet does not"),
        ("out/", pa.month_day_nano_interval(), "results have a type that parquet does not"),
        ("out.csv", pa.month_day_nano_interval(), None),
        ("out.jsonl", pa.month_day_nano_interval(), None),
        ("out.duckdb", pa.decimal256(60, 0), "results have a type that duckdb does not"),
        ("out.duckdb", pa.float16(), None),
        ("out.csv", pa.uuid(), None),
        ("out.jsonl", pa.uuid(), None),
    ],
    ids=str,
)
def test_a_type_that_a_format_does_not_have_is_refused_and_nothing_is_left(
    motet: Motet, tmp_path: Path, name: str, kind: pa.DataType, refused: str | None
) -> None:
    """The results of the first query could be written."""
    (tmp_path / "q.motet").write_text(
        "QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 9 s\n"
        "QUERY found RETURN b, b.s AS s PATTERN B b WITHIN 9 s"
    )
    value = VALUES.get(kind, 1)
    column = pa.array([value] * 2, kind)
    feather.write_feather(pa.table({"time": [1, 2], "type": ["A", "B"], "s": column}), tmp_path / "e.arrow")
    before = {path.name for path in tmp_path.iterdir()}
    outcome = motet("run", tmp_path / "q.motet", "--events", tmp_path / "e.arrow", "--output", f"{tmp_path}/{name}")
    left = {path.name for path in tmp_path.iterdir()} - before
    if refused is None:
        assert (outcome.status, left) == (0, {name}), outcome.stderr
    else:
        assert (outcome.status, left) == (1, set()), outcome.stderr
        assert refused in outcome.stderr
        assert "--format arrow has all types" in outcome.stderr


@pytest.mark.parametrize("format", ["table", "csv", "jsonl", "parquet", "arrow"])
def test_a_window_that_ends_after_the_year_9999_is_written(motet: Motet, tmp_path: Path, format: str) -> None:
    (tmp_path / "q.motet").write_text(
        "QUERY counts RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 day SLIDE 1 day\n"
        "QUERY found RETURN a PATTERN SEQ(A a, B) WITHIN 1 day"
    )
    events = pa.table({"time": pa.array([253402300799000000, 253402300799500000, 2**60], pa.timestamp("us", "UTC"))})
    pq.write_table(events.append_column("type", pa.array(["A", "B", "A"])), tmp_path / "e.parquet")
    target = tmp_path / "out"
    arguments = ["--events", tmp_path / "e.parquet", "--output", target, "--format", format]
    outcome = motet("run", tmp_path / "q.motet", *arguments)
    assert outcome.status == 0, outcome.stderr
    if format in ("table", "csv", "jsonl"):
        assert "10000-01-01" in target.read_text()
        assert "9999-12-31" in target.read_text()
