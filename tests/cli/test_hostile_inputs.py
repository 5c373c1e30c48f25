"""Odd columns, numbers, names and files get an answer or a message, never an internal error."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import motet as library
from motet.errors import DataError, QueryError
from motet.explain.formatting import escape_mermaid
from motet.options import Options
from motet.pipeline import TableSource, execute, open_source, prepare
from motet.statistics.model import Statistics
from tests.command_line import Motet

COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s"
MATCHES = "RETURN a.x AS x PATTERN SEQ(A a, B) WITHIN 10 s"
# Microseconds that no window can be added to, and the last that it can.
OUTSIDE = [-(2**63), 2**63 - 1, 2**62, 2**62 + 1, -(2**62), 2**61, -(2**61)]
INSIDE = [2**61 - 1, 1 - 2**61]


ENGINES: tuple[Literal["local", "oracle"], ...] = ("local", "oracle")


def events_at(times: pa.Array) -> pa.Table:
    return pa.table({"time": times, "type": ["A", "A", "B"], "x": [1, 2, 3]})


def count_invalid_rows(table: pa.Table, query: str, **options: Any) -> int:
    settled, workload = Options(**options), library.parse(query)
    outcome = execute(prepare(open_source(table, settled, workload), workload, settled))
    assert outcome.table.num_rows == 1
    return outcome.invalid_rows


@pytest.mark.parametrize("engine", ["local", "oracle"])
@pytest.mark.parametrize("query", [COUNT, MATCHES])
@pytest.mark.parametrize("time", [*OUTSIDE, *INSIDE])
def test_times_that_no_window_can_hold_are_set_aside(time: int, query: str, engine: Any) -> None:
    table = events_at(pa.array([time, 1, 2]))
    assert library.run(table, query, time_unit="us", engine=engine).num_rows == 1
    assert count_invalid_rows(table, query, time_unit="us") == (time in OUTSIDE)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_timestamps_out_of_range_are_set_aside(time: int, unit: str) -> None:
    table = events_at(pa.array([time, 1, 2], pa.timestamp(unit)))
    assert count_invalid_rows(table, COUNT) == 1


def test_days_out_of_range_are_set_aside() -> None:
    table = events_at(pa.array([2**31 - 1, 1, 2], pa.date32()))
    assert count_invalid_rows(table, COUNT.replace("10 s", "10 days")) == 1


def test_times_without_a_sign_out_of_range_are_set_aside() -> None:
    table = events_at(pa.array([2**64 - 1, 1, 2], pa.uint64()))
    assert count_invalid_rows(table, COUNT) == 1
    assert library.profile(table).null_times == 1


def test_rows_set_aside_are_counted_on_the_command_line(motet: Motet, tmp_path: Path) -> None:
    (tmp_path / "q.motet").write_text(COUNT)
    pq.write_table(events_at(pa.array([-(2**63), 1, 2])), tmp_path / "e.parquet")
    outcome = motet("run", tmp_path / "q.motet", "--events", tmp_path / "e.parquet", "--time-unit", "us")
    assert outcome.status == 0
    assert "1 row set aside: no type, no time, or one out of range" in outcome.stderr


def test_a_live_workload_sets_them_aside_too() -> None:
    live = library.live(events_at(pa.array([1, 2, 3])), COUNT, time_unit="us")
    live.feed(events_at(pa.array([-(2**63), 1, 2])))
    assert live.invalid_rows == 1
    assert live.feed(events_at(pa.array([1, 2, 3])).slice(0, 0), watermark=10**8).num_rows == 1


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([[1]] * 3),
        pa.array([{"a": 1}] * 3),
        pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
        pa.array([[1]] * 3, pa.large_list(pa.int64())),
    ],
    ids=["list", "struct", "map", "large list"],
)
@pytest.mark.parametrize("clause", ["WHERE [key]", "GROUP BY key"])
@pytest.mark.parametrize("engine", ["local", "oracle"])
def test_nested_keys_are_refused(motet: Motet, tmp_path: Path, keys: pa.Array, clause: str, engine: Any) -> None:
    table = events_at(pa.array([1, 2, 3])).append_column("key", keys)
    query = f"RETURN COUNT(*) PATTERN SEQ(A, B) {clause} WITHIN 10 s"
    with pytest.raises(QueryError, match="events cannot be grouped by 'key', which holds"):
        library.run(table, query, engine=engine)
    pq.write_table(table, tmp_path / "e.parquet")
    (tmp_path / "q.motet").write_text(query)
    outcome = motet("check", tmp_path / "q.motet", "--events", tmp_path / "e.parquet")
    assert (outcome.status, "events cannot be grouped by 'key'" in outcome.stderr) == (2, True)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["u"] * 3, pa.string_view()),
        pa.array(["u"] * 3, pa.large_string()),
        pa.array([b"u"] * 3),
        pa.array([2**64 - 1] * 3, pa.uint64()),
        pa.array([1] * 3, pa.duration("s")),
        pa.array([1] * 3, pa.time32("s")),
        pa.array([1.0] * 3, pa.float16()),
        pa.array(["u"] * 3).dictionary_encode(),
    ],
    ids=lambda keys: str(keys.type),
)
def test_other_keys_give_the_answer_of_the_oracle(keys: pa.Array) -> None:
    table = events_at(pa.array([1, 2, 3])).append_column("key", keys)
    for query in (
        "RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY key WITHIN 10 s",
        "RETURN a.x AS x PATTERN SEQ(A a, B) WHERE [key] WITHIN 10 s",
    ):
        found, expected = (library.run(table, query, engine=engine) for engine in ("local", "oracle"))  # type: ignore[call-overload]
        assert found.to_pylist() == expected.to_pylist()


LAYOUTS = {
    "list view": (pa.array([[1], [2, 3], None], pa.list_view(pa.int64())), pa.list_(pa.int64())),
    "view of texts": (
        pa.array([["a"], [], ["b", None]], pa.large_list_view(pa.string_view())),
        pa.large_list(pa.string()),
    ),
    "fields": (
        pa.array(
            [{"f": [1, 2], "g": 0.5}, None, {"f": None, "g": None}],
            pa.struct({"f": pa.list_view(pa.uint8()), "g": pa.float16()}),
        ),
        pa.struct({"f": pa.list_(pa.uint8()), "g": pa.float32()}),
    ),
    "half": (pa.array([0.5, 1.5, None], pa.float16()), pa.float32()),
    "pairs of halves": (pa.array([[0.5, 1.0]] * 3, pa.list_(pa.float16(), 2)), pa.list_(pa.float32(), 2)),
    "map": (pa.array([[("a", 1)], None, []], pa.map_(pa.string_view(), pa.int64())), pa.map_(pa.string(), pa.int64())),
    "decimal32": (pa.array([Decimal("0.5"), Decimal(2), None], pa.decimal32(5, 1)), pa.decimal128(5, 1)),
    "decimal64": (pa.array([Decimal("0.25"), Decimal(2), None], pa.decimal64(15, 2)), pa.decimal128(15, 2)),
    "runs": (pa.array(["a", "a", None], pa.run_end_encoded(pa.int32(), pa.string())), pa.string()),
    "uuid": (pa.array([b"0123456789abcdef"] * 2 + [None], pa.uuid()), pa.binary(16)),
    "json": (pa.array(["{}", "[1]", None], pa.json_()), pa.string()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_of_any_layout_are_read_as_what_they_hold(tmp_path: Path, layout: str) -> None:
    column, kind = LAYOUTS[layout]
    table = events_at(pa.array([1, 2, 3])).append_column("s", column)
    found = library.run(table, "RETURN a.s AS s, a PATTERN OR(A, B) a WITHIN 10 s").sort_by("start")
    values = column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType) else column
    assert found["s"].to_pylist() == [row["s"] for row in found["a"].to_pylist()] == values.to_pylist()
    assert found.schema.field("s").type == kind
    found.validate(full=True)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 0), table.slice(1)])
    assert library.run(chunked, "RETURN a.s AS s PATTERN OR(A, B) a WITHIN 10 s")["s"].to_pylist() == values.to_pylist()
    live = library.live(table, "RETURN a.s AS s PATTERN OR(A, B) a WITHIN 10 s")
    assert pa.concat_tables([live.feed(table), live.finish()])["s"].to_pylist() == values.to_pylist()
    feather.write_feather(table, tmp_path / "e.arrow", compression="uncompressed")
    read = library.run(tmp_path / "e.arrow", "RETURN a.s AS s PATTERN OR(A, B) a WITHIN 10 s")
    assert read["s"].to_pylist() == values.to_pylist()
    if pa.types.is_nested(column.type):
        return
    query = "RETURN COUNT(*) PATTERN OR(A, B) GROUP BY s WITHIN 10 s SLIDE 10 s"
    groups = [library.run(table, query, engine=engine).select(["s", "COUNT(*)"]).to_pylist() for engine in ENGINES]
    assert groups[0] == groups[1]


def test_a_column_of_several_types_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])])
    table = events_at(pa.array([1, 2, 3])).append_column("s", union)
    with pytest.raises(DataError, match="column 's' of the table of events holds values of several types"):
        library.run(table, COUNT)
    assert library.run(table.drop_columns(["s"]), COUNT).num_rows == 1


@pytest.mark.parametrize("condition", ["a.x >= a.k", "a.x >= b.k", "a.x = b.k", "a.k IN (9007199254740992.0)"])
def test_whole_numbers_are_compared_with_floating_ones_as_doubles(condition: str) -> None:
    table = pa.table({"time": [1, 2], "type": ["A", "B"], "k": [2**53 + 1] * 2, "x": [2.0**53] * 2})
    for engine in ENGINES:
        query = f"RETURN a, b PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 10 s"
        assert library.run(table, query, engine=engine).num_rows == 1


@pytest.mark.parametrize("condition", ["a.x < 9223372036854775808", "FIRST(a).x < 9223372036854775808 + b.x"])
def test_whole_numbers_of_more_than_64_bits_are_refused(condition: str) -> None:
    with pytest.raises(DataError, match="the whole number 9223372036854775808 does not fit in 64 bits"):
        library.run(
            events_at(pa.array([1, 2, 3])), f"RETURN COUNT(*) PATTERN SEQ(A+ a, B b) WHERE {condition} WITHIN 10 s"
        )


@pytest.mark.spark
@pytest.mark.parametrize(
    "kind",
    [pa.time32("s"), pa.duration("ns"), pa.decimal256(60, 0), pa.month_day_nano_interval(), pa.uint64()],
    ids=str,
)
def test_types_that_spark_does_not_have_are_refused(kind: pa.DataType) -> None:
    value = pa.MonthDayNano([1, 2, 3]) if pa.types.is_interval(kind) else 1
    table = events_at(pa.array([1, 2, 3])).append_column("s", pa.array([value] * 3, kind))
    with pytest.raises(DataError, match="Spark has no type for column 's'"):
        library.run(table, MATCHES, engine="spark")


def test_large_whole_numbers_in_min_and_max() -> None:
    query = "RETURN MIN(a.u) AS least, MAX(a.u) AS most PATTERN SEQ(A a, B) WITHIN 10 s SLIDE 10 s"
    fits = events_at(pa.array([1, 2, 3])).append_column("u", pa.array([0, 2**63 - 2, 5], pa.uint64()))
    assert library.run(fits, query).select(["least", "most"]).to_pylist() == [{"least": 0, "most": 2**63 - 2}]
    too_large = fits.set_column(3, "u", pa.array([0, 2**64 - 1, 5], pa.uint64()))
    with pytest.raises(DataError, match="MIN and MAX compare whole numbers of 64 bits with a sign"):
        library.run(too_large, query)
    select = ["* REPLACE (CAST(u AS DOUBLE) AS u)"]
    assert library.run(too_large, query, select=select).column("most").to_pylist() == [float(2**64 - 1)]


@pytest.mark.parametrize("name", ["time", "type", "start", "end", "window_start", "window_end", "query"])
@pytest.mark.parametrize(
    "query",
    [
        "RETURN {} PATTERN SEQ(A {}, B) WITHIN 10 s",
        "RETURN * PATTERN SEQ(A {}, B) WITHIN 10 s",
        "RETURN a.x AS {} PATTERN SEQ(A a, B) WITHIN 10 s",
        "RETURN COUNT(*) AS {} PATTERN SEQ(A a, B) WITHIN 10 s",
        "RETURN COUNT(*), SUM({}.x) PATTERN SEQ(A {}, B) WITHIN 10 s SLIDE 10 s",
    ],
)
def test_names_that_results_have_too(name: str, query: str) -> None:
    text, answers = query.replace("{}", name), []
    for engine in ("local", "oracle"):
        try:
            answers.append(library.run(events_at(pa.array([1, 2, 3])), text, engine=engine).to_pylist())  # type: ignore[call-overload]
        except QueryError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "query",
    [
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.x < {'9' * 5000} WITHIN 10 s",
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.x < {'9' * 5000}.5 WITHIN 10 s",
        f"RETURN COUNT(*) PATTERN SEQ(A{{{'9' * 5000}}} a, B) WITHIN 10 s",
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WITHIN {'9' * 5000} s",
        "RETURN COUNT(*) PATTERN SEQ(A a, B) WITHIN 9223372036854775807 EVENTS",
        "RETURN a PATTERN SEQ(A a, B) WITHIN 9223372036854775807 EVENTS",
        "RETURN COUNT(*) PATTERN SEQ(A a, B) WITHIN 2305843009214",
        "RETURN COUNT(*) PATTERN SEQ(A a, B) WITHIN 100000000 days SLIDE 1 day",
    ],
)
def test_numbers_that_are_too_long_are_refused(query: str) -> None:
    with pytest.raises(QueryError, match=r"digits|too long"):
        library.run(events_at(pa.array([1, 2, 3])), query)


def test_the_longest_windows_give_the_answer_of_the_oracle() -> None:
    for length in ("2305843009213 s", "2305843009213", "2305843009213693952 EVENTS"):
        query = f"RETURN COUNT(*) PATTERN SEQ(A a, B) WITHIN {length}"
        table = events_at(pa.array([1 - 2**61 // 10**6, 1, 2**61 // 10**6 - 1]))
        assert library.run(table, query).equals(library.run(table, query, engine="oracle"))


BAD_STATISTICS = {
    "nothing": "",
    "a list": "[]",
    "null": "null",
    "a number for counts": '{"counts": 5}',
    "a text for a count": '{"counts": {"A": "x"}}',
    "a negative count": '{"counts": {"A": -1}}',
    "a fraction for a count": '{"counts": {"A": 1.5}}',
    "a text for a time": '{"counts": {"A": 1}, "first": "x", "last": "y"}',
    "a number for keys": '{"keys": 5}',
    "a text for partitions": '{"counts": {"A": 1}, "partitions": "many", "keys": ["k"]}',
    "a text for partitionings": '{"counts": {"A": 1}, "partitionings": {"k": "x"}}',
    "a list for symbols": '{"symbols": {"A": [1]}}',
    "a text for a rate": '{"given": {"A": "x"}}',
    "null for a rate": '{"rates": {"A": null}}',
    "no number for a rate": '{"rates": {"A": NaN}}',
    "a number for cells": '{"cells": {"": 3}}',
    "a number for selectivities": '{"counts": {"A": 1}, "selectivities": 5}',
    "deep nesting": "[" * 100_000,
}


@pytest.mark.parametrize("form", BAD_STATISTICS)
def test_bad_statistics_are_refused(motet: Motet, tmp_path: Path, queries: Path, form: str) -> None:
    file = tmp_path / "statistics.json"
    file.write_text(BAD_STATISTICS[form])
    outcome = motet("plan", queries, "--statistics", file)
    assert outcome.status == 2
    assert outcome.stderr.startswith("error: these are no statistics such as `motet profile --format json` writes: ")


def test_statistics_that_are_no_text_are_refused(motet: Motet, tmp_path: Path, queries: Path) -> None:
    (tmp_path / "statistics.json").write_bytes(b"\xff\xfe\x00")
    outcome = motet("plan", queries, "--statistics", tmp_path / "statistics.json")
    assert (outcome.status, "is not UTF-8 text" in outcome.stderr) == (2, True)


def test_statistics_are_read_as_they_are_written() -> None:
    table = events_at(pa.array([1, 2, 3]))
    found = library.profile(table, "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE [x] AND a.x < 2 WITHIN 5 s")
    assert Statistics.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["cells"]


def test_labels_of_drawings_are_one_line_without_marks() -> None:
    assert escape_mermaid('a"<b>\n#quot;&') == "a#quot;#lt;b#gt; #35;quot;#amp;"


def test_a_table_without_rows_has_no_results() -> None:
    table = events_at(pa.array([1, 2, 3])).slice(0, 0)
    workload = library.parse(COUNT)
    assert execute(prepare(TableSource(table), workload, Options())).table.num_rows == 0


@pytest.mark.spark
def test_times_out_of_range_are_set_aside_on_spark(motet: Motet, tmp_path: Path) -> None:
    (tmp_path / "q.motet").write_text(COUNT)
    pq.write_table(events_at(pa.array([-(2**63), 1, 2])), tmp_path / "e.parquet")
    arguments = ["--events", tmp_path / "e.parquet", "--time-unit", "us", "--engine", "spark", "--format", "csv"]
    outcome = motet("run", tmp_path / "q.motet", *arguments)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1].endswith(",1")
    assert "1 row set aside" in outcome.stderr
