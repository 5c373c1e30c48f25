"""Any sharing plan, not only one that an optimizer picks, gives the results of no plan."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from benchmarks.baselines import sharon_exhaustive
from motet.compile import Program, compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.gloria.gloria import build_plan
from motet.optimizer.gloria.graph import GloriaGraph
from motet.optimizer.gloria.template import build_templates
from motet.optimizer.sharon.candidates import find_candidates
from motet.options import Options
from motet.plans.compiled import CompiledQuery
from motet.plans.cost import make_load
from motet.plans.sequences import find_plain_sequences, find_repeated_sequences
from motet.plans.sharing import Segment, Sharing, SharingPlan, TransitionPlan
from motet.plans.units import Strategy, estimate_cost
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.statistics.model import Statistics
from tests.comparison import assert_same_results

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.string(), "x": pa.float64()})


@st.composite
def sequences(draw: st.DrawFn) -> Workload:
    """Sequences over few types, so that they have much in common; some with absences, values, windows of their own."""
    same_window = draw(st.booleans())
    texts = []
    for number in range(draw(st.integers(2, 5))):
        types = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=6))
        parts: list[str] = []
        for at, name in enumerate(types):
            if at and draw(st.sampled_from([False, False, False, True])):
                parts.append("NOT N")
            repeated = draw(st.sampled_from(["", "", "", "", "+"]))
            parts.append(f"{name} {name.lower()}{at}{repeated}")
        last = f"{types[-1].lower()}{len(types) - 1}"
        returns = draw(st.sampled_from(["COUNT(*)", "COUNT(*)", f"SUM({last}.x), MAX({last}.x)", f"COUNT({last})"]))
        window = (
            "6 s SLIDE 2 s"
            if same_window
            else draw(st.sampled_from(["6 s SLIDE 2 s", "4 s SLIDE 2 s", "9 s SLIDE 3 s"]))
        )
        where = draw(st.sampled_from(["WHERE [k]", "WHERE [k]", f"WHERE [k] AND {types[0].lower()}0.x > 1", ""]))
        group = draw(st.sampled_from(["", "GROUP BY k"]))
        pattern = f"SEQ({', '.join(parts)})"
        texts.append(f"QUERY q{number}\nRETURN {returns}\nPATTERN {pattern}\n{where}\n{group}\nWITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def events(draw: st.DrawFn, types: str = "AABBCCDN") -> pa.Table:
    """A short stream out of order, with ties."""
    row = st.tuples(
        st.integers(0, 14), st.sampled_from(types), st.sampled_from("pq"), st.sampled_from([1.0, 2.0, None])
    )
    rows = draw(st.lists(row, max_size=14))
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


def program_of(workload: Workload, sharing: Sharing | None, **options: str) -> Program:
    return compile_workload(workload, EventSchema(SCHEMA), Options(**options), sharing=sharing)


def queries_of(workload: Workload) -> list[CompiledQuery]:
    return list(program_of(workload, None, optimizer="none").queries.values())


@st.composite
def plans(draw: st.DrawFn, workload: Workload) -> SharingPlan:
    """A valid plan: candidates in any order, each for some of its queries, as far as they do not overlap."""
    candidates = find_candidates(find_plain_sequences(queries_of(workload))[0])
    select_supported: set[tuple[int, int]] = set()
    segments = []
    for candidate in draw(st.permutations(candidates)):
        places = []
        for number, offset in draw(st.permutations(candidate.places)):
            covered = {(number, offset + step) for step in range(len(candidate.symbols))}
            if draw(st.booleans()) and not covered & select_supported:
                select_supported |= covered
                places.append((number, offset))
        if places:
            segments.append(Segment(candidate.symbols, tuple(sorted(places))))
    return SharingPlan(tuple(segments))


@given(workload=sequences(), table=events(), data=st.data())
def test_any_plan_gives_the_results_of_plain_enumeration(
    workload: Workload, table: pa.Table, data: st.DataObject
) -> None:
    plan = data.draw(plans(workload))
    note(repr([(segment.symbols, segment.places) for segment in plan.segments]))
    result = run_table(program_of(workload, plan, windows="pairs"), table).table
    assert_same_results(result, enumerate_table(workload, table))


OPTIMIZERS = (
    *("auto", "prefix", "sharon", "sharon-greedy", sharon_exhaustive.NAME),
    *("gloria", "gloria-greedy", "gloria-noprune"),
)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(workload=sequences(), table=events())
def test_no_optimizer_changes_a_result(optimizer: str, workload: Workload, table: pa.Table) -> None:
    alone = run_table(program_of(workload, None, optimizer="none"), table).table
    windows = "auto" if optimizer == "prefix" else "pairs"
    assert_same_results(run_table(program_of(workload, None, optimizer=optimizer, windows=windows), table).table, alone)


@st.composite
def repetitions(draw: st.DrawFn, windows: Sequence[str] = ()) -> Workload:
    """Sequences with flat and nested repetitions, many of them common, of different windows, groups and aggregates."""
    parts = ["A", "B", "C", "D", "A+", "B+", "SEQ(A, B)+", "SEQ(A, B)+", "SEQ(C, SEQ(A, B)+)+"]
    windows = windows or draw(st.sampled_from([["6 s SLIDE 2 s"], ["6 s SLIDE 2 s", "4 s SLIDE 2 s", "9 s SLIDE 3 s"]]))
    texts = []
    for number in range(draw(st.integers(2, 4))):
        chosen = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))
        absent = draw(st.sampled_from([[], [], ["NOT N"]]))
        returns = draw(st.sampled_from(["COUNT(*)", "COUNT(*)", "SUM(e.x), MIN(e.x)", "AVG(e.x)", "COUNT(e)"]))
        where = draw(st.sampled_from(["WHERE [k]", "WHERE [k] AND e.x > 1", ""]))
        group = draw(st.sampled_from(["", "GROUP BY k"]))
        window = draw(st.sampled_from(windows))
        pattern = f"SEQ({', '.join((*chosen, *absent, 'E e'))})"
        texts.append(f"QUERY q{number}\nRETURN {returns}\nPATTERN {pattern}\n{where}\n{group}\nWITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def transition_plans(draw: st.DrawFn, workload: Workload) -> TransitionPlan:
    """A plan that parts the queries of every transition as it comes."""
    found, _ = find_repeated_sequences(queries_of(workload))
    templates = build_templates(sequence for sequence in found if len(sequence) > 1)
    graphs = []
    for template in templates:
        path = {}
        for pool in template.pools:
            part = {at: draw(st.integers(0, 2)) for at in range(len(template.queries)) if pool.queries >> at & 1}
            sets = (sum(1 << at for at, own in part.items() if own == number) for number in (1, 2))
            path[pool.number] = tuple((queries, pool.entry) for queries in sets if queries.bit_count() > 1)
        graphs.append(GloriaGraph(template, [], path, 0.0, True))
    return build_plan(graphs)


@pytest.mark.parametrize("windows", ["auto", "pairs"])
@given(workload=repetitions() | sequences(), table=events("AABBCCDEN"), data=st.data())
def test_any_parting_of_transitions_gives_the_results_of_plain_enumeration(
    windows: str, workload: Workload, table: pa.Table, data: st.DataObject
) -> None:
    plan = data.draw(transition_plans(workload))
    result = run_table(program_of(workload, plan, windows=windows), table).table
    assert_same_results(result, enumerate_table(workload, table))


@pytest.mark.parametrize("costs", ["printed", "calibrated"])
@pytest.mark.parametrize("optimizer", ["gloria", "gloria-greedy"])
@given(workload=repetitions(), table=events("AABBCCDEN"))
def test_plans_for_repetitions_give_the_results_of_plain_enumeration(
    optimizer: str, costs: str, workload: Workload, table: pa.Table
) -> None:
    program = program_of(workload, None, optimizer=optimizer, costs=costs, windows="pairs")
    assert_same_results(run_table(program, table).table, enumerate_table(workload, table))


def sharing_of(workload: Workload, **segments: list[tuple[int, int]]) -> SharingPlan:
    """Segments by their types, such as `A_B`, and places."""
    symbols = {symbol.type: symbol for query in queries_of(workload) for symbol in query.symbols}
    return SharingPlan(
        tuple(Segment(tuple(symbols[t] for t in types.split("_")), tuple(at)) for types, at in segments.items())
    )


def pairs_kept(workload: Workload, plan: SharingPlan) -> int:
    units = [unit for branch in program_of(workload, plan, windows="pairs").branches for unit in branch.units]
    assert {unit.strategy for unit in units} == {Strategy.PAIRS}
    return sum(unit.pairs.size for unit in units if unit.pairs is not None)


def counts(workload: Workload, plan: SharingPlan, stream: str) -> dict[tuple[str, int], int]:
    """Counts by query and beginning of the window; 'A1' is an A at 1."""
    rows = re.findall(r"([A-Za-z]+)(\d+)", stream)
    table = pa.table({"time": [int(at) for _, at in rows], "type": [name for name, _ in rows]})
    program = compile_workload(workload, EventSchema(table.schema), Options(windows="pairs"), sharing=plan)
    found = run_table(program, table).table.to_pylist()
    return {(row["query"], row["window_start"]): row["COUNT(*)"] for row in found}


def workload_of(*patterns: str, window: str = "WITHIN 10 s SLIDE 2 s") -> Workload:
    texts = (
        f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN SEQ({pattern})\n{window}" for at, pattern in enumerate(patterns, 1)
    )
    return parse("\n\n".join(texts))


KINDLE = (
    "VKindle, BKindle, VCase, BCase",
    "VKindle, BKindle, VKindleFire",
    "VKindle, BKindle, VCase, BCase, VeBook, BeBook",
    "VKindle, BKindle, VCase, BCase, VLight, BLight",
    "ViPad, VKindleFire, VKindle, BKindle",
)


def test_prefixes_are_a_tree() -> None:
    # A-Seq, examples 6 and 7: nine types in the tree of four queries, and the start
    (unit,) = (
        unit for branch in program_of(workload_of(*KINDLE[:4]), None, windows="panes").branches for unit in branch.units
    )
    assert len(unit.merged.settled) == 1 + 9
    assert [len(compiled.symbols) for compiled in unit.queries] == [4, 3, 6, 6]


def test_a_run_is_shared_wherever_it_stands() -> None:
    # A-Seq, section 4.2: the fifth query has it at its end, the others at their beginning
    workload = workload_of(*KINDLE)
    plan = sharing_of(workload, VKindle_BKindle=[(0, 0), (1, 0), (2, 0), (3, 0), (4, 2)])
    # Of the three pairs of a run of two (to its first, to its second, from first to second), four copies are saved, and
    # of the pair that holds one match from the beginning, which all queries of a unit have in common.
    assert pairs_kept(workload, SharingPlan()) - pairs_kept(workload, plan) == 4 * (3 + 1)
    stream = "ViPad1 VKindleFire2 VKindle3 BKindle4 VCase5 BCase6 VKindle6 BKindle7 VLight8 BLight9"
    assert counts(workload, plan, stream) == counts(workload, SharingPlan(), stream)
    assert counts(workload, plan, stream)["q5", 0] == 3


def test_what_expires_takes_part_in_no_connection() -> None:
    # A-Seq, example 8: (A, B, C) connected with (D, E); where a1 has expired, only d9 follows a match, that of a5
    workload = workload_of("A, B, C, D, E", "D, E", window="WITHIN 10 s SLIDE 1 s")
    plan = sharing_of(workload, D_E=[(0, 3), (1, 0)])
    found = counts(workload, plan, "A1 B2 C3 D4 A5 B6 C8 D9 E10")
    assert found["q1", 1] == 1 + 4
    assert found["q1", 2] == 0 + 1


def test_three_parts_are_connected() -> None:
    # A-Seq, example 9: (A, B, C), (D, E) and (F, G), the last two shared with others
    workload = workload_of("A, B, C, D, E, F, G", "D, E, A", "B, F, G", window="WITHIN 12 s SLIDE 4 s")
    plan = sharing_of(workload, D_E=[(0, 3), (1, 0)], F_G=[(0, 5), (2, 1)])
    stream = "A1 B2 C3 D4 D5 E6 A6 E7 F8 F9 G10 G11"
    assert counts(workload, plan, stream) == counts(workload, SharingPlan(), stream)
    # One (A, B, C), four (D, E), four (F, G).
    assert counts(workload, plan, stream)["q1", 0] == 1 * 4 * 4


WINDOWS = ("6 s SLIDE 2 s", "4 s SLIDE 2 s", "9 s SLIDE 3 s", "60 s SLIDE 1 s", "600 s SLIDE 1 s", "10 s")


@given(
    workload=repetitions(WINDOWS) | sequences(),
    rates=st.none() | st.dictionaries(st.sampled_from("ABCDEN"), st.sampled_from([0.01, 1.0, 100.0]), min_size=1),
    keys=st.sampled_from([1, 1000]),
)
def test_left_to_itself_the_engine_takes_a_plan_that_no_other_undercuts(
    workload: Workload, rates: dict[str, float] | None, keys: int
) -> None:
    hour = 3_600
    counts = {} if rates is None else {name: int(rate * hour) for name, rate in rates.items()}
    known = Statistics(counts=counts, last=hour * 1_000_000, keys=("k",), partitions=keys) if counts else None
    schema = EventSchema(SCHEMA)
    (auto, *others) = (
        compile_workload(workload, schema, Options(optimizer=name, statistics=known)) for name in OPTIMIZERS
    )
    for other in others:
        for left, asked in zip(auto.branches, other.branches, strict=True):
            load = make_load(known, asked.partition)
            assert left.estimates[left.chosen] <= asked.estimates[asked.chosen] * (1 + 1e-9)
            assert estimate_cost(asked.units, load) == asked.estimates[asked.chosen]
