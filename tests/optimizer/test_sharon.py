"""The optimizer on random small workloads: candidates, options and plans against enumeration."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.baselines import sharon_exhaustive
from motet.compile import compile_workload
from motet.language import parse
from motet.optimizer.rates import equal_rates, estimate_window_rates
from motet.optimizer.sharon.benefit import BENEFIT_MODELS, PatternSplit, PrintedBenefit
from motet.optimizer.sharon.candidates import Candidate, Place, find_candidates
from motet.optimizer.sharon.graph import covered_positions
from motet.optimizer.sharon.report import SharonReport
from motet.optimizer.sharon.sharon import SharonOptions, optimize
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.sequences import PlainSequence, find_plain_sequences
from motet.schema import EventSchema
from motet.statistics.model import Statistics


def compiled(text: str) -> list[CompiledQuery]:
    workload = parse(text)
    queries = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    assert all(isinstance(query, CompiledQuery) for query in queries), queries
    return [query for query in queries if isinstance(query, CompiledQuery)]


def sequences_of(*patterns: str, rest: str = "WHERE [k] WITHIN 10 min SLIDE 1 min") -> list[CompiledQuery]:
    texts = (f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN SEQ({pattern})\n{rest}" for at, pattern in enumerate(patterns))
    return compiled("\n\n".join(texts))


@st.composite
def workloads(draw: st.DrawFn, most: int = 5, plain: bool = False) -> list[CompiledQuery]:
    """Queries over few types, so that much is in common, types repeat, and not all can be shared."""
    texts = []
    for number in range(draw(st.integers(2, most))):
        types = draw(st.lists(st.sampled_from("ABC"), min_size=1, max_size=5))
        parts: list[str] = []
        for at, type in enumerate(types):
            if at and not plain and draw(st.sampled_from([False, False, True])):
                parts.append(draw(st.sampled_from(["NOT N", "NOT M"])))
            parts.append(f"{type} x{at}")
        conditions = ["[k]"]
        returns = "COUNT(*)"
        window = "WITHIN 10 min SLIDE 5 min"
        if not plain:
            returns = draw(st.sampled_from(["COUNT(*)", f"SUM(x{len(types) - 1}.v)", "MIN(x0.v)", "MAX(x0.v)"]))
            window = draw(st.sampled_from([window, "WITHIN 20 min SLIDE 5 min", "WITHIN 20 min SLIDE 10 min"]))
            if draw(st.booleans()):
                conditions.append("x0.v > 3")
        pattern = ", ".join(parts)
        texts.append(
            f"QUERY q{number}\nRETURN {returns}\nPATTERN SEQ({pattern})\nWHERE {' AND '.join(conditions)} {window}"
        )
    return compiled("\n\n".join(texts))


@st.composite
def statistics(draw: st.DrawFn) -> Statistics:
    """Rates at which a window has from a tenth of an event to a handful."""
    return Statistics(given={type: draw(st.integers(1, 50)) / 6000 for type in "ABC"})


def common_runs(sequences: Sequence[PlainSequence]) -> set[tuple[object, ...]]:
    """Every run of at least two positions with its places, where at least two queries have it, by pairs of ends."""
    places: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for sequence in sequences:
        for begin, end in combinations(range(len(sequence) + 1), 2):
            run = sequence.steps[begin:end]
            if len(run) < 2:
                continue
            gaps = tuple(step.absent for step in run[1:])
            key = (sequence.kind, tuple(step.symbol for step in run), tuple(step.adds for step in run), gaps)
            places.setdefault(key, []).append((sequence.number, begin))
    return {(key[1], tuple(sorted(found))) for key, found in places.items() if len({number for number, _ in found}) > 1}


@settings(max_examples=300)
@given(workloads())
def test_candidates_are_all_runs_that_queries_of_one_kind_have_in_common(queries: list[CompiledQuery]) -> None:
    sequences, _ = find_plain_sequences(queries)
    found = find_candidates(sequences)
    assert len({(candidate.symbols, candidate.places) for candidate in found}) == len(found)
    assert {(candidate.symbols, candidate.places) for candidate in found} == common_runs(sequences)


def assert_valid(report: SharonReport, queries: Sequence[CompiledQuery], benefit: PrintedBenefit) -> None:
    """Definition 7, and that the score is what the plan brings."""
    covered = [place for segment in report.plan.segments for place in covered_positions(segment)]
    assert len(covered) == len(set(covered))
    by_run = {
        (judged.candidate.symbols, place): judged.candidate
        for judged in report.candidates
        for place in judged.candidate.places
    }
    score = 0.0
    for segment in report.plan.segments:
        assert len({number for number, _ in segment.places}) > 1
        assert list(segment.places) == sorted(segment.places)
        length = len(segment.symbols)
        for number, offset in segment.places:
            assert queries[number].symbols[offset : offset + length] == segment.symbols
        score += sum(benefit.gain(place, length) for place in segment.places)
        score -= benefit.cost(by_run[segment.symbols, segment.places[0]])
    assert report.score == pytest.approx(score)
    assert report.score <= report.bound * (1 + 1e-9) + 1e-9


@settings(max_examples=300)
@given(workloads(most=4, plain=True), st.none() | statistics())
def test_the_finder_the_exhaustive_search_and_the_packing_agree(
    queries: list[CompiledQuery], known: Statistics | None
) -> None:
    benefit = PrintedBenefit(equal_rates(queries) if known is None else estimate_window_rates(queries, known))
    finder = optimize(queries, known, SharonOptions(search="finder", seconds=None))
    assume(finder.options is not None and finder.options <= 14)
    packing = optimize(queries, known, SharonOptions(search="packing", seconds=None))
    relaxed = optimize(queries, known, SharonOptions(most_options=0, seconds=None))
    every = sharon_exhaustive.optimize(queries, known, SharonOptions("sharon-exhaustive", seconds=None))
    greedy = optimize(queries, known, SharonOptions("sharon-greedy"))
    for report in (finder, packing, relaxed, every, greedy):
        assert_valid(report, queries, benefit)
    assert every.method == "exhaustive"
    assert finder.method == "finder"
    assert finder.score == pytest.approx(every.score)
    assert packing.score == pytest.approx(every.score)
    assert relaxed.score == pytest.approx(every.score)
    assert finder.is_optimal
    assert packing.is_optimal
    assert relaxed.is_optimal
    assert greedy.score <= every.score * (1 + 1e-9)
    assert greedy.bound >= every.score * (1 - 1e-9)


@settings(max_examples=100)
@given(workloads(), st.none() | statistics())
def test_any_workload_gets_a_valid_plan(queries: list[CompiledQuery], known: Statistics | None) -> None:
    benefit = PrintedBenefit(equal_rates(queries) if known is None else estimate_window_rates(queries, known))
    greedy = optimize(queries, known, SharonOptions("sharon-greedy"))
    best = optimize(queries, known)
    for report in (greedy, best):
        assert_valid(report, queries, benefit)
    assert best.score >= greedy.score * (1 - 1e-9)
    assert best.is_optimal


def test_examples_1_to_3_what_sharing_the_end_of_a_pattern_costs_and_saves() -> None:
    """Figure 7: (A, B, C, D) from (A, B) and (C, D), with the events that it shows."""
    a, b, c, d = 2.0, 3.0, 2.0, 2.0
    split_pattern = PatternSplit((a, b), (c, d), ())
    assert split_pattern.not_shared == a * (a + b + c + d) == 18
    assert split_pattern.computation == a * (a + b) == 10
    assert split_pattern.combination == a * c == 4
    assert split_pattern.shared == 14
    assert split_pattern.cost == c * (c + d) == 8
    assert split_pattern.gain == 4


def test_the_benefit_of_a_run_in_the_middle() -> None:
    split_pattern = PatternSplit((2.0,), (3.0, 5.0), (7.0, 11.0))
    assert split_pattern.not_shared == 2 * 28
    assert split_pattern.computation == 2 * 2 + 7 * 18
    assert split_pattern.combination == 2 * 3 * 7
    assert split_pattern.gain == 56 - 130 - 42
    assert split_pattern.cost == 3 * 8


def test_the_benefit_of_a_whole_pattern_is_all_but_one_of_them() -> None:
    """Equal queries: nothing to combine, so sharing saves every computation but one."""
    report = optimize(sequences_of("A, B, C", "A, B, C", "A, B, C"))
    assert [len(segment.places) for segment in report.plan.segments] == [3]
    assert report.score == 2 * 3


def test_a_type_that_occurs_twice_is_counted_twice() -> None:
    queries = sequences_of("A, B, A, C", "A, B, A, D")
    benefit = PrintedBenefit(equal_rates(queries))
    assert benefit.gain((0, 0), 3) == 4 - 1 - 1
    report = optimize(queries)
    assert [[symbol.type for symbol in segment.symbols] for segment in report.plan.segments] == [["A", "B", "A"]]


def test_a_query_may_use_a_run_at_several_places_that_do_not_overlap() -> None:
    report = optimize(sequences_of("A, B, X, A, B, Y, A, B", "A, B, Z, A, B"))
    assert [segment.places for segment in report.plan.segments] == [((0, 0), (0, 3), (0, 6), (1, 0), (1, 3))]


def test_places_of_a_run_that_overlap_are_not_used_together() -> None:
    queries = sequences_of("A, A, A", "A, A, A, A", "X, A, A")
    report = optimize(queries)
    assert_valid(report, queries, PrintedBenefit(equal_rates(queries)))
    (candidate,) = [judged.candidate for judged in report.candidates if len(judged.candidate.symbols) == 2]
    assert candidate.places == ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    assert candidate.full_segment.places == ((0, 0), (1, 0), (1, 2), (2, 1))


def test_a_gap_that_is_guarded_differently_is_not_in_a_run() -> None:
    def runs(*patterns: str) -> list[list[str]]:
        sequences, _ = find_plain_sequences(sequences_of(*patterns))
        return [[symbol.type for symbol in candidate.symbols] for candidate in find_candidates(sequences)]

    assert runs("A, NOT N, B, C", "A, B, C") == [["B", "C"]]
    assert runs("A, NOT N, B, C", "A, NOT M, B, C") == [["B", "C"]]
    assert sorted(runs("A, NOT N, B, C", "X, A, NOT N, B, C"), key=len)[-1] == ["A", "B", "C"]


def test_queries_share_only_where_partition_panes_and_totals_agree() -> None:
    query = "QUERY {}\nRETURN {}\nPATTERN SEQ(A, B b, C)\n{}\n\n"

    def candidates(*clauses: tuple[str, str]) -> int:
        text = "".join(query.format(f"q{at}", *clause) for at, clause in enumerate(clauses))
        return len(find_candidates(find_plain_sequences(compiled(text))[0]))

    every = 3  # AB, ABC, BC
    window = "WHERE [k] WITHIN 10 min SLIDE 1 min"
    assert candidates(("COUNT(*)", window), ("COUNT(*)", window)) == every
    assert candidates(("COUNT(*)", window), ("COUNT(*)", "WHERE [k] WITHIN 7 min SLIDE 1 min")) == every
    assert candidates(("COUNT(*)", window), ("COUNT(*)", "WHERE [k] WITHIN 10 min SLIDE 5 min")) == 0
    assert candidates(("COUNT(*)", window), ("COUNT(*)", "WHERE [j] WITHIN 10 min SLIDE 1 min")) == 0
    assert candidates(("COUNT(*)", window), ("SUM(b.v)", window)) == 0
    assert candidates(("SUM(b.v)", window), ("SUM(b.v)", window)) == every
    assert candidates(("SUM(b.v)", window), ("SUM(b.w)", window)) == 0
    assert candidates(("MIN(b.v)", window), ("MAX(b.v)", window)) == 0
    assert candidates(("COUNT(*)", window), ("COUNT(*)", "WHERE [k] AND b.v > 3 WITHIN 10 min SLIDE 1 min")) == 0


def test_queries_that_are_no_plain_sequences_take_no_part_and_are_told_why() -> None:
    window = "WITHIN 10 min SLIDE 1 min"
    queries = compiled(
        f"QUERY a RETURN COUNT(*) PATTERN SEQ(A, B+) {window}\n"
        f"QUERY b RETURN COUNT(*) PATTERN SEQ(A, AND(B, C)) {window}\n"
        f"QUERY c RETURN COUNT(*) PATTERN SEQ(A, B, NOT C) {window}\n"
        f"QUERY d RETURN COUNT(*) PATTERN SEQ(A x, B y) WHERE x.v < y.v {window}\n"
        "QUERY e RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 min\n"
        f"QUERY f RETURN COUNT(*) PATTERN SEQ(A, B{{2}}) {window}\n"
        f"QUERY g RETURN COUNT(*) PATTERN SEQ(A, B, B) {window}\n"
    )
    report = optimize(queries)
    assert list(report.excluded) == [0, 1, 2, 3, 4]
    assert report.excluded[0] == report.excluded[1] == "its pattern is not a plain sequence"
    assert report.excluded[4] == "its window has no slide"
    assert [segment.places for segment in report.plan.segments] == [((5, 0), (6, 0))]


def test_without_time_the_greedy_plan_serves_and_says_how_far_it_may_be_from_the_best() -> None:
    queries = sequences_of(*(f"A, B, C, D, E, X{at}" for at in range(30)))
    options = SharonOptions(seconds=0.0, search="finder")
    for search in (optimize, sharon_exhaustive.optimize):
        report = search(queries, None, options)
        assert report.method == "greedy"
        assert report.notes
        assert report.score <= report.bound


def test_another_model_of_costs_makes_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long:
        """Only what is longer than two is worth anything."""

        def gain(self, place: Place, length: int) -> float:
            return length - 2.0

        def cost(self, candidate: Candidate) -> float:
            return 0.0

    queries = sequences_of("A, B, C, X", "A, B, C, Y", "A, B, Z", "W, A, B")
    printed = optimize(queries)
    assert [len(segment.symbols) for segment in printed.plan.segments] == [2]
    monkeypatch.setitem(BENEFIT_MODELS, "long", lambda queries, rates: Long())
    report = optimize(queries, None, SharonOptions(costs="long"))
    assert [len(segment.symbols) for segment in report.plan.segments] == [3]
    assert report.score == 2


def test_workers_get_the_plan_without_the_report() -> None:
    columns = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.string())])
    text = "\n".join(f"QUERY {q} RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 9 SLIDE 3" for q in "pq")
    program = compile_workload(parse(text), EventSchema(columns), Options(optimizer="sharon"))
    assert program.report is not None
    assert program.sharing == program.report.plan
    assert program.sharing.segments
    received = pickle.loads(pickle.dumps(program))
    assert received.sharing == program.sharing
    assert received.report is None
    assert compile_workload(parse(text), EventSchema(columns), Options(optimizer="prefix")).sharing is None


def test_no_queries_no_plan() -> None:
    reports = [optimize([], None, SharonOptions(variant)) for variant in ("sharon", "sharon-greedy")]
    for report in [*reports, sharon_exhaustive.optimize([])]:
        assert report.plan.segments == ()
        assert report.is_optimal
