"""What is known before a run: the columns that are read, the types there are, and a type for columns without values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from motet.io.events import count_event_types, guess_types, list_columns, open_events
from motet.language import parse


def test_types_are_counted_and_nulls_passed_over(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("time,type\n1,A\n2,B\n3,\n4,A\n")
    assert count_event_types(open_events(tmp_path / "events.csv")) == {"A": 2, "B": 1}


def test_every_column_that_a_workload_names_is_read() -> None:
    workload = parse(
        "EVENT big AS size > 3\n"
        "RETURN COUNT(*), SUM(b.price) PATTERN SEQ(A a, B+ b, big) WHERE [key] AND a.x < 3 AND b.y < NEXT(b).y\n"
        "GROUP BY site\n"
        "RETURN a.z + 1 AS more PATTERN SEQ(A a, B+ b) WHERE AVG(b.w) > 1"
    )
    assert set(list_columns(workload)) == {"size", "price", "key", "x", "y", "site", "z", "w"}


@pytest.mark.parametrize(
    ("condition", "type"),
    [
        ("a.c > 3", pa.float64()),
        ("a.c * 2 > a.d", pa.float64()),
        ("a.c = 'x'", pa.string()),
        ("a.c LIKE 'x%'", pa.string()),
        ("a.c > TIMESTAMP '2024-01-01'", pa.timestamp("us")),
        ("a.c = true", pa.bool_()),
        ("a.c IS NULL", pa.string()),
    ],
)
def test_a_column_without_values_has_the_type_that_makes_sense(condition: str, type: pa.DataType) -> None:
    workload = parse(f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE {condition}")
    schema = pa.schema([("c", pa.null()), ("d", pa.int64())])
    assert guess_types(schema, workload) == pa.schema([("c", type), ("d", pa.int64())])


def test_a_sum_tells_a_number() -> None:
    workload = parse("RETURN SUM(B.c) PATTERN SEQ(A, B)")
    assert guess_types(pa.schema([("c", pa.null())]), workload).field("c").type == pa.float64()
