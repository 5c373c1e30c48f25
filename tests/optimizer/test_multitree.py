"""Multi-pattern trees: the paper's examples, costs, plans around forced trees, and searches against all there is."""

from __future__ import annotations

import pickle
import random
from itertools import product
from math import isclose

import pytest

from benchmarks.baselines.tabu import search_plans
from motet.optimizer.multitree.costs import NodeCosts
from motet.optimizer.multitree.local_plans import LocalPlans, subtrees, tree_bits
from motet.optimizer.multitree.multitree import LocalSearch, MultitreeOptions, optimize
from motet.optimizer.multitree.patterns import KeyedPattern, Numbering
from motet.optimizer.multitree.plans import MultiPlan, PlanCosts
from motet.optimizer.registry import SearchOptions, estimate_alternatives, plan_trees
from motet.optimizer.solvers.local_search import anneal
from motet.plans.detect.build import JoinSpec, JoinTree
from motet.plans.detect.cost import Cardinalities, Rates, join_cost
from motet.plans.detect.estimates import estimate_tree_cost
from motet.plans.detect.nodes import LeafNode
from tests.optimizer.patterns import all_trees, parts_of, patterns_of, types

SECOND = 1_000_000.0
METHODS: tuple[LocalSearch, ...] = (anneal, search_plans)
P1, P2 = "SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 10 s", "SEQ(A a, B b, D d) WHERE a.x < d.x WITHIN 20 s"


def rates_for(specs: list[JoinSpec], counts: dict[str, float], duration: float = 100 * SECOND) -> Rates:
    symbols = {item.symbol for parts in specs for item in parts.items if isinstance(item, LeafNode)}
    return Rates({symbol: counts.get(symbol.type, 100.0) for symbol in symbols}, duration=duration, events=1000.0)


def order(pattern: KeyedPattern, letters: str) -> JoinTree:
    """The order in which types are joined, as a tree."""
    place = {types(pattern, 1 << at): at for at in range(pattern.size)}
    tree: JoinTree = place[letters[0]]
    for letter in letters[1:]:
        tree = (tree, place[letter])
    return tree


@pytest.mark.parametrize(
    ("one", "other", "states"),
    [("ABC", "ABD", 3), ("BCA", "BAD", 4), ("CBA", "ADB", 4)],
    ids=["a: maximal sharing", "b", "c: minimal sharing"],
)
def test_figure_5(one: str, other: str, states: int) -> None:
    # States of two or more events; B, C and A, B are joined alike whichever comes first.
    patterns = dict(enumerate(patterns_of(P1, P2)))
    plan = MultiPlan(PlanCosts(rates_for([p.spec for p in patterns.values()], {})), patterns)
    plan.set_tree(0, order(patterns[0], one))
    plan.set_tree(1, order(patterns[1], other))
    leaves = 4
    assert len(plan.nodes) - leaves == states


def test_figure_6_a_plan_comes_and_another_goes() -> None:
    patterns = dict(enumerate(patterns_of(P1, P2, "SEQ(A a, C c, E e) WHERE a.x < c.x WITHIN 10 s")))
    plan = MultiPlan(PlanCosts(rates_for([p.spec for p in patterns.values()], {})), patterns)
    plan.set_tree(0, order(patterns[0], "ABC"))
    plan.set_tree(1, order(patterns[1], "ABD"))
    plan.set_tree(2, order(patterns[2], "ACE"))
    assert len(plan.nodes) == 5 + 5
    plan.set_tree(0, None)
    assert len(plan.nodes) == 5 + 4  # AB stays for the second, C for the third
    assert isclose(plan.cost, plan.exact_cost())


