"""The worked numbers of the Gloria paper: tables 3 to 5, and the execution of figure 4."""

from __future__ import annotations

import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.gloria.costs import PrintedCosts
from motet.optimizer.gloria.gloria import build_plan, unshared_path
from motet.optimizer.gloria.graph import GloriaGraph, Path, grow_graph
from motet.optimizer.gloria.nodes import GraphWeights, generate_paper_nodes
from motet.optimizer.gloria.template import Template, build_templates
from motet.options import Options
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.sequences import find_repeated_sequences
from motet.schema import EventSchema
from tests.optimizer.snapshots import replay


def workload_of(*patterns: str) -> Workload:
    texts = (
        f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {pattern}\nWITHIN 10 min SLIDE 1 min"
        for at, pattern in enumerate(patterns, 1)
    )
    return parse("\n\n".join(texts))


def template_of(*patterns: str) -> Template:
    workload = workload_of(*patterns)
    queries = [compile_query(number, workload, 1) for number in range(len(patterns))]
    sequences, _ = find_repeated_sequences(query for query in queries if isinstance(query, CompiledQuery))
    (template,) = build_templates(sequences)
    return template


def weights_of(template: Template, **events: float) -> GraphWeights:
    rates = {
        sequence.number: tuple(events[symbol.type] for symbol in sequence.symbols) for sequence in template.sequences
    }
    return GraphWeights(PrintedCosts(template, rates))


def table_of(graph: GloriaGraph, transition: str) -> dict[str, tuple[float, bool]]:
    """The nodes of a pool, written as the paper does, with their distance and whether they were kept."""
    template = graph.template
    types = [state.symbol.type for state in template.states]
    (pool,) = (pool for pool in template.pools if transition in {f"{types[a]}{types[b]}" for a, b in pool.transitions})
    found = {}
    for each in graph.pools[pool.number]:
        alone = pool.queries
        sets = []
        for queries, snapshot in each.node:
            alone &= ~queries
            sets.append(f"({','.join(str(q + 1) for q in template.query_numbers(queries))})^{types[snapshot]}")
        name = " ".join([*sets, *(f"({q + 1})" for q in template.query_numbers(alone))])
        found[name] = (each.distance, not each.pruned)
    return found


FIGURE_7 = ("SEQ(F, A, B, C, D)", "SEQ(A, B, C, D)", "SEQ(E, C, D)")
RATES_7 = {"F": 10, "A": 5, "B": 10, "C": 12, "D": 4, "E": 3}


def test_table_3_distances_and_pruning_marks() -> None:
    template = template_of(*FIGURE_7)
    graph = grow_graph(template, weights_of(template, **RATES_7), generate_paper_nodes)
    assert table_of(graph, "FA") == {"(1)": (10, True)}
    assert table_of(graph, "AB") == {"(1,2)^A": (65, True), "(1) (2)": (65, True)}
    assert table_of(graph, "BC") == {"(1,2)^A": (70, True), "(1,2)^B": (165, False), "(1) (2)": (165, True)}
    assert table_of(graph, "EC") == {"(3)": (3, True)}
    # n8, n10, n12 and n11; n9, which would come from the pruned (1,2)^B, is not there
    assert table_of(graph, "CD") == {
        "(1,2)^A (3)": (159, True),
        "(1,2)^C (3)": (279, False),
        "(1,2,3)^C": (279, True),
        "(1) (2) (3)": (444, True),
    }


def test_table_3_without_pruning_has_the_node_that_follows_from_a_pruned_one() -> None:
    template = template_of(*FIGURE_7)
    graph = grow_graph(template, weights_of(template, **RATES_7), generate_paper_nodes, prune=False)
    assert "(1,2)^B (3)" in table_of(graph, "CD")
    assert not any(each.pruned for nodes in graph.pools for each in nodes)
    assert table_of(graph, "BC")["(1,2)^B"] == (165, True)


