"""Work that is counted for units, and the search that divides queries among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.language import parse
from motet.model.query import Workload
from motet.plans.compiled import CompiledQuery, compile_query
from motet.plans.cost import UNKNOWN_LOAD, Load, PairParts, SlotParts, UnitParts, UnitProfile, estimate_reach, make_load
from motet.plans.machine import merge_queries
from motet.plans.pairs import can_run_by_pairs, merge_pairs
from motet.plans.sharing import share_all
from motet.plans.units import Strategy, count_work, estimate_cost, plan_units
from motet.statistics.model import Statistics
from tests.engine.test_sharing_plans import repetitions, sequences


def compile_all(workload: Workload) -> list[CompiledQuery]:
    found = [compile_query(number, workload, 1) for number in range(len(workload.queries))]
    return [each for each in found if isinstance(each, CompiledQuery)]


@given(workload=repetitions(("6 s SLIDE 2 s",)) | sequences(), data=st.data())
def test_the_work_of_some_queries_follows_from_the_parts_that_any_of_them_has(
    workload: Workload, data: st.DataObject
) -> None:
    queries = [each for each in compile_all(workload) if each.channels.shape == (0, 0, 0) and can_run_by_pairs(each)]
    queries = [each for each in queries if each.partition == queries[0].partition and each.span == queries[0].span]
    if not queries:
        return
    places = data.draw(st.lists(st.sampled_from(range(len(queries))), min_size=1, unique=True).map(sorted))
    some = [queries[at] for at in places]
    merged, own = merge_queries(queries), merge_queries(some)

    def compare(parts: UnitParts, alone: UnitParts) -> None:
        used = np.unique(np.concatenate([parts.own[at] for at in places]))
        work = parts.work(parts.sums[used].sum(axis=0), UnitProfile.of(some))
        expected = alone.whole_work(some)
        # How far neighbouring pairs are taken together depends on which there are.
        for name in expected.keys() - {"pair run"}:
            assert work[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name

    compare(SlotParts(merged, UNKNOWN_LOAD), SlotParts(own, UNKNOWN_LOAD))
    compare(
        PairParts(merged, merge_pairs(merged, share_all), UNKNOWN_LOAD),
        PairParts(own, merge_pairs(own, share_all), UNKNOWN_LOAD),
    )


def test_totals_reach_a_node_as_often_as_its_events_come_in_order() -> None:
    # 0 -> 1 -> 2, two events of the first step in a cell and one of the second: 2 and 2 * 1 / 2 matches expected
    reached = estimate_reach(3, [0], np.array([0, 1]), np.array([1, 2]), np.array([2.0, 1.0]))
    assert reached == pytest.approx([1.0, 1 - np.exp(-2), 1 - np.exp(-1)])
    # a way back changes nothing
    looped = estimate_reach(3, [0], np.array([0, 1, 2]), np.array([1, 2, 1]), np.array([2.0, 1.0, 9.0]))
    assert looped == pytest.approx(reached)


def test_cells_hold_some_of_the_events_at_least_as_often_as_all_of_them_allow() -> None:
    load = Load(lambda symbol: 1.0, lambda width: 10.0, 100.0, 60.0)
    assert load.cells_with(100.0, 1e6) == 10.0
    assert load.cells_with(0.0, 1e6) == 0.0
    # ten events in a cell, each one of these with a probability of a tenth
    assert load.cells_with(10.0, 1e6) == pytest.approx(10 * (1 - 0.9**10))


def write_sequences(count: int, prefix: str, kinds: int, window: str) -> list[str]:
    rng = np.random.default_rng(1)
    patterns = [", ".join(f"{prefix}{kind}" for kind in rng.permutation(kinds)[:8]) for _ in range(count)]
    return [f"RETURN COUNT(*) PATTERN SEQ({pattern}) WHERE [k] WITHIN {window}" for pattern in patterns]


def test_dense_queries_run_by_pairs_and_sparse_ones_by_panes() -> None:
    texts = [*write_sequences(20, "D", 10, "60 s SLIDE 2 s"), *write_sequences(60, "S", 60, "60 s SLIDE 2 s")]
    queries = compile_all(parse("\n\n".join(f"QUERY q{at}\n{text}" for at, text in enumerate(texts))))
    rates = {f"D{at}": 100.0 for at in range(10)} | {f"S{at}": 0.2 for at in range(60)}
    counts = {name: int(rate * 400) for name, rate in rates.items()}
    known = Statistics(counts=counts, first=0, last=400_000_000, keys=("k",), partitions=5)
    load = make_load(known, ("k",))
    units = plan_units(queries, load=load)
    strategies = {each.query.name: unit.strategy for unit in units for each in unit.reported}
    assert {strategies[f"q{at}"] for at in range(20)} == {Strategy.PAIRS}
    assert {strategies[f"q{at}"] for at in range(20, 80)} == {Strategy.PANES}
    for pure in ("slots", "pairs", "stacks"):
        assert estimate_cost(units, load) < 0.8 * estimate_cost(plan_units(queries, pure), load)
    assert [unit.planned.signature for unit in plan_units(queries, load=load)] == [
        unit.planned.signature for unit in units
    ]


def test_keys_with_few_events_in_a_pane_make_pairs_expensive() -> None:
    queries = compile_all(
        parse(
            "\n\n".join(
                f"QUERY q{at}\n{text}" for at, text in enumerate(write_sequences(20, "D", 10, "20 min SLIDE 1 min"))
            )
        )
    )
    (unit,) = plan_units(queries, "pairs")
    counts = {f"D{at}": 40_000 for at in range(10)}

    def cost(keys: int) -> float:
        known = Statistics(counts=counts, first=0, last=3_600_000_000, keys=("k",), partitions=keys)
        return estimate_cost([unit], make_load(known, ("k",)))

    assert cost(5) < cost(500) < cost(50_000)
    work = count_work(unit, make_load(Statistics(counts=counts, first=0, last=3_600_000_000), ()))
    assert work["event"] == pytest.approx(400_000 / 3600)
