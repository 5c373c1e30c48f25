"""Results in every format: the shapes others build on, and no half-written file."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import motet
from motet.errors import DataError
from motet.io.text_tables import print_tables
from motet.io.writers import (
    OutputFormat,
    choose_format,
    json_lines,
    resolve_target,
    write_file,
    write_relation,
    write_stream,
)
from motet.model.expression import Attribute
from motet.model.pattern import Event, Repeat, Seq
from motet.model.query import Aggregate, AllVariables, Computed, Query, Variable, Workload
from motet.model.window import CountWindow, TimeWindow

NOON = dt.datetime(2024, 1, 1, 12)
HOUR = dt.timedelta(hours=1)
COUNT = Aggregate("COUNT")
A_THEN_B = Seq((Event("A", "a"), Event("B", "b")))

SLIDING = Query("sliding", A_THEN_B, (COUNT,), group_by=("key",), window=TimeWindow(3_600_000_000, 3_600_000_000))
CONTINUOUS = Query("continuous", A_THEN_B, (COUNT, Aggregate("AVG", "b", "x")), window=TimeWindow(1_000_000))
WHOLE = Query("whole", A_THEN_B, (COUNT,))
AGGREGATES = Workload((SLIDING, CONTINUOUS, WHOLE))


def aggregate_rows() -> pa.Table:
    times = pa.timestamp("us")
    return pa.table(
        {
            "query": ["sliding", "continuous", "whole"],
            "window_start": pa.array([NOON, None, None], times),
            "window_end": pa.array([NOON + HOUR, None, None], times),
            "time": pa.array([None, NOON, None], times),
            "key": ["k", None, None],
            "COUNT(*)": pa.array([7, 2, None], pa.int64()),
            "AVG(b.x)": pa.array([None, 2.5, None]),
        }
    )


def lines(results: pa.Table, workload: Workload) -> list[dict[str, object]]:
    return [json.loads(line) for line in json_lines(results, workload)]


def test_json_rows_of_aggregates() -> None:
    assert lines(aggregate_rows(), AGGREGATES) == [
        {
            "query": "sliding",
            "window_start": "2024-01-01T12:00:00",
            "window_end": "2024-01-01T13:00:00",
            "group": {"key": "k"},
            "values": {"COUNT(*)": 7},
        },
        {
            "query": "continuous",
            "time": "2024-01-01T12:00:00",
            "group": {},
            "values": {"COUNT(*)": 2, "AVG(b.x)": 2.5},
        },
        {"query": "whole", "window_start": None, "window_end": None, "group": {}, "values": {"COUNT(*)": None}},
    ]


def test_a_count_window_reports_at_times() -> None:
    query = Query("q", A_THEN_B, (COUNT,), window=CountWindow(5))
    row = pa.table({"query": ["q"], "time": [41], "COUNT(*)": [1]})
    assert lines(row, Workload((query,))) == [{"query": "q", "time": 41, "group": {}, "values": {"COUNT(*)": 1}}]


def test_json_rows_of_matches() -> None:
    pattern = Seq((Event("A", "a"), Repeat(Event("B", "b"), 1, None)))
    gain = Computed(Attribute("a", "x"), "gain")
    query = Query("runs", pattern, (AllVariables(), gain), window=TimeWindow(1_000_000))
    a = {"time": 1, "type": "A", "x": 2.0}
    b = [{"time": 2, "type": "B", "x": None}, {"time": 3, "type": "B", "x": 4.0}]
    row = pa.table({"query": ["runs"], "start": [1], "end": [3], "a": [a], "b": [b], "gain": [2.0]})
    assert lines(row, Workload((query,))) == [
        {"query": "runs", "start": 1, "end": 3, "match": {"a": a, "b": b, "gain": 2.0}}
    ]


def test_a_column_that_two_queries_want_for_different_things_is_qualified_in_the_table_only() -> None:
    once = Query("once", Seq((Event("A", "a"), Event("B"))), (Variable("a"),))
    often = Query("often", Repeat(Event("A", "a"), 2, 3), (Variable("a"),))
    event = {"time": 1, "type": "A"}
    columns = {"once.a": [event, None], "often.a": [None, [event]]}
    rows = pa.table({"query": ["once", "often"], "start": [1, 1], "end": [1, 1], **columns})
    assert [line["match"] for line in lines(rows, Workload((once, often)))] == [{"a": event}, {"a": [event]}]


def test_values_that_json_lacks() -> None:
    query = Query("q", A_THEN_B, (Aggregate("SUM", "a", "x"), Aggregate("MAX", "a", "x"), Aggregate("MIN", "a", "day")))
    row = pa.table(
        {
            "query": ["q"],
            "window_start": pa.array([None], pa.int64()),
            "window_end": pa.array([None], pa.int64()),
            "SUM(a.x)": [float("inf")],
            "MAX(a.x)": [float("nan")],
            "MIN(a.day)": [dt.date(2024, 1, 1)],
        }
    )
    values = lines(row, Workload((query,)))[0]["values"]
    assert values == {"SUM(a.x)": "Infinity", "MAX(a.x)": None, "MIN(a.day)": "2024-01-01"}


def test_csv_has_times_in_iso_8601_and_nested_values_as_json() -> None:
    zoned = pa.array([NOON, None, NOON + dt.timedelta(microseconds=5)], pa.timestamp("us", "UTC"))
    results = aggregate_rows().append_column("zoned", zoned).append_column("a", pa.array([{"x": 1}, None, {"x": 2}]))
    stream = io.BytesIO()
    write_stream(results, AGGREGATES, stream, OutputFormat.CSV)
    text = stream.getvalue().decode().splitlines()
    assert text[0] == '"query","window_start","window_end","time","key","COUNT(*)","AVG(b.x)","zoned","a"'
    assert text[1].startswith(
        '"sliding","2024-01-01T12:00:00","2024-01-01T13:00:00",,"k",7,,"2024-01-01T12:00:00+00:00"'
    )
    assert text[3].endswith('"2024-01-01T12:00:00.000005+00:00","{""x"": 2}"')
    assert csv.read_csv(io.BytesIO(stream.getvalue())).num_rows == 3


def test_durations_read_alike_in_csv_and_json() -> None:
    events = pa.table({"time": pa.array([0, 90, 90_000], pa.timestamp("s")), "type": ["A", "B", "B"]})
    workload = motet.parse("RETURN b.time - a.time AS took PATTERN SEQ(A a, B b) WITHIN 2 days")
    found = motet.run(events, workload)
    assert [line["match"] for line in lines(found, workload)] == [{"took": "0:01:30"}, {"took": "1 day, 1:00:00"}]
    stream = io.BytesIO()
    write_stream(found, workload, stream, OutputFormat.CSV)
    assert csv.read_csv(io.BytesIO(stream.getvalue()))["took"].to_pylist() == ["0:01:30", "1 day, 1:00:00"]


def test_bytes_read_alike_in_csv_and_json() -> None:
    key = pa.array([b"M\xfcller"] * 2)
    workload = motet.parse("RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 5")
    found = motet.run(pa.table({"time": [1, 2], "type": ["A", "B"], "k": key}), workload)
    assert [line["group"] for line in lines(found, workload)] == [{"k": "TfxsbGVy"}]
    stream = io.BytesIO()
    write_stream(found, workload, stream, OutputFormat.CSV)
    assert csv.read_csv(io.BytesIO(stream.getvalue()))["k"].to_pylist() == ["TfxsbGVy"]


def test_csv_of_pieces_without_rows() -> None:
    none = pa.table({"a": pa.array([], pa.int64())})
    rows = pa.concat_tables([none, pa.table({"a": [1]}), none, pa.table({"a": [2]}), none])
    stream = io.BytesIO()
    write_relation(rows, stream, OutputFormat.CSV)
    assert stream.getvalue() == b'"a"\n1\n2\n'


def test_parquet_is_the_result_table(tmp_path: Path) -> None:
    write_file(aggregate_rows(), AGGREGATES, tmp_path / "r.parquet", OutputFormat.PARQUET)
    assert pq.read_table(tmp_path / "r.parquet").equals(aggregate_rows())


def test_tables_show_each_query_with_its_own_columns_and_say_what_they_leave_out() -> None:
    rows = pa.concat_tables([aggregate_rows(), aggregate_rows().slice(0, 1)])
    text = io.StringIO()
    print_tables(Console(file=text, width=100), rows, AGGREGATES, limit=1)
    shown = [line.strip() for line in text.getvalue().splitlines()]
    assert "2024-01-01 12:00:00   2024-01-01 13:00:00   k            7" in shown
    assert "... and 1 more row" in shown
    assert shown[shown.index("whole") + 2] == "COUNT(*)"


def test_a_name_that_is_wider_than_its_table_stays_on_one_line() -> None:
    query = Query("those_who_came_as_far_as_the_basket", A_THEN_B, (Aggregate("COUNT", alias="n"),))
    times = {name: pa.array([None], pa.int64()) for name in ("window_start", "window_end")}
    text = io.StringIO()
    print_tables(
        Console(file=text, width=20), pa.table({"query": [query.name], **times, "n": [1]}), Workload((query,)), 1
    )
    assert text.getvalue().startswith(f"{query.name}\n")


def test_names_and_values_are_never_read_as_markup() -> None:
    query = Query("q[red]", A_THEN_B, (Aggregate("COUNT", alias="n[/]"),), group_by=("key",))
    times = {name: pa.array([None], pa.int64()) for name in ("window_start", "window_end")}
    row = pa.table({"query": ["q[red]"], **times, "key": ["[bold]"], "n[/]": [1]})
    text = io.StringIO()
    print_tables(Console(file=text, width=100), row, Workload((query,)), limit=None)
    assert all(word in text.getvalue() for word in ("q[red]", "n[/]", "[bold]"))


def test_the_name_of_a_file_tells_the_format() -> None:
    assert choose_format(Path("out.jsonl")) is OutputFormat.JSONL
    assert choose_format(Path("out.txt")) is choose_format(None) is OutputFormat.TABLE


@pytest.mark.parametrize("format", [format for format in OutputFormat if format is not OutputFormat.DUCKDB])
def test_a_folder_gets_a_file_for_each_query_with_its_own_columns(tmp_path: Path, format: OutputFormat) -> None:
    counts = Query("counts", Event("A"), (Aggregate("COUNT"),), group_by=("g",))
    tops = Query("tops", Event("A"), (Aggregate("MAX", "A", "x", "g"),))
    columns = {"g": ["u", "v", None], "COUNT(*)": [1, 2, None], "tops.g": [None, None, 7]}
    times = dict.fromkeys(("window_start", "window_end", "time"), pa.nulls(3, pa.int64()))
    results = pa.table({"query": ["counts", "counts", "tops"], **times, **columns})
    write_file(results, Workload((counts, tops)), tmp_path, format)
    ending = "txt" if format is OutputFormat.TABLE else format
    assert {path.name for path in tmp_path.iterdir()} == {f"counts.{ending}", f"tops.{ending}"}
    if format is OutputFormat.PARQUET:
        assert pq.read_table(tmp_path / "tops.parquet").to_pylist() == [
            {"window_start": None, "window_end": None, "g": 7}
        ]
        assert pq.read_table(tmp_path / "counts.parquet")["COUNT(*)"].to_pylist() == [1, 2]


def test_where_results_are_written_is_checked_before_a_run(tmp_path: Path) -> None:
    assert resolve_target(tmp_path, OutputFormat.CSV) == tmp_path
    assert choose_format(tmp_path) is OutputFormat.PARQUET
    with pytest.raises(DataError, match="is a folder"):
        resolve_target(tmp_path, OutputFormat.DUCKDB)
    with pytest.raises(DataError, match=r"no folder .*missing to write out\.csv in"):
        resolve_target(tmp_path / "missing" / "out.csv", OutputFormat.CSV)


@pytest.mark.parametrize("format", [OutputFormat.CSV, OutputFormat.JSONL, OutputFormat.PARQUET, OutputFormat.TABLE])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, format: OutputFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "results"
    target.write_text("old")

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_file(aggregate_rows(), AGGREGATES, target, format)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert target.read_text() == "old"