def test_example_5_7_the_heavier_of_two_edges_is_dropped() -> None:
    # n5 costs 170 by local snapshots from n2, and 165 by merging from n3
    template = template_of(*FIGURE_7)
    weights = weights_of(template, **RATES_7)
    f, a, b = (next(n for n, s in enumerate(template.states) if s.symbol.type == type) for type in "FAB")
    pools = {(pool.entry, pool.exit): pool for pool in template.pools}
    ab, bc = pools[a, b], next(pool for pool in template.pools if pool.entry == b)
    both = 0b11
    assert (f, a) in pools
    assert (
        65 + weights.transition_weight(ab, ((both, a),)) + weights.edge_weight(ab, ((both, a),), bc, ((both, b),))
        == 170
    )
    assert 65 + weights.transition_weight(ab, ()) + weights.edge_weight(ab, (), bc, ((both, b),)) == 165


def test_table_4_a_flat_repetition_is_shared_by_its_rarer_type() -> None:
    template = template_of("SEQ(SEQ(A, B)+, C)", "SEQ(SEQ(A, B)+, C)")
    graph = grow_graph(template, weights_of(template, A=5, B=10, C=1), generate_paper_nodes)
    assert table_of(graph, "BA") == {"(1,2)^A": (115, True), "(1,2)^B": (120, False), "(1) (2)": (210, True)}


def test_table_5_a_nested_repetition_is_shared_by_its_rarest_type() -> None:
    template = template_of(*["SEQ(SEQ(C, SEQ(A, B)+, D)+, E)"] * 4)
    graph = grow_graph(template, weights_of(template, A=5, B=10, C=12, D=4, E=1), generate_paper_nodes)
    kept = {name: keep for name, (_, keep) in table_of(graph, "BA").items()}
    assert kept == {
        "(1,2,3,4)^C": False,
        "(1,2,3,4)^A": False,
        "(1,2,3,4)^B": False,
        "(1,2,3,4)^D": True,
        "(1) (2) (3) (4)": True,
    }
    distances = {name: distance for name, (distance, _) in table_of(graph, "BA").items()}
    assert min(distances, key=distances.__getitem__) == "(1,2,3,4)^D"
    assert max(distances, key=distances.__getitem__) == "(1) (2) (3) (4)"


FIGURE_4 = ("SEQ(C, SEQ(A, B)+, D)", "SEQ(C, SEQ(A, B)+)")
STREAM_4 = "CABABD"


def shared_by_c(template: Template) -> Path:
    """Figure 4(b): both queries share all but the last transition, by snapshots of C."""
    (c,) = (number for number, state in enumerate(template.states) if state.symbol.type == "C")
    return {pool.number: ((0b11, c),) if pool.queries == 0b11 else () for pool in template.pools}


def test_figure_4_three_propagations_in_place_of_six() -> None:
    template = template_of(*FIGURE_4)
    alone = replay(template, unshared_path(template), STREAM_4)
    together = replay(template, shared_by_c(template), STREAM_4)
    assert alone.propagations["A"] == 6
    assert together.propagations["A"] == 3
    # b2 and b4 for q2; what b2 and b4 pass on to d5 for q1
    assert alone.evaluations == 0
    assert together.evaluations == 4
    assert alone.counts == together.counts == {0: 4, 1: 4}


@pytest.mark.parametrize("shared", [True, False])
def test_figure_4_counts_in_our_engine(shared: bool) -> None:
    template = template_of(*FIGURE_4)
    path = shared_by_c(template) if shared else unshared_path(template)
    plan = build_plan([GloriaGraph(template, [], path, 0.0, True)])
    table = pa.table({"time": list(range(len(STREAM_4))), "type": list(STREAM_4)})
    workload = parse(
        "\n\n".join(
            f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {pattern}\nWITHIN 10 s SLIDE 10 s"
            for at, pattern in enumerate(FIGURE_4, 1)
        )
    )
    program = compile_workload(workload, EventSchema(table.schema), Options(), sharing=plan)
    found = {row["query"]: row["COUNT(*)"] for row in run_table(program, table).table.to_pylist()}
    assert found == {"q1": 4, "q2": 4}
