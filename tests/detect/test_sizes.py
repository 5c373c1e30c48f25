"""What plans are costed with: expected instances and pairs against those of random streams, and sampled shares."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from motet.compile import compile_workload
from motet.compile.stated_rates import conditions_to_measure
from motet.engine.detect.measured_rates import EventSample
from motet.engine.encode import encode
from motet.language import parse
from motet.model.expression import variables
from motet.options import Options
from motet.plans.detect.build import JoinSpec, is_left_inner
from motet.plans.detect.cost import PRICES, Cardinalities, Rates, estimate_by_counts, join_cost
from motet.plans.detect.nodes import LeafNode
from motet.plans.detect.partial_orders import PartialOrder, bits_of, items_of, share_in_window
from motet.plans.detect.selectivity import (
    group_connected,
    group_overlapping,
    list_tests_to_measure,
    make_joint_test,
    symbols_of,
)
from motet.schema import EventSchema
from motet.template.symbols import Symbol
from tests.optimizer.patterns import parts_of

SECOND = 1_000_000
Times = dict[str, NDArray[np.float64]]


@pytest.mark.parametrize(("count", "share"), [(2, 0.1), (3, 0.1), (3, 0.4), (4, 0.2), (5, 0.7), (3, 1.0)])
def test_the_share_of_combinations_that_a_window_holds(count: int, share: float) -> None:
    times = np.random.default_rng(1).random((200_000, count))
    held = (times.max(axis=1) - times.min(axis=1) <= share).mean()
    assert share_in_window(count, share) == pytest.approx(held, rel=0.05)


@given(pairs=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda pair: pair[0] < pair[1])))
def test_orders_are_those_that_can_be_listed(pairs: set[tuple[int, int]]) -> None:
    order = {(a, b) for a, b in product(range(4), repeat=2) if _reaches(a, b, pairs)}
    orders = PartialOrder(order)
    allowed = [each for each in permutations(range(4)) if all(each.index(a) < each.index(b) for a, b in order)]
    assert orders.count_orders(0b1111) == len(allowed)
    for chosen in (0b0011, 0b1010, 0b1000):
        items = items_of(chosen)
        places = [[each.index(item) + 1 for item in items] for each in allowed]
        assert 5 - orders.mean_place(0b1111, chosen, True) == pytest.approx(np.mean([max(each) for each in places]))
        assert orders.mean_place(0b1111, chosen, False) == pytest.approx(np.mean([min(each) for each in places]))


def _reaches(a: int, b: int, pairs: set[tuple[int, int]]) -> bool:
    return (a, b) in pairs or any((a, c) in pairs and _reaches(c, b, pairs) for c in range(4))


# Instances and pairs of joins, by listing them all

PATTERNS = (
    "SEQ(A a, B b, C c, D d) WHERE a.x < b.x WITHIN 20 s",
    "AND(A a, B b, C c, D d) WITHIN 10 s",
    "SEQ(A a, AND(B b, C c), D d) WITHIN 30 s",
    "AND(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 15 s",
)
LENGTH, EVENTS = 100.0, 24


def listed(parts: JoinSpec, items: list[int], times: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The times of all combinations of items that are in order and in the window."""
    grid = np.stack(np.meshgrid(*(times[item] for item in items), indexing="ij"), axis=-1).reshape(-1, len(items))
    kept = grid.max(axis=1) - grid.min(axis=1) < parts.within / SECOND
    for one, other in parts.order:
        if one in items and other in items:
            kept &= grid[:, items.index(one)] < grid[:, items.index(other)]
    return grid[kept]


