"""The worked examples of MOTTO (Zhang et al., ICDE 2017), sections IV and V."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.baselines import motto_lcse
from motet.language import parse
from motet.model.pattern import And, Event, Or, Pattern, Seq
from motet.optimizer.motto.common_strings import find_common_strings, find_maximal_substrings
from motet.optimizer.motto.costs import SOURCE, ArcCosts
from motet.optimizer.motto.graph import GROUND, PlanGraph, Technique, build_merge_graph, build_plan_graph
from motet.optimizer.motto.motto import MottoOptions, MottoPlan, optimize
from motet.optimizer.motto.operations import Operation, Operator, Primitive, divide, make_operation, operation_of_spec
from motet.optimizer.motto.sources import canonicalize, drop_window, find_embeddings
from motet.optimizer.motto.subqueries import compare_operations, find_interesting_subqueries
from motet.optimizer.solvers.steiner import NodeSet
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.cost import Prices, Rates
from motet.plans.detect.estimates import estimate_tree_cost as cost_of_trees
from motet.plans.detect.nodes import LeafNode
from motet.template.symbols import Symbol

SECONDS = 1_000_000
# The examples are about joins: paths of plain sequences, which our engine can list too, would cost less.
JOINS = Prices(scan=1e15)
RATES = Rates({Symbol(f"E{number}"): 2000.0 for number in range(1, 9)}, duration=1000.0 * SECONDS)


def leaf(number: int) -> LeafNode:
    return LeafNode(Symbol(f"E{number}"))


def seq(*numbers: int, within: int = 10) -> JoinSpec:
    count = len(numbers)
    order = frozenset((a, b) for a in range(count) for b in range(a + 1, count))
    return JoinSpec(tuple(map(leaf, numbers)), order, frozenset(), frozenset(), within * SECONDS)


def conj(*numbers: int, within: int = 10) -> JoinSpec:
    return JoinSpec(tuple(map(leaf, numbers)), frozenset(), frozenset(), frozenset(), within * SECONDS)


# Workload 1, and what example 6 adds.
Q1, Q2, Q3, Q4, Q5 = seq(1, 2, 3), seq(1, 3), seq(1, 2, 4), seq(2, 4, 3), conj(1, 3)
Q6 = conj(1, 2, 4)
WORKLOAD_1 = [Q1, Q2, Q3, Q4, Q5]


def shown(query: JoinSpec) -> str:
    """A query as it is written in the paper."""
    return operation_text(operation_of_spec(query))


def operation_text(operation: Operation) -> str:
    return f"{operation.operator}({', '.join(map(operand_text, operation.operands))})"


def operand_text(operand: Primitive | Operation) -> str:
    if isinstance(operand, Operation):
        return operation_text(operand)
    return operand.what.symbol.type if isinstance(operand.what, LeafNode) else str(operand.what)


def found_in(*queries: JoinSpec, transform: bool = True) -> set[str]:
    return {shown(query) for query in find_interesting_subqueries(queries, transform)}


def number_of(graph: PlanGraph, query: JoinSpec) -> int:
    return graph.nodes.index(canonicalize(query))


# Merge


def test_example_1_what_a_query_finds_is_merged_into_one_of_which_it_is_a_subsequence() -> None:
    assert find_embeddings(Q2, Q1) == ((0, 2),)
    graph = build_merge_graph([Q1, Q2], ArcCosts(RATES, JOINS))
    source, target = number_of(graph, Q2), number_of(graph, Q1)
    way = graph.arcs[source, target]
    assert graph.techniques(source, target) == (Technique.MERGE,)
    assert way.tree in ((SOURCE, 1), (1, SOURCE))
    assert not way.filtered
    assert (target, source) not in graph.arcs


def test_the_substring_case_of_merging() -> None:
    assert find_embeddings(Q2, seq(1, 3, 2)) == ((0, 1),)
    assert find_embeddings(Q2, seq(3, 1)) == ()


# Decomposition


def test_example_2_a_common_sub_query_serves_two_queries() -> None:
    assert found_in(Q3, Q4) == {"SEQ(E2, E4)"}
    graph = build_plan_graph([Q3, Q4], ArcCosts(RATES, JOINS))
    middle = number_of(graph, seq(2, 4))
    assert middle not in graph.terminals
    for query in (Q3, Q4):
        assert graph.techniques(middle, number_of(graph, query)) == (Technique.DECOMPOSE,)


def test_example_3_decomposition_and_merging_go_together() -> None:
    one, other = seq(1, 2, 3, 5), seq(1, 3, 4)
    assert found_in(one, other) == {"SEQ(E1, E3)"}
    assert not any(GROUND not in ends for ends in build_merge_graph([one, other], ArcCosts(RATES, JOINS)).arcs)
    shared = seq(1, 3)
    assert find_embeddings(shared, one) == ((0, 2),)
    assert find_embeddings(shared, other) == ((0, 1),)


def test_example_4_interesting_sub_queries() -> None:
    one, other = (1, 2, 3, 5, 6, 7, 8), (1, 3, 6, 5, 7, 8)
    substrings = [one[a : a + n] for a, _, n in find_maximal_substrings(one, other)]
    assert substrings == [(1,), (3,), (5,), (6,), (7, 8)]
    strings = {tuple(one[at] for at in common.left) for common in find_common_strings(one, other)}
    assert strings == {(1, 3, 5), (1, 3, 6), (7, 8)}
    # What these have in common in turn is looked for too.
    assert found_in(seq(*one), seq(*other)) == {
        "SEQ(E1, E3, E5)",
        "SEQ(E1, E3, E6)",
        "SEQ(E7, E8)",
        "SEQ(E3, E5)",
        "SEQ(E1, E3)",
    }


def test_order_free_operands_are_sorted_first() -> None:
    assert canonicalize(conj(3, 1, 2)) == canonicalize(conj(2, 3, 1))
    assert found_in(conj(4, 2, 1), conj(1, 5, 2)) == {"CONJ(E1, E2)"}


# Operator transformation


def test_example_5_a_sequence_is_filtered_out_of_a_conjunction() -> None:
    costs = ArcCosts(RATES, JOINS)
    graph = build_plan_graph([Q2, Q5], costs)
    source, target = number_of(graph, Q5), number_of(graph, Q2)
    way = graph.arcs[source, target]
    assert graph.techniques(source, target) == (Technique.MERGE, Technique.TRANSFORM)
    assert way.tree == SOURCE
    assert way.filtered
    # Cost(q2 | q5) is that of the filter alone.
    prices, conjunctions = costs.prices, costs.instances(canonicalize(Q5))
    filtered = prices.node + prices.filtered * conjunctions
    assert way.cost == pytest.approx(filtered)
    plan = optimize([Q2, Q5], RATES, MottoOptions(prices=JOINS))
    assert plan.sources[target] == source


def test_example_6_transformation_and_decomposition_go_together() -> None:
    assert found_in(Q1, Q6) == {"CONJ(E1, E2)"}
    assert found_in(Q1, Q6, transform=False) == set()
    graph = build_plan_graph([Q1, Q6], ArcCosts(RATES, JOINS))
    middle = number_of(graph, conj(1, 2))
    assert (middle, number_of(graph, Q6)) in graph.arcs


def test_a_conjunction_is_had_from_the_events_of_a_disjunction() -> None:
    graph = build_plan_graph([Q2, Q5], ArcCosts(RATES, JOINS))
    scans = [at for at, node in enumerate(graph.nodes) if node is not None and not isinstance(node, JoinSpec)]
    assert len(scans) == 1
    for query in (Q2, Q5):
        target = number_of(graph, query)
        assert graph.techniques(scans[0], target) == (Technique.SCAN,)
        assert graph.arcs[scans[0], target].cost < graph.arcs[GROUND, target].cost


# Nested queries


def written(pattern: str) -> Operation:
    (query,) = parse(f"RETURN * PATTERN {pattern} WITHIN 10 s").queries
    found = operand_of(query.pattern)
    assert isinstance(found, Operation)
    return found


def operand_of(pattern: Pattern) -> Primitive | Operation:
    """A pattern of SEQ, AND, OR and events as it is written."""
    match pattern:
        case Seq(parts):
            return make_operation(Operator.SEQ, list(map(operand_of, parts)))
        case And(parts):
            return make_operation(Operator.CONJ, list(map(operand_of, parts)))
        case Or(parts):
            return make_operation(Operator.DISJ, list(map(operand_of, parts)))
    assert isinstance(pattern, Event)
    return Primitive(pattern.type)


def level_of(operation: Operation) -> int:
    """How deep operators are nested inside, itself included."""
    return 1 + max((level_of(each) for each in operation.operands if isinstance(each, Operation)), default=0)


QI = "SEQ(E1, OR(E4, E5), AND(E2, E3))"
QJ = "SEQ(E1, AND(E2, E3))"


def test_example_7_nested_queries_are_divided_level_by_level() -> None:
    one, other = written(QI), written(QJ)
    assert (level_of(one), level_of(other)) == (2, 2)
    assert [operation_text(part) for part in divide(one)] == [
        "DISJ(E4, E5)",
        "CONJ(E2, E3)",
        "SEQ(E1, DISJ(E4, E5), CONJ(E2, E3))",
    ]
    assert [operation_text(part) for part in divide(other)] == ["CONJ(E2, E3)", "SEQ(E1, CONJ(E2, E3))"]
    # Table II: a query of three levels, the most inner first.
    deep = written("SEQ(E1, AND(E2, SEQ(E3, E4)))")
    assert [level_of(part) for part in divide(deep)] == [1, 2, 3]


def test_example_8_every_two_levels_are_compared() -> None:
    found = []
    for one in divide(written(QI)):
        for other in divide(written(QJ)):
            strings = [
                tuple(ours[at] for at in common.left)
                for common, ours, _ in compare_operations(one, other, transform=False)
            ]
            found.append([[operand_text(operand) for operand in string] for string in strings])
    assert found == [[], [], [["E2", "E3"]], [], [], [["E1", "CONJ(E2, E3)"]]]


def test_nested_queries_share_what_is_inside() -> None:
    # As the engine has them: alternatives are read one by one, so OR is a query of its own for each of its parts.
    inside = frozenset({(0, 1), (0, 2)})
    one = JoinSpec((leaf(1), leaf(2), leaf(3)), inside, frozenset(), frozenset(), 10 * SECONDS)
    more = frozenset({(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)})
    other = JoinSpec((leaf(1), leaf(4), leaf(2), leaf(3)), more, frozenset(), frozenset(), 10 * SECONDS)
    assert shown(other) == "SEQ(E1, E4, CONJ(E2, E3))"
    assert found_in(one, other) >= {"CONJ(E2, E3)"}
    assert find_embeddings(drop_window(canonicalize(one)), drop_window(canonicalize(other))) != ()


# Different windows


def windows(graph: PlanGraph, query: JoinSpec) -> set[int]:
    """The windows that something is found for."""
    nodes = [node for node in graph.nodes if isinstance(node, JoinSpec)]
    return {node.within // SECONDS for node in nodes if drop_window(node) == drop_window(canonicalize(query))}


def test_example_9a_a_source_with_the_larger_window_is_shared_and_filtered() -> None:
    source, beneficiary = seq(1, 2, within=20), seq(1, 2, 3, within=10)
    graph = build_plan_graph([source, beneficiary], ArcCosts(RATES, JOINS))
    ends = number_of(graph, source), number_of(graph, beneficiary)
    assert graph.techniques(*ends) == (Technique.MERGE, Technique.WINDOW)


def test_example_9b_a_source_with_the_smaller_window_fails_to_share() -> None:
    source, beneficiary = seq(1, 2, within=10), seq(1, 2, 3, within=20)
    graph = build_plan_graph([source, beneficiary], ArcCosts(RATES, JOINS))
    assert (number_of(graph, source), number_of(graph, beneficiary)) not in graph.arcs


def test_example_9c_the_window_of_the_source_is_extended() -> None:
    source, beneficiary = seq(1, 2, within=18), seq(1, 2, 3, within=20)
    graph = build_plan_graph([source, beneficiary], ArcCosts(RATES, JOINS))
    assert windows(graph, source) == {18, 20}
    extended = number_of(graph, seq(1, 2, within=20))
    assert extended not in graph.terminals
    assert graph.techniques(extended, number_of(graph, source)) == (Technique.WINDOW,)
    assert graph.techniques(extended, number_of(graph, beneficiary)) == (Technique.DECOMPOSE,)
    # Where looks cost little beside searches; else our joins search better behind what comes last.
    plan = optimize([source, beneficiary], RATES, MottoOptions(prices=replace(JOINS, pair=2.0)))
    assert plan.sources[number_of(plan.graph, source)] == extended


def test_a_window_is_not_extended_where_that_costs_more_than_it_saves() -> None:
    source, beneficiary = seq(1, 2, within=1), seq(1, 2, 3, within=900)
    plan = optimize([source, beneficiary], RATES)
    assert not isinstance(plan.graph.nodes[plan.sources[number_of(plan.graph, source)]], JoinSpec)


# The plan


def search_exhaustively(plan: MottoPlan) -> float:
    network = plan.graph.network
    optional = [node for node in range(1, network.size) if node not in network.terminals]
    subsets = (nodes for size in range(len(optional) + 1) for nodes in combinations(optional, size))
    return min(NodeSet(network, nodes).cost for nodes in subsets)


def test_example_10_the_cheapest_plan_of_workload_1() -> None:
    plan = optimize(WORKLOAD_1, RATES, MottoOptions(prices=JOINS))
    assert plan.is_optimal
    assert plan.cost == pytest.approx(search_exhaustively(plan))
    graph = plan.graph
    assert plan.sources[number_of(graph, Q2)] == number_of(graph, Q5)
    computed = {shown(node) for at in plan.sources if isinstance(node := graph.nodes[at], JoinSpec)}
    assert computed >= {shown(canonicalize(query)) for query in WORKLOAD_1}
    merged = optimize(WORKLOAD_1, RATES, MottoOptions("motto-merge", prices=JOINS))
    baselines = [merged.cost, motto_lcse.optimize(WORKLOAD_1, RATES, prices=JOINS).cost]
    alone = sum(graph.arcs[GROUND, node].cost for node in graph.terminals)
    assert plan.cost < min(baselines)
    assert max(baselines) < alone


@st.composite
def small_workloads(draw: st.DrawFn) -> list[JoinSpec]:
    """Up to four queries over few types."""
    found = []
    for _ in range(draw(st.integers(2, 4))):
        types = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4, unique=True))
        found.append(draw(st.sampled_from([seq, conj]))(*types, within=draw(st.sampled_from([5, 10]))))
    return found


@given(queries=small_workloads())
def test_branch_and_bound_finds_what_trying_everything_finds(queries: list[JoinSpec]) -> None:
    plan = optimize(queries, RATES)
    assume(len(plan.graph.nodes) - len(plan.graph.terminals) <= 13)
    assert plan.is_optimal
    assert plan.cost == pytest.approx(search_exhaustively(plan))


@given(queries=small_workloads())
def test_no_baseline_is_cheaper_and_what_is_built_costs_no_more_than_was_planned(queries: list[JoinSpec]) -> None:
    plan = optimize(queries, RATES)
    baselines = [optimize(queries, RATES, MottoOptions("motto-merge")), motto_lcse.optimize(queries, RATES)]
    assert all(plan.cost <= other.cost * (1 + 1e-9) for other in baselines)
    assert plan.cost <= plan.unshared_cost * (1 + 1e-9)
    for each in (plan, *baselines):
        # What happens to be equal in trees is built once, so that it may cost less than the search knows.
        assert cost_of_trees({query: each(query) for query in queries}, RATES) <= each.cost * (1 + 1e-9)


def test_annealing_is_within_five_percent_on_a_larger_workload() -> None:
    rng = random.Random(4)
    kinds = [rng.choice([seq, conj]) for _ in range(14)]
    queries = [kind(*rng.sample(range(1, 9), rng.randint(2, 4)), within=rng.choice([5, 10])) for kind in kinds]
    exact, annealed = (optimize(queries, RATES, MottoOptions(exact=exact)) for exact in (True, False))
    assert exact.is_optimal
    assert exact.cost <= annealed.cost <= 1.05 * exact.cost
    assert annealed.cost < exact.unshared_cost


def test_equal_seeds_give_equal_plans() -> None:
    plans = [optimize(WORKLOAD_1, RATES, MottoOptions(seconds=0.0, seed=2)) for _ in range(2)]
    assert plans[0].sources == plans[1].sources
    assert plans[0].cost >= plans[0].bound


def test_longest_common_sub_expressions_are_taken_first() -> None:
    plan = motto_lcse.optimize([seq(1, 2, 3, 4), seq(1, 2, 3, 5), seq(6, 2, 3)], RATES)
    computed = {shown(node) for at in plan.sources if isinstance(node := plan.graph.nodes[at], JoinSpec)}
    assert "SEQ(E1, E2, E3)" in computed
    assert "SEQ(E2, E3)" not in computed


def test_operators_of_parts_are_those_of_the_pattern() -> None:
    assert operation_of_spec(Q1).operator is Operator.SEQ
    assert operation_of_spec(Q5).operator is Operator.CONJ
