"""Sharon's running example, from figure 1 to the optimal plan, with the weights that the paper prints."""

from __future__ import annotations

import pytest

from benchmarks.baselines.sharon_exhaustive import search_exhaustively
from motet.language import parse
from motet.optimizer.sharon.candidates import Candidate, find_candidates
from motet.optimizer.sharon.graph import SharingOption, SharonGraph, build_sharon_graph, reduce_graph
from motet.optimizer.solvers.independent_sets import find_heaviest_set, guaranteed_weight, gwmin
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.sequences import find_plain_sequences
from motet.plans.sharing import Segment
from tests.optimizer.graphs import edges_of, is_independent

FIGURE_1 = """
q1: RETURN COUNT(*)
    PATTERN OakSt, MainSt, StateSt
    WHERE [vehicle] WITHIN 10 min SLIDE 1 min

q2: OakSt, MainSt, WestSt      q5: MainSt, StateSt
q3: LindenSt, ParkAve, OakSt, MainSt  q6: EastPark, ElmSt, ParkAve
q4: ParkAve, OakSt, MainSt, WestSt  q7: ElmSt, ParkAve, GreenHill
"""

TABLE_1 = {
    ("OakSt", "MainSt"): ["q1", "q2", "q3", "q4"],
    ("ParkAve", "OakSt"): ["q3", "q4"],
    ("ParkAve", "OakSt", "MainSt"): ["q3", "q4"],
    ("MainSt", "WestSt"): ["q2", "q4"],
    ("OakSt", "MainSt", "WestSt"): ["q2", "q4"],
    ("MainSt", "StateSt"): ["q1", "q5"],
    ("ElmSt", "ParkAve"): ["q6", "q7"],
}
WEIGHTS = (25, 9, 12, 15, 20, 8, 18)

P1, P2, P3, P4, P5, P6, P7 = range(7)


def compiled() -> list[CompiledQuery]:
    workload = parse(FIGURE_1)
    queries = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    assert all(isinstance(query, CompiledQuery) for query in queries)
    return [query for query in queries if isinstance(query, CompiledQuery)]


def candidates() -> list[Candidate]:
    """In the order of table I."""
    sequences, excluded = find_plain_sequences(compiled())
    assert not excluded
    found = {tuple(symbol.type for symbol in candidate.symbols): candidate for candidate in find_candidates(sequences)}
    assert found.keys() == TABLE_1.keys()
    return [found[pattern] for pattern in TABLE_1]


@pytest.fixture(scope="module")
def graph() -> SharonGraph:
    """Figure 4."""
    return build_sharon_graph(
        SharingOption(number, candidate.full_segment, weight)
        for number, (candidate, weight) in enumerate(zip(candidates(), WEIGHTS, strict=True))
    )


def test_table_1_lists_the_candidates_of_figure_1() -> None:
    name = {query.number: query.query.name for query in compiled()}
    queries = [[name[number] for number in candidate.queries] for candidate in candidates()]
    assert queries == list(TABLE_1.values())


def test_figure_4_has_the_printed_conflicts(graph: SharonGraph) -> None:
    assert [len(around) for around in graph.graph.neighbours] == [5, 3, 4, 3, 4, 1, 0]


def test_example_4_the_first_two_candidates_are_in_conflict(graph: SharonGraph) -> None:
    assert P2 in graph.graph.neighbours[P1]


def test_example_5_a_valid_plan_need_not_be_the_best(graph: SharonGraph) -> None:
    assert is_independent(graph.graph, {P2, P4})
    assert graph.graph.weight({P2, P4}) == 24 < graph.graph.weight({P1}) == 25


def test_example_7_the_guaranteed_weight_prunes_p3(graph: SharonGraph) -> None:
    assert guaranteed_weight(graph.graph) == pytest.approx(38.57, abs=0.005)
    reduced = reduce_graph(graph.graph)
    assert reduced.conflict_ridden.keys() == {P3}
    assert reduced.conflict_ridden[P3].highest_score == 38


def test_example_8_p7_is_free(graph: SharonGraph) -> None:
    assert reduce_graph(graph.graph).conflict_free == {P7}


def test_examples_9_and_10_ten_valid_plans_are_searched_for_the_best(graph: SharonGraph) -> None:
    reduced = reduce_graph(graph.graph)
    assert reduced.kept == {P1, P2, P4, P5, P6}
    found = find_heaviest_set(graph.subgraph(reduced.kept).graph)
    assert found.visited == 10
    order = sorted(reduced.kept)
    best = {order[v] for v in found.vertices} | reduced.conflict_free
    assert best == {P2, P4, P6, P7}
    assert graph.graph.weight(best) == 50


def test_every_exact_search_finds_the_same_plan_and_the_greedy_one_does_not(graph: SharonGraph) -> None:
    for search in (search_exhaustively, find_heaviest_set):
        found = search(graph.graph)
        assert (found.vertices, found.weight, found.complete) == ({P2, P4, P6, P7}, 50, True)
    assert search_exhaustively(graph.graph).visited == 2**7
    assert gwmin(graph.graph).vertices == {P1, P7}
    assert gwmin(graph.graph).weight == 43


def test_example_12_an_option_resolves_conflicts() -> None:
    p1, _, _, p4, p5, *_ = candidates()
    wanted = {query.number for query in compiled() if query.query.name in ("q1", "q3")}
    q1_and_q3 = Segment(p1.symbols, tuple(place for place in p1.places if place[0] in wanted))
    assert len(q1_and_q3.places) == 2
    graph = build_sharon_graph(
        [
            SharingOption(0, q1_and_q3, 1.0),
            SharingOption(3, p4.full_segment, 1.0),
            SharingOption(4, p5.full_segment, 1.0),
        ]
    )
    assert edges_of(graph.graph) == [(1, 2)]