def searched(parts: JoinSpec, outer: list[int], inner: list[int], times: list[NDArray[np.float64]]) -> int:
    """How many inner instances end where a join looks for outer ones."""
    window, found = parts.within / SECOND, listed(parts, outer, times)
    last = np.sort(listed(parts, inner, times).max(axis=1))
    low, high = found.max(axis=1) - window, found.min(axis=1) + window
    for at, item in enumerate(outer):
        if any((item, other) in parts.order for other in inner):
            low = np.maximum(low, found[:, at])
        if all((other, item) in parts.order for other in inner):
            high = np.minimum(high, found[:, at])
    return int(np.maximum(np.searchsorted(last, high) - np.searchsorted(last, low), 0).sum())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_instances_and_pairs_are_as_many_as_expected(pattern: str) -> None:
    parts = replace(parts_of(pattern)[0], tests=frozenset())
    rates = Rates({Symbol(letter): float(EVENTS) for letter in "ABCD"}, duration=LENGTH * SECOND)
    sizes, rng = Cardinalities(parts, rates), np.random.default_rng(2)
    streams = [list(rng.random((4, EVENTS)) * LENGTH) for _ in range(8)]
    for bits in (0b0011, 0b0110, 0b0111, 0b1111):
        made = np.mean([len(listed(parts, items_of(bits), times)) for times in streams])
        assert sizes.instances(bits) == pytest.approx(made, rel=0.25)
    for left, right in ((0b0001, 0b0010), (0b0011, 0b1100), (0b0101, 0b1010), (0b0011, 0b0100), (0b0110, 0b0001)):
        if is_left_inner(left, right, parts):
            left, right = right, left
        looked = np.mean([searched(parts, items_of(left), items_of(right), times) for times in streams])
        assert sizes.candidate_pairs(left, right) == pytest.approx(looked, rel=0.35)


# Conditions that hold together


def trades(count: int = 1500, keys: int = 1, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, count, count)) * SECOND, pa.timestamp("us")),
            "type": pa.array(rng.choice(list("ABCD"), count)),
            "key": rng.integers(0, keys, count),
            "x": np.where(rng.random(count) < 0.02, np.nan, rng.normal(0, 1, count)),
            "y": rng.normal(0, 1, count),
        }
    )


def sampled(table: pa.Table, parts: JoinSpec, partition: tuple[str, ...] = ()) -> tuple[EventSample, Cardinalities]:
    symbols = tuple(Symbol(letter) for letter in "ABCD")
    encoded = encode(table, EventSchema(table.schema), partition, symbols, {}, False)
    sample = EventSample(encoded, parts.within)
    shares = {test: sample.share(test) for test in list_tests_to_measure(parts)}
    selectivity = {test: share for test, share in shares.items() if share is not None}
    counts = {symbol: len(table) / 4 for symbol in symbols}
    return sample, Cardinalities(parts, Rates(counts, duration=1500.0 * SECOND, selectivity=selectivity))


CHAIN = "AND(A a, B b, C c, D d) WHERE a.x + 0.5 < b.x AND b.x + 0.5 < c.x AND c.x + 0.5 < d.x WITHIN 300 s"
STAR = "AND(A a, B b, C c, D d) WHERE b.x + 1 < a.x AND c.x + 1 < a.x AND d.x + 1 < a.x WITHIN 300 s"
RING = "AND(A a, B b, C c, D d) WHERE a.x < b.x AND b.y < c.y AND c.x < d.x AND d.y < a.y WITHIN 300 s"


@pytest.mark.parametrize("text", [CHAIN, STAR, RING])
def test_conditions_on_the_same_events_are_taken_together(text: str) -> None:
    (parts,) = parts_of(text)
    _, sizes = sampled(trades(), parts)
    rng = np.random.default_rng(4)
    x, y = rng.normal(0, 1, (2, 4, 400_000))
    holds = {
        CHAIN: (x[0] + 0.5 < x[1]) & (x[1] + 0.5 < x[2]) & (x[2] + 0.5 < x[3]),
        STAR: (x[1] + 1 < x[0]) & (x[2] + 1 < x[0]) & (x[3] + 1 < x[0]),
        RING: (x[0] < x[1]) & (y[1] < y[2]) & (x[2] < x[3]) & (y[3] < y[0]),
    }[text].mean()
    assert sizes.selectivity(0b1111) == pytest.approx(holds, rel=0.35)
    apart = np.prod([sizes.rates.test_selectivity(test, symbols_of(parts)) for test in parts.tests])
    assert text == RING or not 0.5 < apart / holds < 2


