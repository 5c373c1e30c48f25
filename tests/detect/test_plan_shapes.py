"""Whatever the tree by which a pattern is joined, the matches are the same; and the planner picks a good one."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import reduce
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.expression import Attribute, Comparison, Expression
from motet.model.names import rename_variables
from motet.model.pattern import And, Event, Not, Pattern, Seq
from motet.model.query import AllVariables, Query, Workload
from motet.model.window import TimeWindow
from motet.optimizer.builtin import EachPattern
from motet.optimizer.registry import register
from motet.optimizer.tree_search import choose_cheapest
from motet.options import Options
from motet.plans.detect.build import JoinSpec, JoinTree, PathScan, PlanTree, can_scan_paths, default_tree
from motet.plans.detect.cost import Rates
from motet.plans.detect.nodes import LeafNode
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.template.symbols import Symbol
from tests.comparison import assert_same_results
from tests.strategies import build_stream_table, streams


def random_tree(seed: int) -> EachPattern:
    """A planner that joins in any shape."""

    def choose(parts: JoinSpec) -> JoinTree:
        dice = random.Random(seed)
        trees: list[JoinTree] = list(range(len(parts.items)))
        while len(trees) > 1:
            dice.shuffle(trees)
            trees = [(trees[0], trees[1]), *trees[2:]]
        return trees[0]

    return EachPattern("any", lambda specs, rates: {spec: choose(spec) for spec in specs})


@st.composite
def joined_queries(draw: st.DrawFn) -> Query:
    """Four or five events in sequence and side by side, with conditions between any of them, and a NOT."""
    types = [draw(st.sampled_from("ABCD")) for _ in range(draw(st.integers(4, 5)))]
    events: list[Pattern] = [Event(type, f"v{at}") for at, type in enumerate(types)]
    match draw(st.integers(0, 3)):
        case 0:
            pattern: Pattern = Seq(tuple(events))
        case 1:
            pattern = Seq((events[0], And(tuple(events[1:3])), *events[3:]))
        case 2:
            pattern = And((Seq(tuple(events[:2])), Seq(tuple(events[2:]))))
        case _:
            pattern = Seq((*events[:2], Not(Event("N", "n")), *events[2:]))
    conditions: list[Expression] = []
    for _ in range(draw(st.integers(1, 3))):
        one, other = draw(st.lists(st.integers(0, len(types) - 1), min_size=2, max_size=2, unique=True))
        sign = draw(st.sampled_from(["<", "<=", ">", "!=", "="]))
        conditions.append(Comparison(sign, Attribute(f"v{one}", "x"), Attribute(f"v{other}", "x")))
    window = TimeWindow(draw(st.integers(4, 12)), draw(st.sampled_from([None, None, 2])), ticks=True)
    return Query("q", pattern, (AllVariables(),), tuple(conditions), window=window)


@given(query=joined_queries(), rows=streams(types=("A", "B", "C", "D", "N")), seed=st.integers(0, 10_000))
def test_every_tree_gives_the_results_of_plain_enumeration(query: Query, rows: list[Any], seed: int) -> None:
    workload = Workload((query,))
    note(to_text(workload))
    table = build_stream_table(rows)
    with (
        patch.dict("motet.optimizer.registry._OPTIMIZERS"),
        patch("motet.engine.detect.instances.MIN_ROWS_TO_INDEX", seed % 2),
        patch("motet.engine.detect.instances.BLOCK_ROWS", (1, 3, 1 << 16)[seed % 3]),
    ):
        register("any", "trees of any shape", joins=random_tree(seed))
        program = compile_workload(workload, EventSchema(table.schema), Options(optimizer=cast(Any, "any")))
        result = run_table(program, table).table
    assert_same_results(result, enumerate_table(workload, table))


def scan_beginnings(size: int) -> EachPattern:
    """A planner that scans the paths of the first items of sequences, of all or fewer, and joins others with them."""

    def choose(spec: JoinSpec) -> PlanTree:
        if not can_scan_paths(spec):
            return default_tree(spec)
        count = len(spec.items)
        scanned: PlanTree = PathScan(tuple(range(min(size, count))))
        return reduce(lambda tree, item: (tree, item), range(min(size, count), count), scanned)

    return EachPattern("any", lambda specs, rates: {spec: choose(spec) for spec in specs})


def run_scans(workload: Workload, table: pa.Table, size: int) -> pa.Table:
    """Run queries by scans of the paths of their first items."""
    with patch.dict("motet.optimizer.registry._OPTIMIZERS"):
        register("any", "paths of beginnings", joins=scan_beginnings(size))
        program = compile_workload(workload, EventSchema(table.schema), Options(optimizer=cast(Any, "any")))
        return run_table(program, table).table


@st.composite
def scanned_queries(draw: st.DrawFn) -> Query:
    """Draw a sequence in which neighbours may be compared, types come again, and events must be absent."""
    types = draw(st.lists(st.sampled_from("ABC"), min_size=2, max_size=4))
    parts: list[Any] = []
    conditions: list[Expression] = []
    for at, name in enumerate(types):
        if at and draw(st.booleans()):
            parts.append(Not(Event(draw(st.sampled_from("DN")), f"n{at}")))
        parts.append(Event(name, f"v{at}"))
        if at and draw(st.integers(0, 3)) == 0:
            sign = draw(st.sampled_from(["<", "=", "!="]))
            conditions.append(Comparison(sign, Attribute(f"v{at - 1}", "x"), Attribute(f"v{at}", "x")))
    window = TimeWindow(draw(st.integers(2, 12)), draw(st.sampled_from([None, None, 2])), ticks=True)
    group_by = draw(st.sampled_from([(), ("k",)]))
    return Query("q", Seq(tuple(parts)), (AllVariables(),), tuple(conditions), group_by, window=window)


@given(
    queries=st.lists(scanned_queries(), min_size=1, max_size=3),
    rows=streams(types=("A", "B", "C", "D", "N")),
    size=st.integers(2, 4),
    block=st.sampled_from([1, 3, 1 << 16]),
)
def test_paths_of_sequences_are_those_of_plain_enumeration(
    queries: list[Query], rows: list[Any], size: int, block: int
) -> None:
    workload = Workload(tuple(replace(query, name=f"q{at}") for at, query in enumerate(queries)))
    note(to_text(workload))
    table = build_stream_table(rows)
    with patch("motet.engine.detect.instances.BLOCK_ROWS", block):
        result = run_scans(workload, table, size)
    assert_same_results(result, enumerate_table(workload, table))


def test_an_absence_takes_no_path_that_came_to_a_step_before_it() -> None:
    events = pa.table({"time": [1, 2, 3, 4, 5], "type": list("ABNBC")})
    found = run_scans(parse("QUERY q RETURN * PATTERN SEQ(A a, NOT N n, B b, C c) WITHIN 10 s"), events, 3)
    assert [row["b"]["time"] for row in found.to_pylist()] == [2]


def parts_of(order: set[tuple[int, int]], tests: list[Expression], count: int = 3) -> JoinSpec:
    items = tuple(LeafNode(Symbol("ABCDEFGHIJKLMNO"[at])) for at in range(count))
    return JoinSpec(items, frozenset(order), frozenset(tests), frozenset(), 10)


def test_the_rarest_is_joined_first() -> None:
    rates = Rates({Symbol("A"): 1000.0, Symbol("B"): 1000.0, Symbol("C"): 10.0}, duration=100.0)
    test = Comparison("<", Attribute("0", "x"), Attribute("2", "x"))  # not of neighbours: no path scan
    tree = choose_cheapest(rates)(parts_of({(0, 1), (1, 2), (0, 2)}, [test]))
    assert isinstance(tree, tuple)
    assert any(isinstance(side, tuple) and 2 in side for side in tree)


def test_a_selective_condition_is_tested_first() -> None:
    test = Comparison("=", Attribute("0", "x"), Attribute("2", "x"))
    rates = Rates(
        {Symbol(t): 1000.0 for t in "ABC"},
        duration=100.0,
        selectivity={(rename_variables(test, {"2": "1"}), (Symbol("A"), Symbol("C"))): 0.001},
    )
    tree = choose_cheapest(rates)(parts_of({(0, 1), (1, 2), (0, 2)}, [test]))
    assert isinstance(tree, tuple)
    assert any(isinstance(side, tuple) and set(side) == {0, 2} for side in tree)


def test_many_items_are_planned_without_trying_everything() -> None:
    count = 15
    order = {(a, b) for a in range(count) for b in range(a + 1, count)}
    test = Comparison("<", Attribute("0", "x"), Attribute(str(count - 1), "x"))  # not of neighbours: no path scan
    tree = choose_cheapest(Rates())(parts_of(order, [test], count))
    assert _leaves(tree) == set(range(count))


def _leaves(tree: JoinTree) -> set[int]:
    return {tree} if isinstance(tree, int) else _leaves(tree[0]) | _leaves(tree[1])


def test_a_pattern_with_more_alternatives_than_are_listed_is_walked_as_one_graph() -> None:
    optional = ", ".join(f"A{at}? v{at}" for at in range(8))
    query = f"RETURN * PATTERN SEQ({optional}, B b) WHERE v0.x < b.x"
    rows = [{"time": 1, "type": "A0", "x": 1}, {"time": 2, "type": "A5", "x": 1}, {"time": 3, "type": "B", "x": 0}]
    rows.append({"time": 4, "type": "B", "x": 2})
    table = pa.Table.from_pylist(rows)
    workload = parse(query)
    program = compile_workload(workload, EventSchema(table.schema))
    assert program.detect_queries[0].is_compact
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))
