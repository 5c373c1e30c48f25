"""MOTTO within a budget: whatever time there is, a plan for every query, and none that a baseline beats."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pyarrow as pa
import pytest

import motet
from benchmarks.baselines import motto_lcse
from motet.optimizer.motto.motto import MottoOptions, optimize
from motet.optimizer.registry import SearchOptions, plan_trees
from motet.options import OptimizerName
from motet.plans.detect.build import JoinSpec
from motet.plans.detect.cost import Rates
from motet.plans.detect.estimates import estimate_tree_cost
from motet.plans.detect.selectivity import list_tests_to_measure
from motet.template.symbols import Symbol
from tests.optimizer.patterns import parts_of


def workload(seed: int, count: int = 12) -> tuple[list[JoinSpec], Rates]:
    """Queries over few types with conditions between neighbours, that hold rarely, often or never together."""
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        letters = rng.sample("ABCDEF", rng.randint(2, 4))
        names = [letter.lower() for letter in letters]
        where = " AND ".join(f"{a}.x < {b}.x" for a, b in pairwise(names))
        events = ", ".join(f"{letter} {name}" for letter, name in zip(letters, names, strict=True))
        texts.append(f"{rng.choice(['SEQ', 'AND'])}({events}) WHERE {where} WITHIN {rng.choice([5, 10])} s")
    wanted = list(dict.fromkeys(parts_of(*texts)))
    counts = {Symbol(letter): rng.uniform(20, 2000) for letter in "ABCDEF"}
    asked = sorted({test for parts in wanted for test in list_tests_to_measure(parts)}, key=repr)
    selectivity = {test: rng.choice([0.5, 0.1, 0.01]) ** (len(test[1]) - 1) for test in asked}
    return wanted, Rates(counts, duration=100e6, selectivity=selectivity)


@pytest.mark.parametrize("seed", range(6))
def test_no_baseline_is_ahead(seed: int) -> None:
    wanted, rates = workload(seed)
    plan = optimize(wanted, rates, MottoOptions(seconds=4.0))
    merged = optimize(wanted, rates, MottoOptions("motto-merge", seconds=4.0))
    for baseline in (merged, motto_lcse.optimize(wanted, rates, 4.0)):
        assert plan.cost <= baseline.cost * (1 + 1e-9)
    assert plan.bound <= plan.cost <= plan.unshared_cost * (1 + 1e-9)


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.05])
def test_with_little_time_there_is_a_plan_for_every_query(budget: float) -> None:
    wanted, rates = workload(7, count=30)
    plan = optimize(wanted, rates, MottoOptions(seconds=budget))
    trees = {parts: plan(parts) for parts in wanted}
    assert estimate_tree_cost(trees, rates) <= plan.cost * (1 + 1e-9)
    assert plan.cost <= plan.unshared_cost * (1 + 1e-9)
    assert plan.bound <= plan.cost


def test_auto_looks_at_motto_too() -> None:
    wanted, rates = workload(3, count=20)
    chosen = plan_trees(wanted, "auto", rates, SearchOptions(1.0))
    assert chosen.considered.keys() == {"reorder", "share", "multitree", "motto"}
    assert chosen.considered[chosen.method] == min(chosen.considered.values())


def test_patterns_that_repeat_a_type_may_ask_the_same_in_other_numbers() -> None:
    wanted = parts_of(
        "AND(SEQ(A a, A b), A c) WHERE a.x < b.x WITHIN 5 s",
        "AND(A c, SEQ(A a, A b)) WHERE a.x < b.x WITHIN 5 s",
        "SEQ(AND(SEQ(A a, A b), A c), A d) WITHIN 5 s",
        "SEQ(A a, A b, A c) WHERE b.x < c.x WITHIN 5 s",
    )
    plans = [optimize(wanted, Rates(), MottoOptions(variant, seconds=1.0)) for variant in ("motto", "motto-merge")]
    for plan in [*plans, motto_lcse.optimize(wanted, Rates(), 1.0)]:
        assert all(plan(parts) is not None for parts in wanted)


@pytest.mark.parametrize("optimizer", ["multitree", "motto", "auto"])
def test_patterns_with_very_many_orders_are_planned_in_time(optimizer: OptimizerName) -> None:
    query = (
        "RETURN * PATTERN AND(SEQ(A a, AND(B b, C c)), SEQ(A d, B e, C f, D g, E h, F i){3,4}) "
        "WHERE a.x < c.x WITHIN 40 s"
    )
    table = pa.table({"time": list(range(60)), "type": list("ABCDEF" * 10), "x": [1.0] * 60})
    began = time.process_time()
    assert not len(motet.run(table, query, optimizer=optimizer, budget=1.0))
    assert time.process_time() - began < 20.0
