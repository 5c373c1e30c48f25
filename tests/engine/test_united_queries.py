"""Queries that differ only in what they return run as one, and give the results of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from motet.compile import Program, compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import GroupKey, Query, Workload
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query, pad_channels, unite_queries
from motet.plans.units import MergeCache, Strategy, plan_units
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.statistics.model import Statistics
from tests.comparison import assert_same_results
from tests.strategies import Dice, build_stream_table, draw_aggregates, streams, workloads

Rows = list[dict[str, Any]]

EVENTS = EventSchema(pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.int64(), "x": pa.float64()}))


@st.composite
def repetitive_workloads(draw: DrawFn) -> Workload:
    """Draw queries each of which comes several times, with other aggregates."""
    drawn = draw(workloads(min_queries=1, max_queries=3))
    dice = Dice(draw)
    queries: list[Query] = []
    for query in drawn.queries:
        for copy in range(dice.number(1, 4)):
            name = f"{query.name}_{copy}"
            keys = tuple(item for item in query.returns if isinstance(item, GroupKey))
            aggregates = draw_aggregates(dice, query.pattern, name)
            queries.append(replace(query, name=name, returns=(*keys, *aggregates), having=None))
    found = Workload(tuple(queries), drawn.definitions)
    compiled = [compile_query(number, found, 1) for number in range(len(queries))]
    kept = zip(queries, compiled, strict=True)
    return replace(found, queries=tuple(query for query, each in kept if isinstance(each, CompiledQuery)))


def unite_all(program: Program, windows: str) -> Program:
    """Let every query of a program run as one with those that differ in what they return."""
    branches = [replace(each, units=plan_units(each.queries, windows, unite=True)) for each in program.branches]
    return replace(program, branches=tuple(branches))


def pad_all(program: Program, windows: str) -> Program:
    """Let queries share machines whatever they return."""
    branches = [
        replace(each, units=plan_units(pad_channels(each.queries), windows, unite=False)) for each in program.branches
    ]
    return replace(program, branches=tuple(branches))


@pytest.mark.parametrize("windows", ["auto", "panes", "pairs", "stacks"])
@given(workload=repetitive_workloads(), rows=streams())
def test_united_queries_give_the_results_of_plain_enumeration(windows: str, workload: Workload, rows: Rows) -> None:
    note(to_text(workload))
    table = build_stream_table(rows)
    program = unite_all(compile_workload(workload, EventSchema(table.schema), Options(windows=windows)), windows)
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


@pytest.mark.parametrize("windows", ["auto", "stacks"])
@given(workload=repetitive_workloads(), rows=streams())
def test_queries_with_padded_channels_give_the_results_of_plain_enumeration(
    windows: str, workload: Workload, rows: Rows
) -> None:
    note(to_text(workload))
    table = build_stream_table(rows)
    program = pad_all(compile_workload(workload, EventSchema(table.schema), Options(windows=windows)), windows)
    shapes = [{unit.queries[0].channels.shape for unit in branch.units} for branch in program.branches]
    assert all(len(found) == 1 for found in shapes)
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


def compile_units(text: str, **options: Any) -> list[tuple[Strategy, list[str]]]:
    program = compile_workload(parse(text), EVENTS, Options(**options))
    units = [unit for branch in program.branches for unit in branch.units]
    assert all(len(unit.queries) == 1 for unit in units)
    return [(unit.strategy, [member.query.name for member in unit.reported]) for unit in units]


@pytest.mark.parametrize(
    ("strategy", "clauses"),
    [
        (Strategy.PANES, "PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s"),
        (Strategy.WINDOWS, "PATTERN SEQ(NOT B, A, B) WITHIN 4 s SLIDE 2 s"),
        (Strategy.STARTS, "PATTERN SEQ(A, B, NOT A) WITHIN 4 s"),
        (Strategy.STACKS, "PATTERN SEQ(A, B) WITHIN 4 s"),
        (Strategy.TRENDS, "PATTERN SEQ(A, B) WHERE A.x < B.x WITHIN 4 s"),
    ],
)
def test_one_pattern_with_several_aggregates_is_one_query_of_one_unit(strategy: Strategy, clauses: str) -> None:
    returns = ("COUNT(*)", "SUM(A.x)", "MIN(B.x)", "COUNT(*)")
    text = "\n".join(f"QUERY q{at} RETURN {each} {clauses}" for at, each in enumerate(returns))
    assert compile_units(text) == [(strategy, ["q0", "q1", "q2", "q3"])]


MIXED = """
QUERY counted RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 8 s SLIDE 4 s
QUERY summed RETURN SUM(d.x) PATTERN SEQ(A, B, D d) GROUP BY k WITHIN 4 s SLIDE 4 s
QUERY largest RETURN MAX(e.x) PATTERN SEQ(A, B, E e) GROUP BY k WITHIN 8 s SLIDE 4 s
QUERY repeated RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY k WITHIN 8 s SLIDE 4 s
"""


@pytest.mark.parametrize("per_second", [1, 30])
def test_queries_that_return_different_totals_share_a_machine_unless_counts_may_grow_large(per_second: int) -> None:
    rng = np.random.default_rng(3)
    size = 60 * per_second
    table = pa.table(
        {
            "time": np.arange(size) // per_second,
            "type": pa.array(list("ABCDE")).take(pa.array(rng.integers(0, 5, size))),
            "k": np.zeros(size, np.int64),
            "x": rng.integers(0, 9, size).astype(np.float64),
        }
    )
    workload, schema = parse(MIXED), EventSchema(table.schema)
    # As if each event came at a time of its own, so that a repetition has twice as many matches with every event.
    spread = Statistics(given=dict.fromkeys("ABCDE", per_second / 5))
    program = compile_workload(workload, schema, Options(statistics=spread))
    together = [{member.query.name for member in unit.reported} for unit in program.branches[0].units]
    if per_second == 1:
        assert together == [{"counted", "summed", "largest", "repeated"}]
        assert_same_results(run_table(program, table).table, enumerate_table(workload, table))
    else:
        assert {"counted", "summed", "largest"} in together
    (unit, *_) = program.branches[0].units
    weighed = {edge.target for edge in unit.merged.edges if edge.symbol.type in "DE"}
    assert weighed <= unit.merged.having_channels
    counts = {unit.merged.fold[edge.target] for edge in unit.merged.edges if edge.symbol.type in "AB"}
    assert not counts & unit.merged.having_channels


def test_a_cache_of_machines_tells_queries_from_those_that_stand_for_them() -> None:
    clauses = "PATTERN SEQ(A, B) WITHIN 4 s"
    workload = parse(f"QUERY one RETURN COUNT(*) {clauses} QUERY two RETURN SUM(A.x) {clauses}")
    queries = [query for query in (compile_query(at, workload, 1) for at in (0, 1)) if isinstance(query, CompiledQuery)]
    merge = MergeCache()
    for each in ([queries[0]], [pad_channels(queries)[0]], unite_queries(queries)):
        assert merge(each).queries == tuple(each)
        assert merge(each) is merge(each)


def test_pairs_run_several_aggregates_as_one() -> None:
    clauses = "PATTERN SEQ(A, B) WITHIN 40 s SLIDE 2 s"
    text = f"QUERY one RETURN COUNT(*) {clauses} QUERY two RETURN AVG(A.x) {clauses}"
    assert compile_units(text, windows="pairs") == [(Strategy.PAIRS, ["one", "two"])]


def test_queries_of_different_patterns_windows_or_groups_stay_apart() -> None:
    workload = parse(
        """
        QUERY first RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 4 s
        QUERY longer RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s
        QUERY narrower RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.x > 1 WITHIN 4 s
        QUERY other RETURN COUNT(*) PATTERN SEQ(B, A) WITHIN 4 s
        QUERY combined RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 4 s
        QUERY grouped RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 4 s
        QUERY same RETURN MIN(b.x) PATTERN SEQ(A a, B b) WITHIN 4 s
        """
    )
    queries = [compile_query(number, workload, 1) for number in range(7)]
    compiled = [query for query in queries if isinstance(query, CompiledQuery)]
    united = unite_queries(compiled)
    assert [len(query.reported) for query in united] == [2, 1, 1, 1, 1, 1]
    assert [member.query.name for member in united[0].reported] == ["first", "same"]
    assert united[0].channels.shape == (0, 0, 1)
    assert len(unite_queries(compiled, groups=lambda number: number)) == 7


@pytest.mark.parametrize("clauses", ["WITHIN 1000 s SLIDE 500 s", "WITHIN 1000 s"])
@pytest.mark.parametrize("counts", ["exact", "double"])
def test_counts_beyond_64_bits_are_the_same_alone_and_united(clauses: str, counts: str) -> None:
    size = 70
    times = np.arange(size) * 1_000_000
    table = pa.table({"time": times, "type": ["A"] * size, "k": [1] * size, "x": np.arange(size, dtype=float)})
    schema = EventSchema(table.schema)
    queries = [
        f"QUERY q{at} RETURN {each} PATTERN A+ {clauses}"
        for at, each in enumerate(("COUNT(*)", "COUNT(A)", "AVG(A.x)", "MAX(A.x)"))
    ]
    options = Options(counts=counts, time_unit="us")
    schema = EventSchema(table.schema, time_unit="us")
    together = unite_all(compile_workload(parse("\n".join(queries)), schema, options), "auto")
    found = run_table(together, table)
    alone = [run_table(compile_workload(parse(text), schema, options), table) for text in queries]
    for at, outcome in enumerate(alone):
        own = found.table.filter(pa.compute.equal(found.table["query"], f"q{at}"))
        assert_same_results(own.select(outcome.table.column_names), outcome.table)
    assert found.overflows == sum(outcome.overflows for outcome in alone)
    assert (found.overflows > 0) == (counts == "exact")
