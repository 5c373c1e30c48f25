"""Every form in which events come is read to the same events: files, pipes, and anything that speaks Arrow."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import motet
from motet.errors import DataError, UnreadableError
from motet.io import formats
from motet.io.events import open_events
from motet.options import Options
from tests.command_line import Motet

QUERY = "RETURN COUNT(*), SUM(b.x) AS total PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s SLIDE 10 s"
EVENTS = pa.table({"time": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "k": ["u", "u", "v", "v"], "x": [1, 2, 3, 4]})
LINES = [json.dumps(row) for row in EVENTS.to_pylist()]


def csv_text(delimiter: str = ",", header: bool = True) -> bytes:
    stream = io.BytesIO()
    csv.write_csv(EVENTS, stream, csv.WriteOptions(delimiter=delimiter, include_header=header, quoting_style="none"))
    return stream.getvalue()


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True))


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(EVENTS, sink)
    return sink.getvalue()


def arrow_bytes() -> bytes:
    sink = io.BytesIO()
    feather.write_feather(EVENTS, sink)
    return sink.getvalue()


def arrow_stream() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, EVENTS.schema) as writer:
        writer.write_table(EVENTS)
    return sink.getvalue()


FORMS: dict[str, tuple[str, Callable[[], bytes], dict[str, Any]]] = {
    "csv": ("e.csv", csv_text, {}),
    "csv with semicolons": ("e.csv", lambda: csv_text(";"), {"delimiter": ";"}),
    "csv with tabs": ("e.csv", lambda: csv_text("\t"), {"delimiter": "tab"}),
    "tsv": ("e.tsv", lambda: csv_text("\t"), {}),
    "csv without names": ("e.csv", lambda: csv_text(header=False), {"header": "time,type,k,x"}),
    "csv.gz": ("e.csv.gz", lambda: gzip.compress(csv_text()), {}),
    "csv.bz2": ("e.csv.bz2", lambda: bz2.compress(csv_text()), {}),
    "csv.zst": ("e.csv.zst", lambda: zstd(csv_text()), {}),
    "json lines": ("e.jsonl", lambda: "\n".join(LINES).encode(), {}),
    "json lines, gz": ("e.jsonl.gz", lambda: gzip.compress("\n".join(LINES).encode()), {}),
    "json lines, zst": (
        "e.ndjson.zst",
        lambda: zstd("\n".join(LINES).encode()),
        {},
    ),
    "a json array": ("e.json", lambda: f"\n [{','.join(LINES)}]".encode(), {}),
    "a json array, gz": ("e.json.gz", lambda: gzip.compress(f"[{','.join(LINES)}]".encode()), {}),
    "json lines of varying types": (
        "e.jsonl",
        lambda: "\n".join(LINES).replace('"x": 2', '"x": "2"').encode(),
        {"column_types": {"x": "integer"}},
    ),
    "parquet": ("e.parquet", parquet_bytes, {}),
    "arrow": ("e.arrow", arrow_bytes, {}),
    "arrow, another name": ("e.feather", arrow_bytes, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_files(tmp_path: Path, form: str) -> None:
    name, content, options = FORMS[form]
    (tmp_path / name).write_bytes(content())
    assert open_events(tmp_path / name, Options(**options)).table().equals(EVENTS)
    assert motet.run(tmp_path / name, QUERY, **options).column("total").to_pylist() == [6]


@pytest.mark.parametrize("form", ["csv", "csv with semicolons", "csv without names", "csv.gz", "json lines", "arrow"])
def test_files_that_are_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 24 if form != "json lines" else 100)
    name, content, options = FORMS[form]
    (tmp_path / name).write_bytes(content())
    source = open_events(tmp_path / name, Options(**options))
    assert isinstance(source.content, ds.Dataset)
    assert source.table().combine_chunks().equals(EVENTS)


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("tsv")])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    _, content, options = FORMS[form]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content())))
    assert open_events("-", Options(**options)).table().equals(EVENTS)


def test_an_arrow_stream_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(arrow_stream())))
    assert open_events("-").table().equals(EVENTS)


def test_an_empty_standard_input_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert motet.run("-", QUERY).num_rows == 0


def test_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(csv_text(),))
    writer.start()
    assert open_events(tmp_path / "pipe").table().equals(EVENTS)
    writer.join()


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for at in range(4):
        folder = tmp_path / f"day={at % 2}"
        folder.mkdir(exist_ok=True)
        csv.write_csv(EVENTS.slice(at, 1), folder / f"{at}.csv")
    return tmp_path


def times(events: Any) -> list[int]:
    return sorted(open_events(events).table(["time"])["time"].to_pylist())


def test_lists_patterns_and_folders(parts: Path) -> None:
    assert times([parts / "day=0" / "0.csv", str(parts / "day=1" / "1.csv")]) == [1, 2]
    assert times(str(parts / "**" / "*.csv")) == [1, 2, 3, 4]
    assert times([parts / "day=1", parts / "day=0" / "0.csv"]) == [1, 2, 4]


def test_a_file_that_two_patterns_name_is_read_once(parts: Path) -> None:
    assert times([parts, str(parts / "day=*" / "0.csv")]) == [1, 2, 3, 4]


def test_folders_that_a_pattern_names_add_their_columns(parts: Path) -> None:
    source = open_events(str(parts / "day=*" / "*.csv"))
    assert sorted(source.table(["day"])["day"].to_pylist()) == [0, 0, 1, 1]


def test_several_events_on_the_command_line(motet: Motet, parts: Path) -> None:
    arguments = [part for at in (0, 1) for part in ("--events", parts / f"day={at}" / f"{at}.csv")]
    outcome = motet("profile", *arguments)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("2 events")


def test_standard_input_on_the_command_line(motet: Motet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.motet").write_text(QUERY)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(csv_text(";")))))
    outcome = motet("run", tmp_path / "q.motet", "--events", "-", "--delimiter", ";", "--format", "csv")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1].endswith(",2,6")


class Stream:
    """Offers the Arrow stream protocol, and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return EVENTS.__arrow_c_stream__(requested_schema)


