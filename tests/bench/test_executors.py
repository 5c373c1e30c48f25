"""The published executors count what the oracle counts, whatever is shared."""

from __future__ import annotations

import re
from random import Random
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
from motet.plans.sharing import Segment, SharedTransition, SharingPlan, TransitionPlan
from motet.reference.tables import run_table as enumerate_table
from motet.statistics.model import Statistics

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), "k": pa.string(), "x": pa.float64()})
SECOND = 1_000_000


def dices() -> st.SearchStrategy[Random]:
    """Chance that is not drawn towards small cases, in which hardly anything matches."""
    return st.integers(0, 2**32).map(Random)


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    """A short stream out of order, with ties and nulls: dense, so that most patterns match."""
    dice = draw(dices())
    nulls = dice.choice([0.0, 0.1])
    choices = {"time": range(10), "type": "AABBCCDN", "k": "ppq", "x": (1.0, 2.0)}
    rows = [
        {name: None if dice.random() < nulls else dice.choice(some) for name, some in choices.items()}
        for _ in range(dice.choice([0, 8, 14, 20, 20]))
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@st.composite
def sequences(draw: st.DrawFn, continuous: bool = False, absences: bool = True, repeated: bool = False) -> Workload:
    """Sequences of one window and partition, cut out of one run of types so that they have much in common."""
    dice = draw(dices())
    run = [dice.choice("ABCD") for _ in range(8)]
    window = dice.choice(["5 s", "9 s"] if continuous else ["6 s SLIDE 2 s", "5 s SLIDE 5 s", "7 s SLIDE 3 s"])
    group = dice.choice(["", "GROUP BY k"])
    same_key = "[k]" if dice.random() < 0.5 and not (continuous and not group) else ""
    texts = []
    for number in range(dice.randrange(1, 5)):
        first = dice.randrange(4)
        types = [dice.choice("ABCD"), *run[first : first + dice.randrange(5)]][dice.randrange(2) :] or ["A"]
        loop = (dice.randrange(len(types)), dice.randrange(len(types))) if repeated else (1, 0)
        parts: list[str] = []
        for at, name in enumerate(types):
            if absences and at and dice.random() < 0.2 and not loop[0] < at <= loop[1]:
                parts.append("NOT N")
            parts.append(f"{name} v{at}")
            if loop[0] <= at == loop[1]:
                body = [parts.pop() for _ in range(at - loop[0] + 1)][::-1]
                parts.append(f"SEQ({', '.join(body)})+")
        conditions = " AND ".join(filter(None, (same_key, "v0.x > 1" if dice.random() < 0.2 else "")))
        where = f"WHERE {conditions} {group}" if conditions else group
        texts.append(f"QUERY q{number} RETURN COUNT(*) PATTERN SEQ({', '.join(parts)}) {where} WITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def plans(draw: st.DrawFn, workload: Workload) -> SharingPlan:
    """Segments that do not overlap in any query."""
    found, _ = find_plain_sequences(compile_online_queries(workload, SECOND))
    dice = draw(dices())
    taken: set[tuple[int, int]] = set()
    segments = []
    candidates = list(find_candidates(found))
    for candidate in dice.sample(candidates, len(candidates)):
        places = []
        for query, offset in candidate.places:
            cells = {(query, offset + step) for step in range(len(candidate.symbols))}
            if not cells & taken and dice.random() < 0.7:
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


@given(sequences(continuous=True), streams())
def test_a_seq_counts_at_every_completion(workload: Workload, table: pa.Table) -> None:
    prepared = prepare(workload, table)
    for executor in (a_seq.run_alone(prepared), a_seq.share_prefixes(prepared), two_step.TwoStep(prepared)):
        assert_counts(workload, table, executor.run())


@given(st.data(), sequences(continuous=True, absences=False), streams())
def test_chop_connect_counts_at_every_completion(data: st.DataObject, workload: Workload, table: pa.Table) -> None:
    plan = data.draw(plans(parse(re.sub(r"WITHIN (\d) s", r"WITHIN \1 s SLIDE \1 s", workload.text))))
    assert_counts(workload, table, sharon_shared.run_plan(prepare(workload, table), plan).run())


@given(sequences(repeated=True), streams())
def test_two_steps_count_by_window(workload: Workload, table: pa.Table) -> None:
    assert_counts(workload, table, two_step.TwoStep(prepare(workload, table)).run())


@st.composite
def repetitions(draw: st.DrawFn) -> Workload:
    """Sequences with flat and nested repetitions, many of them common."""
    parts = ["A", "B", "C", "D", "A+", "B+", "SEQ(A, B)+", "SEQ(A, B)+", "SEQ(C, SEQ(A, B)+)+"]
    dice = draw(dices())
    clause = dice.choice(["", "WHERE [k]", "GROUP BY k"])
    window = dice.choice(["6 s SLIDE 2 s", "5 s SLIDE 5 s", "7 s SLIDE 3 s"])
    run = dice.choices(parts, k=5)
    texts = []
    for number in range(dice.randrange(1, 5)):
        first = dice.randrange(3)
        chosen = [dice.choice("ABCD"), *run[first : first + dice.randrange(1, 4)]][dice.randrange(2) :]
        texts.append(f"QUERY q{number} RETURN COUNT(*) PATTERN SEQ({', '.join(chosen)}) {clause} WITHIN {window}")
    return parse("\n\n".join(texts))


@st.composite
def transition_plans(draw: st.DrawFn, workload: Workload) -> TransitionPlan:
    """A plan that parts the queries of every transition as it comes, with snapshots of any state."""
    found, _ = find_repeated_sequences(compile_online_queries(workload, SECOND))
    dice = draw(dices())
    graphs = []
    for template in build_templates(sequence for sequence in found if len(sequence) > 1 or sequence.back_edges):
        path = {}
        of_any = dice.randrange(len(template.states))
        for pool in template.pools:
            part = {at: dice.choice([0, 1, 1, 2]) for at in range(len(template.queries)) if pool.queries >> at & 1}
            sets = (sum(1 << at for at, own in part.items() if own == number) for number in (1, 2))
            options = [of_any, of_any, *pool.snapshot_states]
            path[pool.number] = tuple((queries, dice.choice(options)) for queries in sets if queries.bit_count() > 1)
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


def make_stream(text: str) -> pa.Table:
    """Return events written as `a1 b2`: a type in lower case and a time."""
    rows = [{"time": int(event[1:]), "type": event[0].upper(), "k": "p"} for event in text.split()]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_a_seq_counts_its_figure_6() -> None:
    workload = parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WITHIN 7 s")
    found = a_seq.run_alone(prepare(workload, make_stream("a1 b2 c3 a4 c5 b6 d7 c8 a9 d10"))).run()
    assert found.rows() == {("q", (), 7 * SECOND): 2, ("q", (), 10 * SECOND): 1}


def test_sharon_counts_its_figure_7() -> None:
    workload = parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B, C, D) WITHIN 9 s SLIDE 9 s")
    prepared = prepare(workload, make_stream("a1 b2 a3 c3 b4 b5 d5 c7 d8"))
    found = a_seq.ASeq(prepared, [[(0, 0, 2), (1, 2, 4)]]).run()
    assert found.rows() == {("q", (), 0): 7}
    # Both a1 and a3, each with A and B; c3 and c7, each with C and D; a snapshot of one START at c3, of two at c7.
    assert (found.objects["START events"], found.objects["counters"], found.objects["snapshot entries"]) == (4, 8, 3)


def test_gloria_shares_its_figure_4() -> None:
    texts = ["SEQ(C, SEQ(A, B)+, D)", "SEQ(C, SEQ(A, B)+)"]
    queries = [f"QUERY q{n} RETURN COUNT(*) PATTERN {text} WITHIN 9 s SLIDE 9 s" for n, text in enumerate(texts)]
    workload = parse("\n\n".join(queries))
    prepared = prepare(workload, make_stream("c0 a1 b2 a3 b4 d5"))
    c, a, b = (symbol for symbol in prepared.lines[1].symbols)
    shared = [(c, a, 0, 1), (a, b, 1, 2), (b, a, 2, 1)]
    plan = TransitionPlan(tuple(SharedTransition(x, y, c, ((0, m, n), (1, m, n))) for x, y, m, n in shared))
    alone = gloria_snapshots.SnapshotGraph(prepared).run()
    found = gloria_snapshots.SnapshotGraph(prepared, plan, running=False).run()
    assert found.rows() == alone.rows() == {("q0", (), 0): 4, ("q1", (), 0): 4}
    assert found.objects["snapshots"] == 1
    # Two queries: 2 * (a1 1, b2 1, a3 2, b4 2) edges and two to d5; shared half of the former.
    assert alone.objects["edges"] == 14
    assert found.objects["edges"] == 8