def test_a_shared_state_has_the_larger_window() -> None:
    patterns = dict(enumerate(patterns_of(P1, P2)))
    rates = rates_for([p.spec for p in patterns.values()], {})
    plan = MultiPlan(PlanCosts(rates), patterns)
    plan.set_tree(0, order(patterns[0], "ABC"))
    small = plan.cost
    plan.set_tree(1, order(patterns[1], "ABD"))
    shared = plan.costs.shape(patterns[0], (0, 1))
    assert max(plan.nodes[shared]) == 0.2
    large, little = (plan.costs.cost(shared, share) for share in (0.2, 0.1))
    assert large > little
    plan.set_tree(1, None)
    assert plan.cost == pytest.approx(small)


def test_printed_costs_are_those_of_the_paper() -> None:
    (pattern,) = patterns_of("AND(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 10 s")
    rates = rates_for([pattern.spec], {"A": 50.0, "B": 200.0, "C": 10.0})
    prices = NodeCosts(pattern, rates, costs="printed")
    seconds, w = 100, 10
    ra, rb, rc, sel = 50 / seconds, 200 / seconds, 10 / seconds, 0.4
    # Instances in a window, for all windows that fit in the stream.
    assert prices.join(0b001, 0b010) / (seconds / w) == pytest.approx(w**2 * ra * rb * sel)
    assert prices.join(0b011, 0b100) / (seconds / w) == pytest.approx(w**3 * ra * rb * rc * sel * sel)
    assert prices.instances(0b001) / (seconds / w) == pytest.approx(w * ra)


def test_calibrated_costs_are_those_of_pairs_and_instances() -> None:
    (pattern,) = patterns_of("SEQ(A a, AND(B b, C c), D d) WHERE a.x < b.x AND b.y < d.y WITHIN 10 s")
    rates = rates_for([pattern.spec], {"A": 50.0, "B": 200.0})
    prices, sizes = NodeCosts(pattern, rates), Cardinalities(pattern.spec, rates)
    for left, right in [(0b0001, 0b0010), (0b0101, 0b1010), (0b0001, 0b0110)]:
        # The side that comes first is searched, else the one that has the first item; whichever is called left.
        expected = join_cost(sizes, right, left)
        assert prices.join(left, right) == prices.join(right, left) == pytest.approx(expected)


def test_windows_that_count_events_hold_a_share_of_the_stream() -> None:
    (pattern,) = patterns_of("SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 50 EVENTS")
    assert NodeCosts(pattern, rates_for([pattern.spec], {})).share == pytest.approx(0.05)


FIGURE_9 = (
    "SEQ(A a, B b, C c, D d) WHERE a.x < c.x AND b.x < d.x WITHIN 10 s",
    "SEQ(A a, E e, C c, F f) WHERE a.x < c.x WITHIN 10 s",
    "SEQ(G g, B b, H h, D d) WHERE b.x < d.x WITHIN 10 s",
)


@pytest.mark.parametrize("method", METHODS, ids=["annealing", "tabu"])
def test_figure_9(method: LocalSearch) -> None:
    # All as frequent: without sharing other joins are as good.
    specs = parts_of(*FIGURE_9)
    found = optimize(specs, rates_for(specs, {}), MultitreeOptions(search=method, steps=1500, seconds=None))
    for parts, shared in zip(specs, [{0b0101, 0b1010}, {0b0101}, {0b1010}], strict=True):
        assert shared <= {tree_bits(tree) for tree in subtrees(found.trees[parts])}
    assert (
        found.cost
        < optimize(specs, rates_for(specs, {}), MultitreeOptions(orders_only=True, steps=1500, seconds=None)).cost
    )


def test_components_are_searched_apart() -> None:
    specs = parts_of(*FIGURE_9[:2], "SEQ(X x, Y y, Z z) WHERE x.x < z.x", "SEQ(X x, Y y, W w) WHERE x.x < w.x")
    found = optimize(specs, rates_for(specs, {}), MultitreeOptions(steps=200, seconds=None))
    assert found.components == [[0, 1], [2, 3]]
    assert len(found.traces) == 2


