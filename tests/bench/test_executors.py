"""The published executors count what the oracle counts, whatever is shared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines import a_seq, gloria_snapshots, sharon_shared, two_step
from benchmarks.baselines.prepared import Counts, PreparedEvents, prepare
from motet.engine.workload_profile import compile_online_queries
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.gloria.gloria import GloriaOptions, build_plan, optimize
from motet.optimizer.gloria.graph import GloriaGraph
from motet.optimizer.gloria.template import build_templates
from motet.optimizer.sharon.candidates import find_candidates
from motet.plans.sequences import find_plain_sequences, find_repeated_sequences
from motet.plans.sharing import Segment, SharingPlan, TransitionPlan
from motet.statistics.model import Statistics
from motet.reference.tables import run_table as enumerate_table

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.string(), "x": pa.float64()})
SECOND = 1_000_000


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    """A short stream out of order, with ties and nulls."""
    row = st.tuples(
        st.sampled_from([*range(12), None]), st.sampled_from([*"AABBCCDN", None]), st.sampled_from(["p", "q", None]),
        st.sampled_from([1.0, 2.0, None]),
    )  # fmt: skip
    rows = draw(st.lists(row, max_size=16))
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


@st.composite
def sequences(draw: st.DrawFn, continuous: bool = False, absences: bool = True, repeated: bool = False) -> Workload:
    """Sequences over few types, so that they have much in common, of one window and partition."""
    clauses = ["", "GROUP BY k"] if continuous else ["", "WHERE [k]", "GROUP BY k", "WHERE [k] GROUP BY k"]
    clause = draw(st.sampled_from(clauses))
    window = draw(st.sampled_from(["5 s", "9 s"] if continuous else ["6 s SLIDE 2 s", "5 s SLIDE 5 s", "7 s SLIDE 3 s"]))
    texts = []
    for number in range(draw(st.integers(1, 4))):
        types = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=5))
        loop = draw(st.tuples(st.integers(0, 4), st.integers(0, 4))) if repeated else (1, 0)
        parts: list[str] = []
        for at, name in enumerate(types):
            if absences and at and draw(st.integers(0, 4)) == 4 and not loop[0] < at <= loop[1]:
                parts.append("NOT N")
            parts.append(f"{name} v{at}")
            if at >= loop[0] and at == min(loop[1], len(types) - 1):
                body = [parts.pop() for _ in range(at - loop[0] + 1)][::-1]
                parts.append(f"SEQ({', '.join(body)})+")
        extra = " v0.x > 1" if draw(st.integers(0, 3)) == 3 else ""
        where = clause if not extra else f"WHERE{extra} AND {clause[6:]}" if "WHERE" in clause else f"WHERE{extra} {clause}"
        texts.append(f"QUERY q{number} RETURN COUNT(*) PATTERN SEQ({', '.join(parts)}) {where} WITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def plans(draw: st.DrawFn, workload: Workload) -> SharingPlan:
    """Segments that do not overlap in any query."""
    found, _ = find_plain_sequences(compile_online_queries(workload, SECOND))
    taken: set[tuple[int, int]] = set()
    segments = []
    for candidate in draw(st.permutations(list(find_candidates(found)))):
        places = []
        for query, offset in candidate.places:
            cells = {(query, offset + step) for step in range(len(candidate.symbols))}
            if not cells & taken and draw(st.booleans()):
                taken |= cells
                places.append((query, offset))
        if places:
            segments.append(Segment(candidate.symbols, tuple(places)))
    return SharingPlan(tuple(segments))


def read_oracle(workload: Workload, table: pa.Table, prepared: PreparedEvents) -> dict[tuple[Any, ...], float]:
    """Return the oracle's counts by query, group and time."""
    groups = {query.query.name: query.query.group_by for query in prepared.queries}
    return {
        (
            row["query"],
            tuple(row[name] for name in groups[row["query"]]),
            SECOND * (row["window_start"] if row.get("window_start") is not None else row["time"]),
        ): row["COUNT(*)"]
        for row in enumerate_table(workload, table).to_pylist()
    }


def assert_counts(workload: Workload, table: pa.Table, found: Counts) -> None:
    assert found.rows() == read_oracle(workload, table, found.prepared)


