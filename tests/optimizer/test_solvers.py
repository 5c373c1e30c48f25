"""Solvers against enumeration: independent sets and packings."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.sharon_exhaustive import search_exhaustively
from motet.optimizer.sharon.graph import reduce_graph
from motet.optimizer.solvers.common import Deadline, relative_gap
from motet.optimizer.solvers.independent_sets import (
    WeightedGraph,
    enumerate_independent_sets,
    find_heaviest_set,
    guaranteed_weight,
    gwmin,
)
from motet.optimizer.solvers.lagrange import relaxation_bound, solve_relaxation
from motet.optimizer.solvers.packing import Offer, Packing, solve_packing
from tests.optimizer.graphs import is_independent, make_graph


@st.composite
def graphs(draw: st.DrawFn) -> WeightedGraph:
    weights = draw(st.lists(st.integers(1, 40), max_size=10))
    pairs = list(combinations(range(len(weights)), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return make_graph(weights, edges)


def independent_sets(graph: WeightedGraph) -> list[tuple[int, ...]]:
    every = (some for size in range(len(graph) + 1) for some in combinations(range(len(graph)), size))
    return [some for some in every if is_independent(graph, some)]


@settings(max_examples=200)
@given(graphs())
def test_exact_searches_find_a_heaviest_independent_set(graph: WeightedGraph) -> None:
    heaviest = max(map(graph.weight, independent_sets(graph)))
    for search in (search_exhaustively, enumerate_independent_sets, find_heaviest_set):
        found = search(graph)
        assert found.complete
        assert is_independent(graph, found.vertices)
        assert found.weight == graph.weight(found.vertices) == heaviest


@settings(max_examples=200)
@given(graphs())
def test_the_greedy_set_is_as_heavy_as_guaranteed(graph: WeightedGraph) -> None:
    found = gwmin(graph)
    assert is_independent(graph, found.vertices)
    assert found.weight >= guaranteed_weight(graph) - 1e-9


@settings(max_examples=300)
@given(graphs())
def test_reduction_never_loses_the_optimum(graph: WeightedGraph) -> None:
    reduced = reduce_graph(graph)
    assert not reduced.conflict_free & reduced.kept
    assert not reduced.conflict_ridden.keys() & (reduced.conflict_free | reduced.kept)
    left = search_exhaustively(graph.induced_subgraph(reduced.kept))
    assert left.weight + graph.weight(reduced.conflict_free) == search_exhaustively(graph).weight


@given(graphs())
def test_levels_visit_every_independent_set_once(graph: WeightedGraph) -> None:
    assert enumerate_independent_sets(graph).visited == len(independent_sets(graph)) - 1


def test_a_search_out_of_time_says_that_it_is_not_complete() -> None:
    graph = make_graph([1.0] * 40, [])
    for search in (search_exhaustively, enumerate_independent_sets):
        found = search(graph, Deadline(0.0))
        assert not found.complete
    assert not enumerate_independent_sets(graph, most=100).complete
    assert relative_gap(30, 40) == 0.25
    assert relative_gap(0, 0) == 0


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    prices = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    offer = st.builds(
        lambda bundle, line, gain, begin, length: Offer(bundle, line, begin, begin + length, gain),
        st.integers(0, len(prices) - 1),
        st.integers(0, 3),
        st.integers(-2, 6),
        st.integers(0, 3),
        st.integers(1, 3),
    )
    return Packing(tuple(map(float, prices)), tuple(draw(st.lists(offer, max_size=9))))


def is_allowed(packing: Packing, taken: tuple[int, ...]) -> bool:
    offers = [packing.offers[at] for at in taken]
    used = [(offer.line, point) for offer in offers for point in range(offer.begin, offer.end)]
    lines: dict[int, set[int]] = {}
    for offer in offers:
        lines.setdefault(offer.bundle, set()).add(offer.line)
    return len(used) == len(set(used)) and all(len(served) > 1 for served in lines.values())


@settings(max_examples=200)
@given(packings())
def test_a_packing_is_worth_as_much_as_the_best_choice(packing: Packing) -> None:
    every = (some for size in range(len(packing.offers) + 1) for some in combinations(range(len(packing.offers)), size))
    best = max(packing.value(some) for some in every if is_allowed(packing, some))
    packed = solve_packing(packing)
    assert packed.offers is not None
    assert is_allowed(packing, tuple(sorted(packed.offers)))
    assert packed.value == packing.value(packed.offers) == pytest.approx(best)
    assert packed.gap <= 1e-6
    relaxed = solve_relaxation(packing)
    assert relaxed.offers is not None
    assert is_allowed(packing, tuple(sorted(relaxed.offers)))
    assert packing.value(relaxed.offers) == relaxed.value <= best <= relaxed.bound * (1 + 1e-9) + 1e-9
    assert best <= relaxation_bound(packing) * (1 + 1e-9) + 1e-9