def test_each_alternative_of_a_disjunction_is_a_pattern() -> None:
    specs = parts_of("SEQ(A a, OR(B b, C c), D d) WHERE a.x < d.x WITHIN 5 s")
    vocabulary = Numbering()
    assert [types(pattern, pattern.all) for pattern in (KeyedPattern(parts, vocabulary) for parts in specs)] == [
        "ABD",
        "ACD",
    ]


# Plans around forced trees


@pytest.mark.parametrize("seed", range(4))
def test_the_cheapest_tree_around_forced_ones_is_that_among_all(seed: int) -> None:
    rng = random.Random(seed)
    (pattern,) = patterns_of("SEQ(A a, B b, C c, D d, E e) WHERE a.x < c.x AND b.x < d.x AND d.y < e.y WITHIN 10 s")
    rates = rates_for([pattern.spec], {letter: rng.uniform(5, 500) for letter in "ABCDE"})
    prices = NodeCosts(pattern, rates)
    local = LocalPlans(pattern, prices)

    def cost(tree: JoinTree) -> float:
        return sum(prices.join(*map(tree_bits, each)) for each in subtrees(tree) if not isinstance(each, int))

    trees = list(all_trees((0, 1, 2, 3, 4)))
    assert cost(local.find_best()) == pytest.approx(min(map(cost, trees)))
    for forced in [[(0, 2)], [(1, 3), (0, 2)], [((1, 3), 4)]]:
        found = local.find_best(None, forced)
        assert all(within(found, tree_bits(tree)) == tree for tree in forced)
        having = [tree for tree in trees if all(_same(within(tree, tree_bits(each)), each) for each in forced)]
        assert cost(found) == pytest.approx(min(map(cost, having)))


def _same(one: JoinTree | None, other: JoinTree) -> bool:
    """Whether trees are the same whichever side comes first."""
    if one is None or isinstance(one, int) or isinstance(other, int):
        return one == other
    return any(_same(a, other[0]) and _same(b, other[1]) for a, b in (one, one[::-1]))


def within(tree: JoinTree, bits: int) -> JoinTree | None:
    """The subtree over just some items, where there is one."""
    return next((each for each in subtrees(tree) if tree_bits(each) == bits), None)


def test_an_order_goes_on_from_the_forced_beginning() -> None:
    (pattern,) = patterns_of("SEQ(A a, B b, C c, D d) WHERE a.x < d.x WITHIN 10 s")
    rates = rates_for([pattern.spec], {"A": 1.0, "B": 500.0, "C": 20.0, "D": 300.0})
    local = LocalPlans(pattern, NodeCosts(pattern, rates), orders_only=True)
    assert local.find_best(None, [(1, 3)]) == (((1, 3), 0), 2)
    assert tree_bits(local.find_best()) == 0b1111


@pytest.mark.parametrize("ordered", [False, True])
def test_many_items_are_planned_without_trying_everything(ordered: bool) -> None:
    names = [f"{letter} {letter.lower()}" for letter in "ABCDEFGHIJKLMNO"]
    (pattern,) = patterns_of(f"SEQ({', '.join(names)}) WHERE a.x < o.x WITHIN 10 s")
    local = LocalPlans(pattern, NodeCosts(pattern, rates_for([pattern.spec], {})), ordered)
    assert tree_bits(local.find_best()) == (1 << 15) - 1
    assert within(local.find_best(None, [(3, 7)]), 0b10001000) == (3, 7)


# Searches


def small_workload(seed: int) -> tuple[list[JoinSpec], Rates]:
    rng = random.Random(seed)
    texts = []
    for _ in range(3):
        letters = sorted(rng.sample("ABCDE", 4)) if rng.random() < 0.7 else rng.sample("ABCDE", 4)
        pair = [letters[at] for at in rng.choice([(0, 2), (1, 3), (0, 3)])]  # not of neighbours: no path scan
        names = ", ".join(f"{letter} {letter.lower()}" for letter in letters)
        one, other = sorted(letter.lower() for letter in pair)
        texts.append(f"SEQ({names}) WHERE {one}.x < {other}.x WITHIN {rng.choice([5, 10])} s")
    specs = parts_of(*texts)
    return specs, rates_for(specs, {letter: rng.uniform(5, 200) for letter in "ABCDE"})


