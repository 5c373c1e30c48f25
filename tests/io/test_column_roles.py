"""Where the time or type column is missing, the one that is likely meant is named."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import motet
from motet.errors import DataError, QueryError
from motet.io.column_roles import find_likely_time, find_likely_type

SIZE = 200
NOON = 1_704_110_400  # 2024-01-01T12:00:00Z
CUSTOMERS = [f"c{at}" for at in range(SIZE)]
STATUS = [("sent", "paid", "late")[at % 3] for at in range(SIZE)]
CODES = [(4624, 4625)[at % 2] for at in range(SIZE)]
ORDERS = pa.table(
    {
        "id": range(SIZE),
        "shop": ["main"] * SIZE,
        "customer": CUSTOMERS,
        "code": CODES,
        "status": STATUS,
        "open": [at % 2 == 0 for at in range(SIZE)],
        "at": [(NOON + at) * 1000 for at in range(SIZE)],
    }
)


@pytest.mark.parametrize("form", ["csv", "parquet", "dataset"])
@pytest.mark.parametrize(
    ("pattern", "likely"),
    [
        ("SEQ(a, b)", "status"),
        ("SEQ(sent, paid)", "status"),
        ('SEQ("4624", paid, "4625")', "code"),
        ("c17", "customer"),
    ],
)
def test_the_type_column_is_the_one_that_holds_what_queries_name_or_few_values(
    tmp_path: Path, form: str, pattern: str, likely: str
) -> None:
    events: Any = tmp_path / f"e.{form}"
    if form == "csv":
        csv.write_csv(ORDERS, events)
    elif form == "parquet":
        pq.write_table(ORDERS, events)
    else:
        events = ds.dataset(ORDERS)
    with pytest.raises(DataError, match=f"no column 'type'.*\n.*\n.* as in --type {likely}$"):
        motet.run(events, f"RETURN COUNT(*) PATTERN {pattern}", time="at", time_unit="ms")


def test_without_queries_the_type_column_has_few_values(tmp_path: Path) -> None:
    csv.write_csv(ORDERS, tmp_path / "e.csv")
    with pytest.raises(DataError, match=r"as in --type status$"):
        motet.profile(tmp_path / "e.csv", time="at", time_unit="ms")


@pytest.mark.parametrize(
    ("dropped", "likely"), [([], "status"), (["status"], "code"), (["status", "code"], "open"), (["at"], "status")]
)
def test_texts_come_before_numbers_and_these_before_booleans(dropped: list[str], likely: str) -> None:
    assert find_likely_type(ORDERS.drop_columns(dropped), "at") == likely


def test_times_and_fractions_are_no_types() -> None:
    assert find_likely_type(pa.table({"at": [1, 2], "x": [0.5, 1.5]}), "at") is None
    assert find_likely_type(pa.table({"at": [1, 2], "x": [[1], [2]]}), "at") is None


DAY = dt.datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    ("values", "likely"),
    [
        ([DAY], "when"),
        ([DAY.date()], "when"),
        ([NOON], "when"),
        ([NOON * 1000], "when"),
        ([NOON * 10**9], "when"),
        ([NOON + 0.5], "when"),
        (["2024-01-01T12:00:00+02:00"], "when"),
        ([None, "2024-01-01"], "when"),
        (["01/Mar/2024:12:00:00 +0000"], "when"),
        (["3/14/2024 9:00 PM"], "when"),
        (["12-34"], "id"),
        ([17], "id"),
        (["soon"], "id"),
        ([None], "id"),
    ],
)
def test_the_time_column_is_the_one_with_times_of_our_days(values: list[Any], likely: str) -> None:
    size = len(values)
    assert find_likely_time(pa.table({"s": ["p"] * size, "id": range(size), "when": values})) == likely


def test_a_column_without_times_is_named_where_there_is_no_better_one() -> None:
    assert find_likely_time(pa.table({"s": ["p"]})) == "s"
    assert find_likely_time(pa.table({})) is None


@pytest.mark.parametrize("function", [motet.run, motet.plan, motet.profile])
def test_a_table_without_types_says_so_beside_other_missing_columns(function: Any) -> None:
    table = pa.table({"time": [1, 2], "status": ["A", "B"]})
    with pytest.raises(QueryError) as raised:
        function(table, "RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.x > 1 AND [k] WITHIN 5")
    assert [problem.message for problem in raised.value.diagnostics] == [
        "the events have no type column, and 'A' is not defined",
        "the data has no column 'x'",
        "the data has no column 'k'",
    ]


def test_the_name_of_a_derived_column_is_not_shown() -> None:
    table = pa.table({"time": [1, 2], "status": [1, 2]})
    with pytest.raises(DataError, match=r"no column 'k'\n  its columns: time, status$"):
        motet.profile(table, type="status", keys=["k"])
