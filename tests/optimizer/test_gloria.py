"""The Gloria optimizer on random small workloads: graphs against enumeration, plans against execution."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet.language import parse
from motet.optimizer.gloria.costs import COST_MODELS
from motet.optimizer.gloria.gloria import GloriaOptions, optimize, reweigh
from motet.optimizer.gloria.graph import GloriaGraph, grow_graph, path_weight, reuse_nodes
from motet.optimizer.gloria.nodes import GraphWeights, SearchAborted, generate_greedy_node, generate_paper_nodes
from motet.optimizer.gloria.template import Template, build_templates
from motet.optimizer.rates import PositionRates, equal_rates
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.sequences import find_repeated_sequences
from motet.statistics.model import Statistics
from tests.optimizer.every_gloria_plan import cost_of, every_plan
from tests.optimizer.snapshots import replay

MOST_PLANS = 12  # of sharing: queries beyond the first, over all pools, for every plan to be looked at


def compiled(*patterns: str, rest: str = "WITHIN 10 min SLIDE 1 min") -> list[CompiledQuery]:
    texts = (f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {pattern}\n{rest}" for at, pattern in enumerate(patterns))
    workload = parse("\n\n".join(texts))
    queries = [compile_query(number, workload, 1) for number in range(len(patterns))]
    return [query for query in queries if isinstance(query, CompiledQuery)]


@st.composite
def sequences(draw: st.DrawFn, most: int = 4) -> list[CompiledQuery]:
    """Sequences that follow common runs, part and meet again; types may repeat."""
    patterns = []
    for _ in range(draw(st.integers(2, most))):
        types = draw(st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=4))
        in_order = draw(st.sampled_from([True, True, False]))
        patterns.append(f"SEQ({', '.join(sorted(set(types)) if in_order and len(set(types)) > 1 else types)})")
    return compiled(*patterns)


@st.composite
def repetitions(draw: st.DrawFn) -> list[CompiledQuery]:
    """Sequences with flat and nested repetitions, common ones among them."""
    parts = ["A", "B", "C", "A+", "SEQ(A, B)+", "SEQ(A, B)+", "SEQ(C, SEQ(A, B)+)+"]
    patterns = []
    for _ in range(draw(st.integers(2, 4))):
        patterns.append(f"SEQ({', '.join(draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)))}, D)")
    return compiled(*patterns)


def rates_for(draw_from: st.DataObject, queries: Sequence[CompiledQuery]) -> PositionRates:
    events = {type: draw_from.draw(st.sampled_from([1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0])) for type in "ABCDE"}
    return {query.number: tuple(events[symbol.type] for symbol in query.symbols) for query in queries}


def templates(queries: Sequence[CompiledQuery]) -> list[Template]:
    found, excluded = find_repeated_sequences(queries)
    assert not excluded
    return build_templates(found)


def grow_fully(template: Template, weights: GraphWeights, prune: bool = True) -> GloriaGraph:
    """The graph with all nodes that can matter, where these are not too many."""
    try:
        return grow_graph(template, weights, prune=prune)
    except SearchAborted:
        assume(False)
        raise


@pytest.mark.parametrize("model", ["printed", "calibrated"])
@settings(max_examples=200)
@given(queries=sequences(), data=st.data())
def test_the_path_weighs_what_the_best_of_all_plans_costs(
    model: str, queries: list[CompiledQuery], data: st.DataObject
) -> None:
    rates = rates_for(data, queries)
    for template in templates(queries):
        assume(sum(pool.queries.bit_count() ** 2 - 1 for pool in template.pools) <= 3 * MOST_PLANS)
        costs = COST_MODELS[model](template, rates)
        weights = GraphWeights(costs)
        graph = grow_fully(template, weights)
        least, _, plans = every_plan(template, costs)
        assert plans >= 1
        assert graph.complete
        assert graph.weight == pytest.approx(least)
        assert grow_fully(template, weights, prune=False).weight == pytest.approx(least)
        assert grow_graph(template, weights, reuse_nodes(graph)).weight == pytest.approx(least)
        assert grow_graph(template, weights, generate_paper_nodes).weight >= least - 1e-9
        assert grow_graph(template, weights, generate_greedy_node).weight >= least - 1e-9


@pytest.mark.parametrize("model", ["printed", "calibrated"])
@given(queries=repetitions() | sequences(), data=st.data())
def test_pruning_loses_nothing(model: str, queries: list[CompiledQuery], data: st.DataObject) -> None:
    rates = rates_for(data, queries)
    for template in templates(queries):
        weights = GraphWeights(COST_MODELS[model](template, rates))
        graph = grow_fully(template, weights)
        whole = grow_fully(template, weights, prune=False)
        assert graph.weight == pytest.approx(whole.weight)
        assert graph.nodes <= whole.nodes
        for found in (graph, whole):
            assert path_weight(template, weights, found.path) == pytest.approx(found.weight)
            assert cost_of(template, weights.costs, found.path) == pytest.approx(found.weight)
            assert grow_graph(template, weights, reuse_nodes(found)).weight == pytest.approx(found.weight)


@given(queries=repetitions() | sequences(), data=st.data())
def test_snapshots_of_a_plan_count_what_queries_alone_count(queries: list[CompiledQuery], data: st.DataObject) -> None:
    rates = rates_for(data, queries)
    stream = data.draw(st.text("ABCD", max_size=12))
    for template in templates(queries):
        weights = GraphWeights(COST_MODELS["printed"](template, rates))
        alone = replay(template, {pool.number: () for pool in template.pools}, stream)
        for graph in (grow_fully(template, weights), grow_graph(template, weights, generate_greedy_node)):
            assert replay(template, graph.path, stream).counts == alone.counts


def test_queries_of_a_q_set_that_go_different_ways_may_leave_it_one_by_one() -> None:
    # q2 joins q3 where q1 goes another way: by the paper's principles a Q-set stays or goes as a whole
    queries = compiled("SEQ(A, B, C, D)", "SEQ(A, B, C, E)", "SEQ(X, B, C, E)", "SEQ(A, B, C, D)")
    (template,) = templates(queries)
    weights = GraphWeights(COST_MODELS["printed"](template, equal_rates(queries)))
    assert grow_fully(template, weights).weight <= grow_graph(template, weights, generate_paper_nodes).weight


def test_transitions_in_a_circle_are_put_into_templates_of_their_own() -> None:
    queries = compiled("SEQ(A, B, C)", "SEQ(B, C, A)", "SEQ(C, A, B)", "SEQ(A, B, C)")
    found = templates(queries)
    assert [template.queries for template in found] == [(0, 1, 3), (2,)]


@pytest.mark.parametrize(
    ("pattern", "rest", "why"),
    [
        ("SEQ(A, OR(B, C))", "WITHIN 10 min SLIDE 1 min", "more than sequences and their repetitions"),
        ("SEQ(A, B*)", "WITHIN 10 min SLIDE 1 min", "more than sequences and their repetitions"),
        ("SEQ(A, B)", "WITHIN 10 min", "no slide"),
        ("SEQ(A, NOT B)", "WITHIN 10 min SLIDE 1 min", "absent at an end"),
        ("SEQ(A a, B b)", "WHERE a.x < b.x WITHIN 10 min SLIDE 1 min", "compares neighbours"),
        ("A", "WITHIN 10 min SLIDE 1 min", "no transition"),
    ],
)
def test_who_takes_no_part_is_told_why(pattern: str, rest: str, why: str) -> None:
    report = optimize(compiled(pattern, rest=rest))
    assert why in report.excluded[0]


def test_weights_can_be_put_on_a_graph_anew() -> None:
    patterns = ("SEQ(F, A, B, C, D)", "SEQ(A, B, C, D)", "SEQ(E, C, D)")
    queries = compiled(*patterns)

    def known(**events: float) -> Statistics:
        return Statistics(given={type: count / 600 for type, count in events.items()})

    before = known(F=10, A=5, B=10, C=12, D=4, E=3)
    after = known(F=10, A=500, B=10, C=2, D=400, E=3)
    options = GloriaOptions(costs="printed")
    report = optimize(queries, before, options)
    again = reweigh(report, queries, after)
    scratch = optimize(queries, after, options)
    stays = path_weight(
        again.graphs[0].template, weights_by(queries, after, again.graphs[0].template), report.graphs[0].path
    )
    assert reweigh(report, queries, before).weight == pytest.approx(report.weight)
    assert again.plan != report.plan
    assert scratch.weight - 1e-9 <= again.weight < stays
    assert again.alternatives == pytest.approx(scratch.alternatives)


def weights_by(queries: list[CompiledQuery], statistics: Statistics, template: Template) -> GraphWeights:
    from motet.optimizer.rates import estimate_window_rates

    return GraphWeights(COST_MODELS["printed"](template, estimate_window_rates(queries, statistics)))


def test_out_of_time_the_plan_is_the_best_that_was_sure_to_be_there() -> None:
    runs = [", ".join("ABCDEF"[begin:end]) for begin in range(3) for end in range(begin + 3, 7)]
    queries = compiled(*(f"SEQ({run})" for run in runs))
    at_once = optimize(queries, options=GloriaOptions(costs="printed", seconds=0.0))
    in_time = optimize(queries, options=GloriaOptions(costs="printed", seconds=60.0))
    assert not at_once.complete
    assert at_once.weight <= min(at_once.alternatives.values())
    assert in_time.weight <= at_once.weight