def cheapest_of_all(specs: list[JoinSpec], rates: Rates) -> float:
    vocabulary = Numbering()
    patterns = dict(enumerate(KeyedPattern(parts, vocabulary) for parts in specs))
    plan = MultiPlan(PlanCosts(rates), patterns)
    trees = [list(all_trees(tuple(range(pattern.size)))) for pattern in patterns.values()]
    best = float("inf")
    for chosen in product(*trees):
        for number, tree in enumerate(chosen):
            if plan.trees.get(number) != tree:
                plan.set_tree(number, tree)
        best = min(best, plan.cost)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_searches_come_within_a_twentieth_of_the_best(seed: int) -> None:
    specs, rates = small_workload(seed)
    best = cheapest_of_all(specs, rates)
    for method, most in product(METHODS, (2, 4)):
        found = optimize(specs, rates, MultitreeOptions(search=method, max_patterns=most, steps=800, seconds=None))
        assert best * (1 - 1e-9) <= found.cost <= 1.05 * best


def medium_workload() -> tuple[list[JoinSpec], Rates]:
    rng = random.Random(5)
    texts = []
    for _ in range(15):
        letters = sorted(rng.sample("ABCDEFGH", 5))
        pairs = {tuple(sorted(rng.sample(letters, 2))) for _ in range(2)}
        conditions = " AND ".join(f"{a.lower()}.x < {b.lower()}.x" for a, b in sorted(pairs))
        names = ", ".join(f"{letter} {letter.lower()}" for letter in letters)
        texts.append(f"SEQ({names}) WHERE {conditions} WITHIN {rng.choice([5, 10])} s")
    specs = parts_of(*texts)
    return specs, rates_for(specs, {letter: rng.uniform(5, 40) for letter in "ABCDEFGH"})


@pytest.mark.parametrize("method", METHODS, ids=["annealing", "tabu"])
def test_more_time_never_costs_more(method: LocalSearch) -> None:
    specs, rates = medium_workload()
    costs = [
        optimize(specs, rates, MultitreeOptions(search=method, steps=steps, seconds=None)).cost
        for steps in (1, 200, 800, 2000)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


def test_the_same_seed_gives_the_same_plan() -> None:
    specs, rates = medium_workload()
    how = MultitreeOptions(steps=400, seconds=None, seed=3)
    assert optimize(specs, rates, how).trees == optimize(specs, rates, how).trees


def test_auto_takes_the_cheapest_it_compared() -> None:
    specs, rates = medium_workload()
    once = plan_trees(specs, "auto", rates, SearchOptions(1.0))
    assert once.considered.keys() == {"reorder", "share"}  # to search would take longer than it can save
    chosen = plan_trees(specs, "auto", rates, SearchOptions(0.3, runs=1e4))
    assert {"multitree", "reorder", "share"} <= chosen.considered.keys()
    assert chosen.considered[chosen.method] == min(chosen.considered.values())
    assert chosen.considered[chosen.method] == pytest.approx(estimate_tree_cost(chosen.trees, rates))
    assert pickle.loads(pickle.dumps(chosen))(specs[0]) == chosen(specs[0])


def test_every_planner_costs_what_it_says() -> None:
    specs, rates = medium_workload()
    costs = estimate_alternatives(specs, rates)
    costs["multitree"] = plan_trees(specs, "multitree", rates, SearchOptions(0.3)).cost
    assert costs["multitree"] < min(costs["reorder"], costs["share"])
    assert max(costs["reorder"], costs["share"]) < costs["none"]
