"""The cheapest tree to all terminals: branch and bound finds what trying everything finds, annealing nearly that."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.optimizer.solvers.steiner import (
    ROOT,
    Arc,
    Network,
    NodeSet,
    anneal,
    branch_and_bound,
    dual_ascent,
    solve_steiner,
)


def random_network(seed: int, size: int, terminals: int) -> Network:
    """Everything can be had from the root; half of the other pairs are cheaper."""
    rng = random.Random(seed)
    arcs = [Arc(ROOT, node, float(rng.randint(5, 40))) for node in range(1, size)]
    for source in range(1, size):
        for target in range(source + 1, size):
            if rng.random() < 0.4:
                arcs.append(Arc(source, target, float(rng.randint(0, 15))))
    chosen = rng.sample(range(1, size), terminals)
    return Network(size, frozenset(chosen), tuple(arcs))


def search_exhaustively(network: Network) -> float:
    """The least cost over all sets of nodes."""
    optional = [node for node in range(1, network.size) if node not in network.terminals]
    return min(
        NodeSet(network, nodes).cost for size in range(len(optional) + 1) for nodes in combinations(optional, size)
    )


@given(seed=st.integers(0, 10**6), size=st.integers(3, 13), share=st.floats(0.2, 0.8))
def test_branch_and_bound_finds_what_trying_everything_finds(seed: int, size: int, share: float) -> None:
    network = random_network(seed, size, max(1, int(share * (size - 1))))
    nodes, bound, done = branch_and_bound(network)
    least = search_exhaustively(network)
    assert done
    assert NodeSet(network, nodes).cost == pytest.approx(least)
    assert bound == pytest.approx(least)
    tree = solve_steiner(network)
    assert tree.is_optimal
    assert tree.cost == pytest.approx(least)
    assert sum(arc.cost for arc in tree.arcs) == pytest.approx(least)
    assert network.terminals <= {arc.target for arc in tree.arcs}


@given(seed=st.integers(0, 10**6))
def test_dual_ascent_never_exceeds_the_least_cost(seed: int) -> None:
    network = random_network(seed, 11, 5)
    bound, _ = dual_ascent(network, network.terminals, frozenset())
    assert bound <= search_exhaustively(network) + 1e-6


def test_annealing_is_within_five_percent_and_gets_better_with_time() -> None:
    begun = ended = 0.0
    for seed in range(8):
        network = random_network(seed, 40, 20)
        nodes, _, done = branch_and_bound(network)
        assert done
        found = anneal(network, seed)
        assert found.cost == pytest.approx(NodeSet(network, found.solution).cost)
        assert found.cost <= 1.05 * NodeSet(network, nodes).cost
        costs = [cost for _, _, cost in found.trace]
        assert costs == sorted(costs, reverse=True)
        begun, ended = begun + costs[0], ended + costs[-1]
    assert ended < 0.95 * begun


def test_annealing_is_repeatable_and_more_steps_do_better() -> None:
    network = random_network(5, 60, 30)
    assert anneal(network, seed=3).solution == anneal(network, seed=3).solution
    by_steps = [anneal(network, seed=3, steps=steps).cost for steps in (200, 20_000)]
    assert by_steps[1] <= by_steps[0]


def test_a_node_pays_off_when_enough_of_others_need_it() -> None:
    # Node 1 costs 10 and saves 6 for each of two terminals.
    arcs = [Arc(0, 1, 10.0), *(Arc(0, node, 8.0) for node in (2, 3)), *(Arc(1, node, 2.0) for node in (2, 3))]
    assert solve_steiner(Network(4, frozenset({2, 3}), tuple(arcs))).cost == 14.0
    arcs[0] = Arc(0, 1, 13.0)
    assert solve_steiner(Network(4, frozenset({2, 3}), tuple(arcs))).cost == 16.0


def test_a_graph_with_a_way_back_is_refused() -> None:
    with pytest.raises(ValueError, match="lower to higher"):
        Network(3, frozenset({1}), (Arc(0, 1, 1.0), Arc(0, 2, 1.0), Arc(2, 1, 1.0)))