def duckdb_relation() -> Any:
    session = duckdb.connect()
    session.register("letters", EVENTS)
    return session.sql("SELECT * FROM letters")


SOURCES: dict[str, Callable[[], Any]] = {
    "polars": lambda: pl.DataFrame(EVENTS),
    "polars, categories": lambda: pl.DataFrame(EVENTS).with_columns(
        pl.col("type").cast(pl.Categorical), pl.col("k").cast(pl.Enum(["u", "v"]))
    ),
    "a DuckDB relation": duckdb_relation,
    "a dataset": lambda: ds.dataset(EVENTS),
    "a reader": lambda: EVENTS.to_reader(),
    "the protocol alone": Stream,
    "a record batch": lambda: EVENTS.combine_chunks().to_batches()[0],
    "views of text": lambda: EVENTS.cast(
        pa.schema([("time", pa.int64()), ("type", pa.string_view()), ("k", pa.string_view()), ("x", pa.int64())])
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_whatever_speaks_arrow(kind: str) -> None:
    make = SOURCES[kind]
    expected = motet.run(EVENTS, QUERY)
    assert motet.run(make(), QUERY).equals(expected)
    assert motet.run(make(), QUERY, engine="oracle").equals(expected)
    assert pa.table(motet.ask(make(), QUERY)).equals(expected)
    assert motet.batches(make(), QUERY).read_all().equals(expected)
    assert motet.profile(make(), QUERY).counts == {"A": 2, "B": 2}
    assert str(motet.plan(make(), QUERY)) == str(motet.plan(EVENTS, QUERY))
    assert motet.explain_match(make(), QUERY)
    live = motet.live(make(), QUERY)
    live.feed(EVENTS)
    assert live.feed(EVENTS.slice(0, 0), watermark=100).column("total").to_pylist() == [6]
    matches = motet.run(make(), "RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 s")
    assert matches.column("b").to_pylist() == EVENTS.filter(pa.array([False, True, False, True])).to_pylist()


def test_a_dataset_of_files_is_read_in_batches(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    assert motet.run(ds.dataset(tmp_path / "e.parquet"), QUERY).column("total").to_pylist() == [6]


NOON = 1_704_110_400  # 2024-01-01T12:00:00Z
MOMENTS = ["2024-01-01T12:00:00", "2024-01-01T12:00:01.500000"]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ([f"{NOON}", f"{NOON + 2}"], {}, [NOON, NOON + 2]),
        ([f"{NOON}000", f"{NOON}500"], {"time_unit": "ms"}, [NOON * 1000, NOON * 1000 + 500]),
        ([f"{NOON}000000", f"{NOON}500000"], {"time_unit": "us"}, [NOON * 10**6, NOON * 10**6 + 500_000]),
        ([f"{NOON}000000000", f"{NOON}500000000"], {"time_unit": "ns"}, [NOON * 10**9, NOON * 10**9 + 500_000_000]),
        ([f"{NOON}.0", f"{NOON + 1}.5"], {}, MOMENTS),
        ([f"{NOON}000.0", f"{NOON + 1}500.0"], {"time_unit": "ms"}, MOMENTS),
        (["2024-01-01T14:00:00+02:00", "2024-01-01T14:00:01.5+02:00"], {}, [f"{moment}+00:00" for moment in MOMENTS]),
        (["2024-01-01 14:00:00 +0200", "2024-01-01 14:00:01.5 +0200"], {}, [f"{moment}+00:00" for moment in MOMENTS]),
        (["2024-01-01 12:00:00 Z", "2024-01-01 12:00:01.5 Z"], {}, [f"{moment}+00:00" for moment in MOMENTS]),
        (["2024-01-01 12:00", "2024-01-01 12:00:01.5"], {}, MOMENTS),
    ],
    ids=[
        "s",
        "ms",
        "us",
        "ns",
        "floating s",
        "floating ms",
        "zone",
        "zone after a space",
        "Z after a space",
        "no seconds",
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet", "table"])
def test_forms_of_times(
    tmp_path: Path, form: str, text: list[str], options: dict[str, Any], expected: list[Any]
) -> None:
    rows = "".join(f"{time},{type}\n" for time, type in zip(text, "AB", strict=True))
    (tmp_path / "e.csv").write_text(f"time,type\n{rows}")
    events: Any = tmp_path / "e.csv"
    if form != "csv":
        events = csv.read_csv(events)
    if form == "parquet":
        pq.write_table(events, tmp_path / "e.parquet")
        events = tmp_path / "e.parquet"
    found = motet.run(events, "RETURN a.time AS first, b.time AS next PATTERN SEQ(A a, B b) WITHIN 10 s", **options)
    values = [found.column(name)[0].as_py() for name in ("start", "end")]
    assert [value if isinstance(value, int) else value.isoformat() for value in values] == expected
    assert [found.column(name)[0].as_py() for name in ("first", "next")] == values


OPTION = re.compile(r'^  (--select ".*") reads them', re.MULTILINE)
OTHER_FORMS = {
    "%d/%m/%Y %H:%M:%S": ["01/03/2024 10:00:00"],
    "%m/%d/%Y %H:%M": ["03/01/2024 10:00", "03/22/2024 10:00"],
    "%d/%b/%Y:%H:%M:%S %z": ["01/Mar/2024:12:00:00 +0200"],
    "%b %d, %Y %I:%M %p": ["Mar 1, 2024 10:00 AM"],
    "%d.%m.%Y %H:%M:%S.%f": ["01.03.2024 10:00:00.000"],
    "%Y%m%d %H%M%S": ["20240301 100000"],
    "%d-%m-%y %H:%M": ["01-03-24 10:00"],
}


@pytest.mark.parametrize("form", OTHER_FORMS)
@pytest.mark.parametrize("name", ["time", "Event Time"])
def test_times_in_other_forms_say_how_they_are_read(motet: Motet, tmp_path: Path, name: str, form: str) -> None:
    rows = "".join(f'"{text}",A\n' for text in OTHER_FORMS[form])
    (tmp_path / "e.csv").write_text(f"{name},type\n{rows}")
    (tmp_path / "q.motet").write_text("RETURN * PATTERN A a")
    given = ["run", tmp_path / "q.motet", "--events", tmp_path / "e.csv", "--format", "jsonl"]
    given += [] if name == "time" else ["--time", name]
    refused = motet(*given)
    assert refused.status == 2
    found = OPTION.search(refused.stderr)
    assert found is not None, refused.stderr
    assert f"'{form}'" in found[1]
    outcome = motet(*given, *shlex.split(found[1]))
    assert outcome.status == 0, outcome.stderr
    assert json.loads(outcome.stdout.splitlines()[0])["start"].startswith("2024-03-01T10:00:00")


def test_where_months_or_days_may_come_first_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("time,type\n03/01/2024,A\n")
    with pytest.raises(DataError, match=r"'%d/%m/%Y'\) AS time\)\" reads them, and '%m/%d/%Y' where months come first"):
        open_events(tmp_path / "e.csv")


def test_a_column_whose_name_has_spaces_is_quoted_in_messages(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("Event Time,type\n2024-03-01T10:00:00,A\n")
    with pytest.raises(DataError, match="as in --time 'Event Time'"):
        open_events(tmp_path / "e.csv")


def test_times_that_no_number_can_be_are_set_aside(tmp_path: Path) -> None:
    table = pa.table({"time": [1.0, float("nan"), float("inf"), 1e300, 2.0], "type": list("AAAAB")})
    assert motet.run(table, "RETURN COUNT(*) PATTERN SEQ(A, B)").column("COUNT(*)").to_pylist() == [1]


UNITS = [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]


@pytest.mark.parametrize(("unit", "per_second"), UNITS)
@pytest.mark.parametrize(("asked", "_"), UNITS)
@pytest.mark.parametrize("floating", [False, True])
def test_numbers_far_beyond_our_days_ask_for_their_unit(
    unit: str, per_second: int, asked: str, _: int, floating: bool
) -> None:
    values = pa.array([NOON * per_second * (1.0 if floating else 1)])
    table = pa.table({"time": values, "type": ["A"]})
    finer = [name for name, _ in UNITS].index(unit) > [name for name, _ in UNITS].index(asked)
    if finer:
        with pytest.raises(DataError, match=rf"in \w+ it is one in 2024\n  --time-unit {unit} "):
            motet.run(table, "RETURN COUNT(*) PATTERN A", time_unit=asked)
    else:
        motet.run(table, "RETURN COUNT(*) PATTERN A", time_unit=asked)


def test_values_that_vary_in_json_lines_say_what_helps(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text('{"time": 1, "type": "A", "x": 5}\n{"time": 2, "type": "B", "x": "many"}\n')
    with pytest.raises(UnreadableError, match=r"column 'x' changed from number to string .*\n  --column-type x=text"):
        open_events(file)
    table = open_events(file, Options(column_types={"x": "text"})).table()
    assert table["x"].to_pylist() == ["5", "many"]
    with pytest.raises(UnreadableError, match=r"column 'x' is \"many\" in event 2, which is no number"):
        open_events(file, Options(column_types={"x": "number"}))


@pytest.mark.parametrize(
    ("values", "column", "problem", "texts"),
    [
        (["5", '"many"'], "x.of", "changed from number to string", [{"of": "5"}, {"of": "many"}]),
        (
            ['{"a": 5}', '{"a": "many"}'],
            "x.of.a",
            "changed from number to",
            [{"of": {"a": "5"}}, {"of": {"a": "many"}}],
        ),
        (["[1]", '["many"]'], "x.of", "has an item that changed from number to", [{"of": "[1]"}, {"of": '["many"]'}]),
    ],
    ids=["a field", "a field of a field", "a list"],
)
def test_values_that_vary_in_fields_say_what_helps(
    tmp_path: Path, values: list[str], column: str, problem: str, texts: list[Any]
) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text("".join(f'{{"time": {at}, "type": "A", "x": {{"of": {one}}}}}\n' for at, one in enumerate(values)))
    with pytest.raises(UnreadableError, match=rf"column '{column}' {problem} .*\n  --column-type {column}=text"):
        open_events(file)
    assert open_events(file, Options(column_types={column: "text"})).table()["x"].to_pylist() == texts
    with pytest.raises(UnreadableError, match=rf"column '{column}' is .* in event \d, which is no number"):
        open_events(file, Options(column_types={column: "number"}))
    with pytest.raises(DataError, match=r"no column 'x\.off'"):
        open_events(file, Options(column_types={column: "text", "x.off": "text"}))


def test_times_in_fields_may_be_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"time": 1, "type": "A", "x": {"on": "2024-03-01"}}\n')
    table = open_events(tmp_path / "e.jsonl", Options(column_types={"x.on": "text"})).table()
    assert table["x"].to_pylist() == [{"on": "2024-03-01"}]


def test_text_in_another_encoding_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1000)
    rows = "".join(f"{at},A,Muller\n" for at in range(150)) + "150,A,M\xfcller\n"
    (tmp_path / "e.csv").write_text(f"time,type,name\n{rows}", encoding="latin1")
    with pytest.raises(UnreadableError, match=r"column 'name' holds text that is not in UTF-8\n  iconv -f latin1"):
        open_events(tmp_path / "e.csv").table(["name"])


def test_values_of_a_csv_that_change_further_on_say_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 1000)
    rows = "".join(f"{at},A,y,{at}\n" for at in range(150)) + "150,A,y,many\n"
    (tmp_path / "e.csv").write_text(f"time,type,y,x\n{rows}")
    with pytest.raises(UnreadableError, match=r"column 'x' was taken for int64, .*'many'.*\n  --column-type x=text"):
        open_events(tmp_path / "e.csv").table(["x", "time"])
    table = open_events(tmp_path / "e.csv", Options(column_types={"x": "text"})).table()
    assert table["x"][-1].as_py() == "many"


def test_decimal_commas_say_how_they_are_read(motet: Motet, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("time;type;x\n1;A;0,5\n2;A;1,25\n")
    (tmp_path / "q.motet").write_text("RETURN SUM(A.x) AS total PATTERN A")
    given = ["run", tmp_path / "q.motet", "--events", tmp_path / "e.csv", "--delimiter", ";", "--format", "jsonl"]
    refused = motet(*given, "--column-type", "x=number")
    found = re.search(r"^  (--column-type .*) reads decimal commas", refused.stderr, re.MULTILINE)
    assert found is not None, refused.stderr
    outcome = motet(*given, *shlex.split(found[1]))
    assert outcome.status == 0, outcome.stderr
    assert json.loads(outcome.stdout)["values"] == {"total": 1.75}


@pytest.mark.parametrize(
    ("kind", "values"),
    [("text", ["1", "0"]), ("integer", [1, 0]), ("number", [1.0, 0.0]), ("boolean", [True, False])],
)
def test_types_of_csv_columns(tmp_path: Path, kind: Any, values: list[Any]) -> None:
    (tmp_path / "e.csv").write_text("time,type,x\n1,A,1\n2,B,0\n")
    table = open_events(tmp_path / "e.csv", Options(column_types={"x": kind})).table()
    assert table["x"].to_pylist() == values


def test_a_type_for_a_column_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("time,type,x\n1,A,1\n")
    with pytest.raises(DataError, match="no column 'xx'; did you mean 'x'"):
        open_events(tmp_path / "e.csv", Options(column_types={"xx": "text"}))


@pytest.mark.parametrize("keywords", [{"delimiter": ";"}, {"header": "a,b"}, {"column_types": {"x": "text"}}])
def test_options_for_text_apply_to_text(tmp_path: Path, keywords: Any) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    (name,) = keywords
    with pytest.raises(DataError, match=f"{name} does not apply to parquet files"):
        motet.run(tmp_path / "e.parquet", QUERY, **keywords)
    with pytest.raises(DataError, match=f"{name} does not apply to events that are no text files"):
        motet.run(EVENTS, QUERY, **keywords)
