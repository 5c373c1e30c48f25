"""The oracle over Arrow tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from motet.errors import DataError
from motet.model.expression import Arithmetic, Attribute, Literal
from motet.model.pattern import Event, Pattern, Repeat, Seq
from motet.model.query import Aggregate, AllVariables, Computed, Query, Variable, Workload
from motet.model.window import TimeWindow
from motet.reference.tables import run_table

COUNT = Aggregate("COUNT")
SEQ_A_B = Seq((Event("A", "a"), Event("B", "b")))


def events(times: pa.Array) -> pa.Table:
    """a, b, b at three times."""
    return pa.table(
        {"time": times, "type": ["A", "B", "B"], "x": pa.array([1, 2, 4], pa.int32()), "g": ["u", "u", "u"]}
    )


def test_sliding_rows_fill_the_window_and_the_group() -> None:
    query = Query(
        "q", SEQ_A_B, (COUNT, Aggregate("MAX", "b", "x")), group_by=("g",), window=TimeWindow(4, 4, ticks=True)
    )
    table = run_table(Workload((query,)), events(pa.array([1, 2, 3])))
    assert table.schema == pa.schema(
        {
            "query": pa.string(),
            "window_start": pa.int64(),
            "window_end": pa.int64(),
            "time": pa.int64(),
            "g": pa.string(),
            "COUNT(*)": pa.int64(),
            "MAX(b.x)": pa.int32(),
        }
    )
    row = {"query": "q", "window_start": 0, "window_end": 4, "time": None, "g": "u", "COUNT(*)": 2, "MAX(b.x)": 4}
    assert table.to_pylist() == [row]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_timestamps_come_back_as_microseconds_in_their_zone(unit: str) -> None:
    times = (
        pa.array([0, 1, 2], pa.int64()).cast(pa.timestamp("s", "Europe/Paris")).cast(pa.timestamp(unit, "Europe/Paris"))
    )
    workload = Workload((Query("q", SEQ_A_B, (COUNT,), window=TimeWindow(2_000_000)),))
    table = run_table(workload, events(times))
    assert table.schema.field("time").type == pa.timestamp("us", "Europe/Paris")
    assert table["time"].to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]


def test_dates_are_their_midnight() -> None:
    days = pa.array([0, 1, 2], pa.int32()).cast(pa.date32())
    table = run_table(Workload((Query("q", SEQ_A_B, (COUNT,), window=TimeWindow(86_400_000_001)),)), events(days))
    assert table["time"].to_pylist() == [dt.datetime(1970, 1, 2)]


def test_nanoseconds_are_whole_numbers_rounded_down_to_microseconds() -> None:
    window = TimeWindow(2_000, ticks=True)
    workload = Workload((Query("q", SEQ_A_B, (COUNT,), window=window),))
    table = run_table(workload, events(pa.array([0, 1_500, 2_000])), time_unit="ns")
    assert table["time"].to_pylist() == [1_000]


def test_matches_are_structs_or_lists_in_columns_of_their_own_where_queries_differ() -> None:
    once = Query("once", SEQ_A_B, (Variable("b"),), window=TimeWindow(2, ticks=True))
    often: Pattern = Seq((Event("A"), Repeat(Event("B", "b"), 1, None)))
    many = Query("many", often, (AllVariables(), Computed(Arithmetic("/", Attribute("A", "x"), Literal(2)), "half")))
    table = run_table(Workload((once, many)), events(pa.array([1, 2, 3])))
    event = pa.struct(list(events(pa.array([1, 2, 3])).schema))
    assert table.schema == pa.schema(
        {
            "query": pa.string(),
            "start": pa.int64(),
            "end": pa.int64(),
            "once.b": event,
            "A": event,
            "many.b": pa.list_(event),
            "half": pa.float64(),
        }
    )
    b2: dict[str, Any] = {"time": 2, "type": "B", "x": 2, "g": "u"}
    first = table.to_pylist()[0]
    assert first == {"query": "once", "start": 1, "end": 2, "once.b": b2, "A": None, "many.b": None, "half": None}
    assert table["query"].to_pylist() == ["once", "many", "many", "many"]
    assert table["half"].to_pylist() == [None, 0.5, 0.5, 0.5]


def test_both_kinds_of_query_give_both_sets_of_columns() -> None:
    workload = Workload((Query("m", SEQ_A_B, (Variable("a"),)), Query("n", SEQ_A_B, (COUNT,))))
    table = run_table(workload, events(pa.array([1, 2, 3])), counts="double")
    names = ["query", "window_start", "window_end", "time", "start", "end", "COUNT(*)", "a"]
    assert table.column_names == names
    assert table["COUNT(*)"].to_pylist() == [None, None, 2.0]


def test_an_empty_result_has_its_columns() -> None:
    table = run_table(Workload((Query("q", Event("Z"), (COUNT,)),)), events(pa.array([1, 2, 3])))
    assert table.num_rows == 0
    assert table.column_names == ["query", "window_start", "window_end", "time", "COUNT(*)"]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match=r"'times'.*did you mean 'time'"):
        run_table(Workload(()), events(pa.array([1, 2, 3])), time="times")


def test_a_window_that_ends_between_whole_numbers_is_an_error() -> None:
    workload = Workload((Query("q", Event("A"), (COUNT,), window=TimeWindow(1_500_000, 500_000)),))
    with pytest.raises(DataError, match="whole number"):
        run_table(workload, events(pa.array([1, 2, 3])))
