"""State goes on when columns come or become wider, with a new start, a new host and a new log in between."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.schema import EventSchema
from motet.spark.operator_host import OperatorHost
from tests.comparison import assert_same_results
from tests.spark.test_operator_host import LAST, Simulation

QUERIES = {
    "panes": "QUERY q RETURN COUNT(*), SUM(A.n), MAX(B.n) PATTERN SEQ(A+, B) GROUP BY k WITHIN 60 s SLIDE 20 s",
    "combined": "QUERY q RETURN COUNT(*), MIN(A.n) PATTERN SEQ(A, NOT C) WHERE [k] WITHIN 40 s SLIDE 20 s",
    "continuous": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [k] WITHIN 30 s",
    "counted": "QUERY q RETURN COUNT(*), SUM(A.n) PATTERN SEQ(A, B) GROUP BY k WITHIN 6 EVENTS",
    "neighbours": "QUERY q RETURN COUNT(*) PATTERN A a+ WHERE a.n < NEXT(a).n GROUP BY k WITHIN 40 s SLIDE 20 s",
    "matches": "QUERY q RETURN * PATTERN SEQ(A a, B b) WHERE [k] AND a.n < b.n WITHIN 20 s",
    "paths": "QUERY q RETURN a PATTERN SEQ(A a+, B) WHERE [k] WITHIN 6 s",
    "policy": "QUERY q RETURN * PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 s SKIP TILL NEXT",
    "over matches": (
        "QUERY q RETURN COUNT(*), SUM(a.n) PATTERN SEQ(A a, B b) WHERE [k] AND a.n < b.n WITHIN 40 s SLIDE 20 s"
    ),
}


def make_part(number: int, kind: pa.DataType, **more: pa.DataType) -> pa.Table:
    """Ten events in 25 seconds, with keys and values of a type."""
    count = 10
    first = number * count
    rows = range(first, first + count)
    columns: dict[str, Any] = {
        "time": pa.array([at * 5 // 2 for at in rows]),
        "type": ["ABACB"[at * 3 % 5] for at in rows],
        "k": pa.array([at % 2 for at in rows], kind),
        "n": pa.array([at * 7 % 11 for at in rows], kind),
    }
    columns |= {name: pa.array([float(at) for at in rows], each) for name, each in more.items()}
    return pa.table(columns)


PARTS = [
    make_part(0, pa.int32()),
    make_part(1, pa.int32()),
    make_part(2, pa.int64(), extra=pa.float64()),
    make_part(3, pa.int64(), extra=pa.float64()),
    make_part(4, pa.int64(), extra=pa.float64(), last=pa.float64()),
    make_part(5, pa.int64(), extra=pa.float64(), last=pa.float64()),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("delay", [0, 30])
def test_columns_come_and_become_wider(query: str, delay: int) -> None:
    workload = motet.parse(QUERIES[query])
    simulation = Simulation(workload, PARTS[0].schema)
    found: list[pa.Table] = []
    for number, part in enumerate([*PARTS, PARTS[-1].slice(0, 0)]):
        if part.schema != simulation.schema.columns:
            simulation.schema = EventSchema(part.schema)
        simulation.start("prefix")  # again: another program, and a host that knows nothing
        ends = number == len(PARTS)
        watermark = LAST if ends else max(0, 1000 * (number * 25 - delay))
        found.append(simulation.results(simulation.feed(OperatorHost(), part, watermark)))
    events = pa.concat_tables(PARTS, promote_options="permissive")
    expected = motet.run(events, workload, engine="oracle")
    results = [fit(table, expected.schema) for table in found]
    assert len(expected) > 2
    assert_same_results(pa.concat_tables(results), expected)


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return results of an earlier start with the columns of the last, which are null there."""
    rows = [
        {name: add_fields(row.get(name), schema.field(name).type) for name in schema.names} for row in table.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema)


def add_fields(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, list):
        return [add_fields(each, kind.value_type) for each in value]
    if isinstance(value, dict):
        return {field.name: value.get(field.name) for field in kind}
    return value
