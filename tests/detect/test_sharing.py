"""Nodes are one for all queries that mean the same by them, and only for those."""

from __future__ import annotations

import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.plans.detect.build import PlanBuilder, list_nodes, pattern_order
from motet.plans.detect.nodes import JoinNode
from motet.plans.detect.query import DetectQuery, compile_detect
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results

COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("x", pa.int64()), ("y", pa.int64())])


def joins(*queries: str) -> int:
    """How many joins some queries have together."""
    workload = parse("\n".join(f"QUERY q{at}\n{query}" for at, query in enumerate(queries)))
    builder = PlanBuilder(pattern_order)
    planned = []
    for number in range(len(queries)):
        compiled = compile_detect(number, workload, 1_000_000)
        assert isinstance(compiled, DetectQuery)
        planned.append(builder.plan(compiled))
    nodes = list_nodes(planned)
    return sum(isinstance(node, JoinNode) for node in nodes)


BASE = "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 s"


@pytest.mark.parametrize(
    "same",
    [
        "RETURN * PATTERN SEQ(A one, B two) WHERE one.x < two.x WITHIN 5 s",
        "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 s",
        "RETURN a PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4 EVENTS",
    ],
    ids=["other names", "another window", "another kind of window"],
)
def test_equal_up_to_renaming_is_one(same: str) -> None:
    assert joins(BASE, same) == 1


@pytest.mark.parametrize(
    "other",
    [
        "RETURN * PATTERN SEQ(A a, B b) WHERE a.y < b.y WITHIN 5 s",
        "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x + 1 WITHIN 5 s",
        "RETURN * PATTERN SEQ(A a, B b) WHERE b.x < a.x WITHIN 5 s",
        "RETURN * PATTERN SEQ(B b, A a) WHERE a.x < b.x WITHIN 5 s",
        "RETURN * PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 5 s",
        "RETURN * PATTERN SEQ(A a, NOT C, B b) WHERE a.x < b.x WITHIN 5 s",
        "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.x > 3 WITHIN 5 s",
    ],
    ids=["attribute", "constant", "names swapped", "order", "operator", "absence", "local condition"],
)
def test_whatever_differs_is_another(other: str) -> None:
    assert joins(BASE, other) == 2


def test_a_longer_pattern_reads_what_a_shorter_one_finds() -> None:
    longer = "RETURN * PATTERN SEQ(A u, B v, C w) WHERE u.x < v.x AND v.y < w.y WITHIN 7 s"
    assert joins(BASE, longer) == 2


def test_shared_nodes_keep_windows_apart() -> None:
    texts = [
        f"QUERY q{at}\nRETURN * PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND b.x < c.x {window}"
        for at, window in enumerate(["WITHIN 2 s", "WITHIN 9 s", "WITHIN 3 EVENTS", "WITHIN 6 s SLIDE 2 s", ""])
    ]
    workload = parse("\n".join(texts))
    rows = [{"time": t, "type": "AB"[t % 2], "x": t * 3 % 7, "y": None} for t in range(14)]
    table = pa.Table.from_pylist(rows, schema=COLUMNS)
    result = run_table(compile_workload(workload, EventSchema(COLUMNS)), table).table
    assert_same_results(result, enumerate_table(workload, table))
    sizes = result.group_by("query").aggregate([([], "count_all")]).column("count_all").to_pylist()
    assert len(set(sizes)) > 2