def test_a_condition_is_known_from_either_side() -> None:
    (parts,) = parts_of("AND(A a, B b, C c) WHERE a.x + 1 < b.x AND b.x > c.x + 1 WITHIN 300 s")
    sample, _ = sampled(trades(), parts)
    one, other = (sample.share(make_joint_test([test], symbols_of(parts))) for test in sorted(parts.tests, key=repr))
    assert one == pytest.approx(0.24, abs=0.06)
    assert other == pytest.approx(0.24, abs=0.06)


def test_events_of_different_keys_are_not_compared() -> None:
    (parts,) = parts_of("AND(A a, B b) WHERE a.key != b.key WITHIN 300 s")
    sample, _ = sampled(trades(keys=5), parts, ("key",))
    assert [sample.share(test) for test in list_tests_to_measure(parts)] == [0.0]


def test_where_there_are_no_events_all_conditions_hold() -> None:
    (parts,) = parts_of(CHAIN)
    sample, _ = sampled(trades().slice(0, 0), parts)
    assert {sample.share(test) for test in list_tests_to_measure(parts)} == {1.0}


def test_what_is_asked_is_what_sizes_look_up() -> None:
    (parts,) = parts_of(STAR)
    asked = set(list_tests_to_measure(parts))
    assert len(asked) == 3 + 3 + 1
    tests = sorted(parts.tests, key=repr)
    assert make_joint_test(tests[::-1], symbols_of(parts)) in asked
    assert all(len(variables(test)) >= 2 for test, _ in asked)


@given(pairs=st.lists(st.sets(st.integers(0, 5), min_size=2, max_size=2).map(bits_of), min_size=1, max_size=6))
def test_connected_sets_are_connected(pairs: list[int]) -> None:
    for group in group_connected(pairs, 1000):
        assert len(group_overlapping([pair for pair in pairs if not pair & ~group])) == 1
    components = group_overlapping(pairs)
    items = {bits_of({item for number in group for item in items_of(pairs[number])}) for group in components}
    assert items <= set(group_connected(pairs, 1000))
    assert len(group_connected(pairs, 2)) <= 2


def test_a_join_by_equal_values_looks_at_those_alone() -> None:
    """Of conditions that hold as often, an equality saves the pairs that differ: inner rows are sorted by it."""
    schema = EventSchema(pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64()}))
    costs = []
    for comparison in ("=", "<"):
        text = f"RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x {comparison} b.x WITHIN 100 s"
        (branch,) = compile_workload(parse(text), schema, Options()).detect
        (spec,) = branch.join_specs
        counts = {item.symbol: 1000.0 for item in spec.items if isinstance(item, LeafNode)}
        shares = dict.fromkeys(conditions_to_measure(branch), 0.001)
        costs.append(estimate_by_counts(spec, Rates(counts, 1000e6, selectivity=shares)))
    pairs = 1000 * 1000 / 2 * share_in_window(2, 0.1)
    assert costs[1] - costs[0] == pytest.approx(PRICES.pair * pairs * (1 - 0.001))


def test_of_events_that_are_fed_what_later_ones_look_for_is_kept() -> None:
    schema = EventSchema(pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64()}))
    text = "RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 100 s"
    (branch,) = compile_workload(parse(text), schema, Options()).detect
    (spec,) = branch.join_specs
    counts = {item.symbol: 10.0**place for place, item in enumerate(spec.items, 1) if isinstance(item, LeafNode)}
    at_once, fed = (Rates(counts, 1000e6, are_fed=are_fed).sizes_of(spec) for are_fed in (False, True))
    a, b, c = (bits_of([item]) for item in range(3))
    kept = {
        sides: (join_cost(fed, *sides) - join_cost(at_once, *sides)) / PRICES.kept
        for sides in ((a, b), (a, c), (a | c, b), (a | b, c))
    }
    first_two = fed.instances(a | b)
    assert kept == pytest.approx({(a, b): 10.0, (a, c): 10.0, (a | c, b): 100.0, (a | b, c): first_two})
