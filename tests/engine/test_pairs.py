"""Totals between pairs of nodes: loops over several types, what each query needs, and what an event costs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Workload
from motet.optimizer.gloria.gloria import build_plan
from motet.optimizer.gloria.graph import GloriaGraph
from motet.optimizer.gloria.template import build_templates
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.machine import merge_queries
from motet.plans.pairs import Pairs, encode_pairs, find_obstacle_to_pairs, merge_pairs
from motet.plans.sequences import find_repeated_sequences
from motet.plans.sharing import Grouping, ShareKey, Sharing, TransitionPlan, share_all
from motet.plans.units import Strategy, Unit
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.growth import measure_cpu_times

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.string(), "x": pa.float64()})
WINDOWS = ("6 s SLIDE 2 s", "4 s SLIDE 2 s", "9 s SLIDE 3 s", "6 s SLIDE 4 s")


@st.composite
def loops(draw: st.DrawFn, names: Iterator[int], depth: int = 2) -> str:
    """Draw a repetition of one type, or of two or three parts, with an absence between some."""
    parts = []
    for at in range(draw(st.integers(1, 3))):
        if at and draw(st.sampled_from([False, False, True])):
            parts.append("NOT N")
        if depth and draw(st.sampled_from([False, False, True])):
            parts.append(draw(loops(names, depth - 1)))
        else:
            parts.append(f"{draw(st.sampled_from('ABC'))} v{next(names)}{draw(st.sampled_from(['', '', '+']))}")
    return f"SEQ({', '.join(parts)})+"


@st.composite
def loop_workloads(draw: st.DrawFn, window: str | None = None, returns: str | None = None) -> Workload:
    """Draw queries with loops over several types, flat and nested, many of them common."""
    common = draw(loops(count(100)))
    texts = []
    for number in range(draw(st.integers(1, 4))):
        names = count(1)
        shared = draw(st.booleans())
        body = common if shared else draw(loops(names))
        before = draw(st.sampled_from([[], ["C"], ["D", "NOT N"]]))
        parts = [*before, body, *draw(st.sampled_from([[], ["NOT N", "D"], ["D"]]))]
        name = f"v{draw(st.sampled_from([100] if shared else [1, next(names) - 1]))}"
        asked = ["COUNT(*)", "COUNT(*)", f"COUNT({name})", f"SUM({name}.x), MIN({name}.x)", f"AVG({name}.x)"]
        where = draw(st.sampled_from(["WHERE [k]", ""]))
        texts.append(
            f"QUERY q{number}\nRETURN {returns or draw(st.sampled_from(asked))}\nPATTERN SEQ({', '.join(parts)})\n"
            f"{where}\nWITHIN {window or draw(st.sampled_from(WINDOWS))}"
        )
    return parse("\n\n".join(texts))


@st.composite
def events(draw: st.DrawFn) -> pa.Table:
    """Draw a short stream out of order, with ties."""
    x = st.sampled_from([1.0, 2.5, None])
    row = st.tuples(st.integers(0, 11), st.sampled_from("AAABBBCCDN"), st.sampled_from("pq"), x)
    rows = draw(st.lists(row, max_size=12))
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


def compile_by_pairs(workload: Workload, sharing: Sharing | None = None) -> Program:
    """Compile a workload, and check that pairs run all of it."""
    program = compile_workload(workload, EventSchema(SCHEMA), Options(windows="pairs"), sharing=sharing)
    assert {unit.strategy for unit in units_of(program)} == {Strategy.PAIRS}
    return program


def units_of(program: Program) -> list[Unit]:
    return [unit for branch in program.branches for unit in branch.units]


def queries_of(workload: Workload) -> list[CompiledQuery]:
    return list(compile_by_pairs(workload).queries.values())


def pairs_of(program: Program) -> Pairs:
    (unit,) = units_of(program)
    assert unit.pairs is not None
    return unit.pairs


@given(workload=loop_workloads(), table=events())
def test_loops_over_several_types_give_the_results_of_plain_enumeration(workload: Workload, table: pa.Table) -> None:
    note(to_text(workload))
    assert_same_results(run_table(compile_by_pairs(workload), table).table, enumerate_table(workload, table))


@st.composite
def transition_plans(draw: st.DrawFn, queries: list[CompiledQuery]) -> TransitionPlan:
    """Draw a plan that shares each transition among some of its queries."""
    found, _ = find_repeated_sequences(queries)
    graphs = []
    for template in build_templates(sequence for sequence in found if len(sequence) > 1):
        path: dict[int, tuple[tuple[int, int], ...]] = {}
        for pool in template.pools:
            part = sum(1 << at for at in range(len(template.queries)) if pool.queries >> at & 1 and draw(st.booleans()))
            path[pool.number] = ((part, pool.entry),) if part.bit_count() > 1 else ()
        graphs.append(GloriaGraph(template, [], path, 0.0, True))
    return build_plan(graphs)


@given(workload=loop_workloads(), table=events(), data=st.data())
def test_any_sharing_of_loops_gives_the_results_of_plain_enumeration(
    workload: Workload, table: pa.Table, data: st.DataObject
) -> None:
    note(to_text(workload))
    queries = queries_of(workload)
    labels = [(query.number, data.draw(st.integers(0, 1))) for query in queries]
    candidates: list[Sharing] = [Grouping(tuple(labels)), data.draw(transition_plans(queries))]
    plan = data.draw(st.sampled_from(candidates))
    assert_same_results(run_table(compile_by_pairs(workload, plan), table).table, enumerate_table(workload, table))


def assert_counts_are_right(pattern: str, stream: str) -> None:
    """Run a pattern over one event of these types each second, in windows of three panes of four seconds."""
    size = len(stream)
    table = pa.table([range(size), list(stream), ["p"] * size, [1.0] * size], schema=SCHEMA)
    workload = parse(f"QUERY q RETURN COUNT(*) PATTERN {pattern} WITHIN 12 s SLIDE 4 s")
    assert_same_results(run_table(compile_by_pairs(workload), table).table, enumerate_table(workload, table))


@pytest.mark.parametrize(
    "pattern",
    ["SEQ(A, A)+", "SEQ(A, B, A)+", "SEQ(A, SEQ(A, A)+)+", "SEQ(A, A+, NOT N, A)+", "OR(A a, A b)+", "OR(A a, A*){2,}"],
)
def test_a_type_that_leads_round_a_loop_reads_no_total_it_has_changed(pattern: str) -> None:
    assert_counts_are_right(pattern, "AABABAANAABA" * 3)


@pytest.mark.parametrize("pattern", ["SEQ(C, NOT N, SEQ(A, B)+)", "SEQ(SEQ(C, A)+, NOT N, B)", "SEQ(C, A, NOT N, B)+"])
def test_an_absence_rules_out_what_earlier_panes_hold(pattern: str) -> None:
    assert_counts_are_right(pattern, "CABAANCABBABCABABABN")


def merge_some(queries: list[CompiledQuery], share_key: ShareKey) -> Pairs:
    return merge_pairs(merge_queries(queries), share_key)


@given(data=st.data())
def test_some_of_the_queries_need_the_union_of_their_members(data: st.DataObject) -> None:
    workload = data.draw(loop_workloads("6 s SLIDE 2 s", "COUNT(*)"))
    note(to_text(workload))
    queries = queries_of(workload)
    share_key = data.draw(st.sampled_from([share_all, data.draw(transition_plans(queries)).share_key()]))
    whole = merge_some(queries, share_key)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(queries))), min_size=1)))
    part = merge_some([queries[at] for at in chosen], share_key)
    members = np.unique(np.concatenate([whole.members[at] for at in chosen]))
    rows = np.unique(np.concatenate([whole.row_members[at] for at in chosen]))
    assert part.size == len(members)
    assert part.steps.shape[1] == np.isin(whole.steps[3], members).sum()
    assert part.rows == len(rows)
    assert sum(map(len, part.joins)) == sum(len(whole.joins[row]) for row in rows)
    assert part.unmerged_size == sum(merge_some([queries[at]], share_key).unmerged_size for at in chosen)


@given(workload=loop_workloads("6 s SLIDE 2 s", "COUNT(*)"))
def test_paths_are_shortest_ways_to_each_pair(workload: Workload) -> None:
    pairs = merge_some(queries_of(workload), share_all)
    carried = pairs.moves[:, pairs.moves[2] >= 0]
    arcs = [*pairs.steps[[0, 2, 3]].T.tolist(), *carried.T.tolist()]
    length = dict.fromkeys(pairs.starts.tolist(), 0)
    waiting = deque(length)
    while waiting:
        at = waiting.popleft()
        for _, source, target in arcs:
            if source == at and target not in length:
                length[target] = length[at] + 1
                waiting.append(target)
    for pair in range(pairs.size):
        path = pairs.path_symbols[pairs.path_offsets[pair] : pairs.path_offsets[pair + 1]].tolist()
        assert len(path) == length[pair]
        reached = set(pairs.starts.tolist())
        for symbol in path:
            reached = {target for own, source, target in arcs if own == symbol and source in reached}
        assert pair in reached


def compile_patterns(*patterns: str, window: str = "20 s SLIDE 5 s") -> Program:
    texts = (f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {p}\nWHERE [k]\nWITHIN {window}" for at, p in enumerate(patterns))
    return compile_by_pairs(parse("\n\n".join(texts)))


def test_a_loop_is_kept_once_wherever_it_stands() -> None:
    one = pairs_of(compile_patterns("SEQ(C, SEQ(A, B)+, D)"))
    # From the start, C, A and B to each that follows, D to itself: 1 + 2 + 3 + 3 + 5, but the start, C and D lead to
    # themselves by nothing, and A to A is what B to B is: one round after the other, with its own match to begin with.
    assert one.unmerged_size == 1 + 2 + 4 + 4 + 5
    two = pairs_of(compile_patterns("SEQ(C, SEQ(A, B)+, D)", "SEQ(E, SEQ(A, B)+, F)"))
    loop = np.intersect1d(two.members[0], two.members[1])
    # What is within the loop is common: the empty match, from before it to A and to B, between A and B and back.
    assert len(loop) == 1 + 2 + 4
    assert two.size == 2 * one.size - len(loop)


FIGURE_1 = (
    "SEQ(Request, SEQ(Pickup, Travel)+, Delivery)",
    "SEQ(AppOrder, Request, SEQ(Pickup, Travel)+, Delivery)",
    "SEQ(AppOrder, Request, SEQ(Pickup, Travel)+, Cancel)",
)


def test_figure_1_of_gloria_runs_as_it_was_planned() -> None:
    schema = pa.schema(
        {
            "time": pa.int64(),
            "type": pa.string(),
            "driver": pa.int64(),
            "district": pa.string(),
            "duration": pa.float64(),
        }
    )
    types = ["AppOrder", "Request", "Pickup", "Travel", "Delivery", "Cancel"]
    rng = np.random.default_rng(1)
    size = 60
    drawn = [rng.integers(0, 50 * 60, size), rng.choice(types, size), rng.integers(0, 3, size)]
    drawn += [rng.choice(["north", "south"], size), rng.integers(1, 20, size).astype(np.float64)]
    table = pa.table(drawn, schema=schema)
    workload = parse(
        "\n\n".join(
            f"QUERY q{at}\nRETURN SUM(Travel.duration)\nPATTERN {pattern}\nWHERE [driver]\nGROUP BY district\n"
            "WITHIN 20 min SLIDE 5 min"
            for at, pattern in enumerate(FIGURE_1, 1)
        )
    )
    expected = enumerate_table(workload, table)
    kept = {}
    for optimizer in ("none", "gloria", "gloria-greedy"):
        options = Options(optimizer=optimizer, windows="pairs", costs="printed")
        program = compile_workload(workload, EventSchema(schema), options)
        assert_same_results(run_table(program, table).table, expected)
        sizes = [unit.pairs.size for unit in units_of(program) if unit.pairs is not None]
        kept[optimizer] = (len(sizes), sum(sizes))
    # Each query by itself; then all in one unit, which keeps fewer pairs, as many as the plan leaves.
    assert kept["none"] == (3, 14 + 19 + 19)
    assert kept["gloria"][0] == kept["gloria-greedy"][0] == 1
    assert len(set(kept.values())) == 3
    assert max(kept["gloria"][1], kept["gloria-greedy"][1]) < kept["none"][1]


GROWTH = ("SEQ(C, SEQ(A, B)+, D)", "SEQ(D, SEQ(A, B)+, C)", "SEQ(A, B, C, D)", "SEQ(C, SEQ(SEQ(A, B)+, C)+)")


def test_twice_the_window_costs_an_event_no_more() -> None:
    programs = [compile_patterns(*GROWTH, window=f"{within} s SLIDE 5 s") for within in (20, 40)]
    codes = []
    for program in programs:
        (unit,) = units_of(program)
        classes = [frozenset({symbol}) for symbol in sorted(unit.merged.symbols, key=str)]
        codes.append(encode_pairs(pairs_of(program), classes, ()))
    assert np.array_equal(codes[0], codes[1])

    # Of each key and type sixty events in a pane.
    rng = np.random.default_rng(1)
    size = 100_000
    times, keys = np.sort(rng.integers(0, 100, size)), rng.integers(0, 20, size).astype(str)
    table = pa.table([times, rng.choice(list("ABCD"), size), keys, np.ones(size)], schema=SCHEMA)
    first, second = measure_cpu_times(*(partial(run_table, program, table) for program in programs))
    assert second < 1.5 * first


@pytest.mark.parametrize(
    ("asked", "obstacle"),
    [
        ("SEQ(A, B) WITHIN 10 s SLIDE 5 s", None),
        ("SEQ(A, B) WITHIN 10 s SLIDE 10 s", "one window open at a time"),
        ("SEQ(A, B)", "one window open at a time"),
        ("SEQ(A, B) WITHIN 10 s", "reports at every completion"),
        ("SEQ(A, B) WITHIN 10 EVENTS", "window counts events"),
        ("SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s SLIDE 5 s", "compare neighbouring events"),
        ("AND(A, SEQ(A, B)) WITHIN 10 s SLIDE 5 s", "one event may take two steps"),
    ],
)
def test_what_keeps_pairs_from_running_a_query_is_stated(asked: str, obstacle: str | None) -> None:
    compiled = compile_query(0, parse(f"QUERY q RETURN COUNT(*) PATTERN {asked}"), 1)
    assert isinstance(compiled, CompiledQuery)
    found = find_obstacle_to_pairs(compiled)
    assert found is None if obstacle is None else obstacle in str(found)