@given(st.data(), sequences(), streams())
def test_a_seq_and_sharon_count_by_window(data: st.DataObject, workload: Workload, table: pa.Table) -> None:
    prepared = prepare(workload, table)
    plan = data.draw(plans(workload))
    for executor in (a_seq.run_alone(prepared), a_seq.share_prefixes(prepared), sharon_shared.run_plan(prepared, plan)):
        assert_counts(workload, table, executor.run())


@given(st.data(), sequences(continuous=True), streams())
def test_a_seq_counts_at_every_completion(data: st.DataObject, workload: Workload, table: pa.Table) -> None:
    prepared = prepare(workload, table)
    for executor in (a_seq.run_alone(prepared), a_seq.share_prefixes(prepared), two_step.TwoStep(prepared)):
        assert_counts(workload, table, executor.run())


@given(sequences(repeated=True), streams())
def test_two_steps_count_by_window(workload: Workload, table: pa.Table) -> None:
    assert_counts(workload, table, two_step.TwoStep(prepare(workload, table)).run())


@st.composite
def repetitions(draw: st.DrawFn) -> Workload:
    """Sequences with flat and nested repetitions, many of them common."""
    parts = ["A", "B", "C", "D", "A+", "B+", "SEQ(A, B)+", "SEQ(A, B)+", "SEQ(C, SEQ(A, B)+)+"]
    clause = draw(st.sampled_from(["", "WHERE [k]", "GROUP BY k"]))
    window = draw(st.sampled_from(["6 s SLIDE 2 s", "5 s SLIDE 5 s", "7 s SLIDE 3 s"]))
    texts = []
    for number in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=4))
        texts.append(f"QUERY q{number} RETURN COUNT(*) PATTERN SEQ({', '.join(chosen)}) {clause} WITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def transition_plans(draw: st.DrawFn, workload: Workload) -> TransitionPlan:
    """A plan that parts the queries of every transition as it comes, with snapshots of any state."""
    found, _ = find_repeated_sequences(compile_online_queries(workload, SECOND))
    graphs = []
    for template in build_templates(sequence for sequence in found if len(sequence) > 1 or sequence.back_edges):
        path = {}
        of_any = draw(st.integers(0, len(template.states) - 1))
        for pool in template.pools:
            part = {at: draw(st.integers(0, 2)) for at in range(len(template.queries)) if pool.queries >> at & 1}
            sets = (sum(1 << at for at, own in part.items() if own == number) for number in (1, 2))
            chosen = st.sampled_from([of_any, of_any, *pool.snapshot_states])
            path[pool.number] = tuple((queries, draw(chosen)) for queries in sets if queries.bit_count() > 1)
        graphs.append(GloriaGraph(template, [], path, 0.0, True))
    return build_plan(graphs)


@given(repetitions() | sequences(absences=False, repeated=True), streams())
def test_greta_counts_by_window(workload: Workload, table: pa.Table) -> None:
    prepared = prepare(workload, table)
    for running in (False, True):
        assert_counts(workload, table, gloria_snapshots.SnapshotGraph(prepared, own_running=running).run())


@given(st.data(), repetitions() | sequences(absences=False, repeated=True), streams())
def test_gloria_counts_by_window_whatever_is_shared(data: st.DataObject, workload: Workload, table: pa.Table) -> None:
    prepared = prepare(workload, table)
    plan = data.draw(transition_plans(workload))
    for running in (False, True):
        for own_running in (False, True):
            found = gloria_snapshots.SnapshotGraph(prepared, plan, running, own_running).run()
            assert_counts(workload, table, found)


@given(repetitions(), streams(), st.lists(st.integers(1, 60), min_size=4, max_size=4))
def test_gloria_counts_by_the_plans_of_its_optimizer(workload: Workload, table: pa.Table, rates: list[int]) -> None:
    known = Statistics(given={name: rate / 10 for name, rate in zip("ABCD", rates, strict=True)})
    for variant in ("gloria", "gloria-greedy"):
        report = optimize(compile_online_queries(workload, SECOND), known, GloriaOptions(variant, "printed"))
        found = gloria_snapshots.SnapshotGraph(prepare(workload, table), report.plan).run()
        assert_counts(workload, table, found)
