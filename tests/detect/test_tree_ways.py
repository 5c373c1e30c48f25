"""However parts of a pattern are found, the matches are the same: by less than it asks and a filter, as paths, or apart
from what others find.
"""

from __future__ import annotations

import random
from typing import Any, cast
from unittest.mock import patch

from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.optimizer.builtin import EachPattern
from motet.optimizer.registry import register
from motet.options import Options
from motet.plans.detect.build import FilterFrom, JoinSpec, PathScan, PlanTree, Unshared, items_of_test, restrict_spec
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.detect.test_plan_shapes import joined_queries
from tests.strategies import build_stream_table, streams


def can_scan_paths(parts: JoinSpec, items: list[int]) -> bool:
    """Whether some items are a sequence of which only neighbours are compared."""
    own, _ = restrict_spec(parts, tuple(items))
    size = len(items)
    in_sequence = len(own.order) == size * (size - 1) // 2
    tested = [*map(items_of_test, own.tests), *(gap.after | gap.before for gap in own.gaps)]
    return in_sequence and all(max(used) - min(used) == 1 for used in tested)


def any_way(seed: int) -> EachPattern:
    """A planner that joins in any shape, and finds parts in any of the ways there are."""

    def choose(parts: JoinSpec) -> PlanTree:
        dice = random.Random(seed)
        return grown(parts, list(range(len(parts.items))), dice)

    def grown(parts: JoinSpec, items: list[int], dice: random.Random) -> PlanTree:
        if len(items) == 1:
            return items[0]
        way = dice.random()
        if way < 0.2:
            return Unshared(grown(parts, items, dice), dice.randint(1, 3))
        if way < 0.5:
            loose = JoinSpec(
                parts.items,
                parts.order if dice.random() < 0.3 else frozenset(),
                frozenset(test for test in sorted(parts.tests, key=repr) if dice.random() < 0.5),
                frozenset(gap for gap in sorted(parts.gaps, key=repr) if dice.random() < 0.5),
                0,
            )
            found = grown(loose, items, dice)
            found = Unshared(found, 4) if dice.random() < 0.3 else found
            return FilterFrom(found, loose.order, loose.tests, loose.gaps)
        if way < 0.8 and can_scan_paths(parts, items):
            return PathScan(tuple(items))
        dice.shuffle(items)
        at = dice.randint(1, len(items) - 1)
        return grown(parts, items[:at], dice), grown(parts, items[at:], dice)

    return EachPattern("any", lambda specs, rates: {spec: choose(spec) for spec in specs})


@given(
    queries=st.lists(joined_queries(), min_size=1, max_size=3),
    rows=streams(types=("A", "B", "C", "D", "N")),
    seed=st.integers(0, 10_000),
)
def test_every_way_gives_the_results_of_plain_enumeration(queries: list[Query], rows: list[Any], seed: int) -> None:
    named = [Query(f"q{at}", q.pattern, q.returns, q.conditions, window=q.window) for at, q in enumerate(queries)]
    workload = Workload(tuple(named))
    note(to_text(workload))
    table = build_stream_table(rows)
    with patch.dict("motet.optimizer.registry._OPTIMIZERS"):
        register("any", "any way to find patterns", joins=any_way(seed))
        program = compile_workload(workload, EventSchema(table.schema), Options(optimizer=cast(Any, "any")))
        result = run_table(program, table).table
    assert_same_results(result, enumerate_table(workload, table))
