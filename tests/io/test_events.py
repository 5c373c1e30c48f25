"""Event files: every format reads to the same events, and what is wrong with a file is said in a line."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from motet.errors import DataError, UnreadableError
from motet.io import events as events_module
from motet.io.events import count_event_types, open_events

EVENTS = pa.table(
    {
        "time": pa.array([dt.datetime(2024, 1, 1, 12, 0, second) for second in range(3)], pa.timestamp("us")),
        "type": ["A", "B", "A"],
        "price": [1.5, None, 3.0],
    }
)


def write_jsonl(rows: str, path: Path) -> Path:
    path.write_text(rows)
    return path


def test_every_format_gives_the_same_events(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    csv.write_csv(EVENTS, tmp_path / "events.csv")
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress((tmp_path / "events.csv").read_bytes()))
    rows = '{"time": "2024-01-01T12:00:00", "type": "A", "price": 1.5}\n'
    rows += '{"time": "2024-01-01T12:00:01", "type": "B"}\n{"time": "2024-01-01T12:00:02", "type": "A", "price": 3}\n'
    write_jsonl(rows, tmp_path / "events.jsonl")
    for file in tmp_path.iterdir():
        source = open_events(file)
        assert source.table().equals(EVENTS), file.name
        assert source.schema.equals(EVENTS.schema)
        assert source.num_rows == (3 if file.suffix == ".parquet" else None)


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    batches = list(open_events(tmp_path / "events.parquet").batches(["type", "time"]))
    assert [batch.schema.names for batch in batches] == [["type", "time"]]


def test_a_large_file_comes_in_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "BATCH_ROWS", 10)
    many = pa.concat_tables([EVENTS] * 20)
    pq.write_table(many, tmp_path / "events.parquet")
    batches = list(open_events(tmp_path / "events.parquet").batches())
    assert len(batches) >= 6
    assert pa.Table.from_batches(batches).equals(many.combine_chunks())


def test_a_folder_is_read_in_the_order_of_names_without_hidden_files(tmp_path: Path) -> None:
    for name, at in (("b", 1), ("a", 0), ("c", 2)):
        pq.write_table(EVENTS.slice(at, 1), tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".a.parquet.crc").write_bytes(b"x")
    assert open_events(tmp_path).table().equals(EVENTS)


def test_folders_named_column_equals_value_add_that_column(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(EVENTS, tmp_path / f"day={day}" / "part-0.parquet")
    assert open_events(tmp_path).table(["day"])["day"].to_pylist() == [1, 1, 1, 2, 2, 2]


def test_a_column_that_one_file_lacks_is_null_there(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "a.parquet")
    pq.write_table(EVENTS.drop_columns("price"), tmp_path / "b.parquet")
    assert open_events(tmp_path).table()["price"].to_pylist() == [1.5, None, 3.0, None, None, None]


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("2024-01-01T12:00:00.25Z", pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, 12, 0, 0, 250_000, dt.UTC)),
        ("2024-01-01T14:00:00+02:00", pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)),
        ("2024-01-01 12:00:00.5", pa.timestamp("us"), dt.datetime(2024, 1, 1, 12, 0, 0, 500_000)),
        ("2024-01-01T12:00", pa.timestamp("us"), dt.datetime(2024, 1, 1, 12)),
    ],
)
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_times_as_text_are_iso_8601(tmp_path: Path, format: str, text: str, type: pa.DataType, value: object) -> None:
    file = tmp_path / f"events.{format}"
    if format == "parquet":
        pq.write_table(pa.table({"time": [text], "type": ["A"]}), file)
    else:
        file.write_text(f"time,type\n{text},A\n" if format == "csv" else f'{{"time": "{text}", "type": "A"}}\n')
    source = open_events(file)
    assert source.schema.field("time").type == type
    assert source.table()["time"].to_pylist() == [value]


@pytest.mark.parametrize(("written", "read"), [("7", 7), ("-7", -7), ("true", True), ("007", "007"), ("1.5", "1.5")])
def test_types_in_a_csv_are_numbers_where_they_are_written_so(tmp_path: Path, written: str, read: object) -> None:
    (tmp_path / "events.csv").write_text(f"time,type\n1,{written}\n2,{written}\n")
    source = open_events(tmp_path / "events.csv")
    assert source.table(["type"])["type"].to_pylist() == [read, read]
    assert count_event_types(source) == {written: 2}


def test_types_in_json_are_numbers_where_they_are_written_so(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"time": 1, "type": 7}\n')
    assert open_events(tmp_path / "events.jsonl").table().to_pylist() == [{"time": 1, "type": 7}]


def test_nulls_of_a_csv_are_told_from_quoted_text(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text('time,type,note\n1,A,NA\n2,,"NA"\n,B,x\n')
    assert open_events(tmp_path / "events.csv").table().to_pydict() == {
        "time": [1, 2, None],
        "type": ["A", None, "B"],
        "note": [None, "NA", "x"],
    }


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_a_file_of_no_bytes_has_every_column_and_no_row(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    source = open_events(tmp_path / name, columns=["price", "time"])
    assert source.schema.names == ["time", "type", "price"]
    assert source.table().num_rows == source.num_rows == 0


def test_a_csv_of_names_only_has_no_row(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("time,type,price\n")
    table = open_events(tmp_path / "events.csv").table()
    assert (table.num_rows, table.schema.field("time").type) == (0, pa.timestamp("us"))


def test_a_folder_without_event_files_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no event files \(looked for \.parquet"):
        open_events(tmp_path)


WRONG_FROM_THE_START = {
    "no such file": ("event.csv", None, r"no file or folder .*event\.csv; did you mean 'events\.csv'\?"),
    "no time column": (
        "events.csv",
        "tim,type\n1,A\n",
        "no column 'time'; did you mean 'tim'.*\n  its columns: tim, t",
    ),
    "no type column": ("events.csv", "time,kind\n1,A\n", "has no column 'type'"),
    "milliseconds taken for seconds": (
        "events.csv",
        "time,type\n1700000000000,A\n",
        r"in seconds a time in the year 55,840; in milliseconds it is one in 2023\n  --time-unit ms",
    ),
    "another delimiter": ("events.csv", "time;type\n1;A\n", r"has no comma: 'time;type'\n  --delimiter ';'"),
    "no names": ("events.csv", "1,A\n2,B\n", r"--header time,type .* names the columns"),
    "times that are none": ("events.csv", "time,type\ntrue,A\n", "column 'time' .* holds bool: that is no time"),
    "text that is no time": ("events.csv", "time,type\nsoon,A\n", "is text, and 'soon' is no ISO 8601 time"),
    "types that are none": ("events.jsonl", '{"time": 1, "type": 1.5}\n', "holds double, but event types are texts"),
    "unknown ending": ("events.txt", "time,type\n1,A\n", "cannot tell the format of .*events.txt"),
}


@pytest.mark.parametrize("case", WRONG_FROM_THE_START)
def test_wrong_from_the_start(tmp_path: Path, case: str) -> None:
    name, text, message = WRONG_FROM_THE_START[case]
    if text is None:
        (tmp_path / "events.csv").touch()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as raised:
        open_events(tmp_path / name)
    assert not isinstance(raised.value, UnreadableError)


BROKEN = {
    "not parquet": ("events.parquet", "time,type\n1,A\n", "events.parquet: Parquet magic bytes not found"),
    "cut row": ("events.csv", "time,type\n1,A\n2\n", r"events.csv: CSV parse error: Row #3: Expected 2 columns, got 1"),
    "not json": ("events.jsonl", '{"time": 1, "type": "A"}\n{"time"\n', "events.jsonl: JSON parse error"),
    "a time that is none further on": (
        "events.csv",
        "time,type\n2024-01-01T00:00:00.5Z,A\nsoon,B\n",
        "'soon' is no ISO 8601 time with a zone",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_found_by_reading(tmp_path: Path, case: str) -> None:
    name, text, message = BROKEN[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(UnreadableError, match=message):
        open_events(tmp_path / name).table()


def test_files_that_disagree_on_a_column_are_refused(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "a.parquet")
    pq.write_table(EVENTS.set_column(2, "price", pa.array(["x", "y", "z"])), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"disagree: .*price has incompatible types"):
        open_events(tmp_path)


def test_a_folder_of_mixed_formats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,type\n1,A\n")
    (tmp_path / "b.jsonl").write_text('{"time": 1, "type": "A"}\n')
    with pytest.raises(DataError, match=r"mixes formats: a\.csv is csv, b\.jsonl is json lines"):
        open_events(tmp_path)
