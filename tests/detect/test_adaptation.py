"""Plans that change while events come, and queries that come and go: no match is lost, none comes twice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.engine.detect.planner import BranchPlanner, DetectReplanPolicy
from motet.engine.detect.run import DetectRun
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.optimizer.joins import make_join_plan
from motet.optimizer.registry import SearchOptions, plan_trees, replan_trees
from motet.options import Options
from motet.plans.detect.build import join_specs
from motet.plans.detect.cost import Rates
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.detect.test_optimizers import TYPES, named
from tests.detect.test_plan_shapes import joined_queries, random_tree
from tests.strategies import STREAM_SCHEMA, build_stream_table, streams

TICK = 1_000_000
# Every change is looked into, and any plan that costs less taken, however little there is to win.
EAGER = DetectReplanPolicy(events=30, gain=0.0, share=1e9, expected_batches=1e9)


def program_of(workload: Workload, **options: Any) -> Program:
    return compile_workload(workload, EventSchema(STREAM_SCHEMA), Options(**options))


def timed(rows: list[Any]) -> list[Any]:
    return [row for row in rows if row["time"] is not None]


class Stretches:
    """A stream in stretches of time: each run over all events so far, for what becomes certain in it."""

    def __init__(self, rows: list[Any], program: Program, drift: DetectReplanPolicy | None = None) -> None:
        self.rows = rows
        self.since: int | None = None
        self.go_on(program, BranchPlanner(program.detect[0], program.options, drift))

    def go_on(self, program: Program, planning: BranchPlanner) -> None:
        self.program, self.planning = program, planning

    def until(self, cut: int | None, kept: int = 10**6) -> list[pa.Table]:
        """What becomes certain up to a time, from events of at most so long before."""
        oldest = -(10**9) if self.since is None else self.since - kept
        rows = [row for row in self.rows if row["time"] >= oldest and (cut is None or row["time"] < cut)]
        bounds = [None if time is None else time * TICK for time in (self.since, cut)]
        run = DetectRun(self.program, self.program.detect[0], planning=self.planning)
        self.since = cut
        return list(run.process(build_stream_table(rows), *bounds))


@given(
    queries=st.lists(joined_queries(), min_size=1, max_size=3),
    rows=streams(types=TYPES).map(timed),
    cuts=st.lists(st.integers(-2, 10), max_size=4),
    dice=st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_any_plan_may_take_over_at_any_time(
    queries: list[Query], rows: list[Any], cuts: list[int], dice: random.Random
) -> None:
    workload = named(queries)
    note(to_text(workload))
    stream = Stretches(rows, program_of(workload))
    found: list[pa.Table] = []
    for cut in [*sorted(set(cuts)), None]:
        found += stream.until(cut)
        wanted = join_specs(stream.planning.branch.queries)
        stream.planning.adopt(random_tree(dice.randrange(1000)).optimize(wanted, Rates(), SearchOptions()), None)
    result = pa.concat_tables(found) if found else stream.program.result_schema.empty_table()
    assert_same_results(result, enumerate_table(workload, build_stream_table(rows)))


@given(
    queries=st.lists(joined_queries(), min_size=2, max_size=5),
    rows=streams(types=TYPES).map(timed),
    cuts=st.lists(st.integers(-2, 10), min_size=1, max_size=4),
    dice=st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_queries_come_and_go(queries: list[Query], rows: list[Any], cuts: list[int], dice: random.Random) -> None:
    every = named(queries)
    note(to_text(every))
    current = every.queries[:1]
    optimizer = dice.choice(["multitree", "reorder"])
    stream = Stretches(rows, program_of(Workload(current), optimizer=optimizer, budget=0.1))
    everything = enumerate_table(every, build_stream_table(rows))
    names = ["query", "start", "end", *(f"v{at}" for at in range(4))]
    found, expected = [everything.slice(0, 0).select(names)], [everything.slice(0, 0).select(names)]
    for cut in [*sorted(set(cuts)), None]:
        since = stream.since
        found += [table.select(names) for table in stream.until(cut)]
        due = pc.is_in(everything.column("query"), pa.array([query.name for query in current]))
        if since is not None:
            due = pc.and_(due, pc.greater_equal(everything.column("end"), since))
        if cut is not None:
            due = pc.and_(due, pc.less(everything.column("end"), cut))
        expected.append(everything.filter(due).select(names))
        stay = [query for query in current if dice.random() < 0.7]
        come = [query for query in every.queries if query not in current and dice.random() < 0.6]
        current = tuple(dice.sample([*stay, *come], len(stay) + len(come))) or current
        program = program_of(Workload(current), optimizer=optimizer, budget=0.1)
        stream.go_on(program, stream.planning.with_queries(program.detect[0], program.options))
    assert_same_results(pa.concat_tables(found), pa.concat_tables(expected))


CHANGING = parse(
    """
    QUERY one RETURN * PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 20 s
    QUERY two RETURN * PATTERN SEQ(A a, B b, D d) WHERE a.x < d.x WITHIN 20 s
    """
)


def swapped(count: int) -> list[dict[str, Any]]:
    """As are rare and Cs frequent, and after half of the events the other way round."""
    dice = random.Random(1)
    rows = []
    for at in range(count):
        weights = (1, 5, 20, 5) if at < count // 2 else (20, 5, 1, 5)
        rows.append({"time": at, "type": dice.choices("ABCD", weights)[0], "x": dice.randrange(100)})
    return rows


def test_a_change_of_rates_brings_another_plan() -> None:
    rows, one = swapped(2000), Workload(CHANGING.queries[:1])
    stream = Stretches(rows, program_of(one, optimizer="reorder"), EAGER)
    found = [table for at in range(200, 2200, 200) for table in stream.until(at, kept=40)]
    log = stream.planning.log
    assert any(change.adopted for change in log)
    assert all(change.after < change.before for change in log if change.adopted)
    assert "as often" in log[0].reason
    program = program_of(one)
    whole = pa.concat_tables(DetectRun(program, program.detect[0]).process(build_stream_table(rows)))
    assert_same_results(pa.concat_tables(found), whole)


def test_a_plan_is_left_where_another_cannot_pay() -> None:
    stream = Stretches(swapped(2000), program_of(CHANGING, optimizer="multitree"), replace(EAGER, expected_batches=1.0))
    for at in range(200, 2200, 200):
        stream.until(at, kept=40)
    log = stream.planning.log  # of a run that takes microseconds
    assert log
    assert not any(change.adopted for change in log)
    assert all(change.after <= change.before for change in log)


def test_planning_takes_a_small_share_of_the_time() -> None:
    stream = Stretches(swapped(2000), program_of(CHANGING, optimizer="multitree"), replace(EAGER, share=0.0))
    for at in range(200, 2200, 200):
        stream.until(at, kept=40)
    assert len(stream.planning.log) <= 1


def test_a_search_goes_on_from_the_plan_that_is_there() -> None:
    (branch,) = program_of(CHANGING).detect
    wanted = join_specs(branch.queries)
    good = plan_trees(wanted, "multitree", Rates(), SearchOptions(0.2))
    again = replan_trees(good, wanted, "multitree", Rates(), SearchOptions(0.0))
    assert again.considered["multitree"] <= good.considered["multitree"]


def test_a_change_of_selectivity_is_noticed() -> None:
    dice = random.Random(2)
    rows = [{"time": at, "type": "ABCD"[at % 4], "x": dice.randrange(100)} for at in range(1600)]
    rows += [{"time": at, "type": "ABCD"[at % 4], "x": 200 - at % 4 * 50} for at in range(1600, 3200)]
    stream = Stretches(rows, program_of(CHANGING, optimizer="reorder"), replace(EAGER, batches=1))
    for at in range(400, 3600, 400):
        stream.until(at, kept=40)
    assert any("a condition holds for 0 of pairs" in change.reason for change in stream.planning.log)


def test_steady_rates_keep_the_plan() -> None:
    dice = random.Random(3)
    rows = [{"time": at, "type": dice.choice("ABCD"), "x": dice.randrange(100)} for at in range(2000)]
    stream = Stretches(rows, program_of(CHANGING, optimizer="multitree", budget=0.2), DetectReplanPolicy())
    for at in range(500, 2500, 500):
        stream.until(at, kept=40)
    assert stream.planning.log == []


@pytest.mark.parametrize("optimizer", ["multitree", "auto"])
def test_a_plan_that_serves_is_searched_for_longer(optimizer: str) -> None:
    rows = swapped(4000)[:2000]  # at steady rates
    program = program_of(CHANGING, optimizer=optimizer, budget=0.2)
    stream = Stretches(rows, program, replace(EAGER, events=10**9))
    found = stream.until(400, kept=40)
    rates = stream.planning.chosen.rates  # type: ignore[union-attr]
    poor = dict.fromkeys(stream.planning.branch.join_specs, (0, (1, 2)))  # the frequent ones first
    stream.planning.adopt(make_join_plan(poor, optimizer, rates), rates)
    for at in range(800, 2400, 400):
        found += stream.until(at, kept=40)
    searches = [change for change in stream.planning.log if "served" in change.reason]
    assert [change.adopted for change in searches[:1]] == [True]
    assert searches[0].after < searches[0].before
    assert_same_results(pa.concat_tables(found), enumerate_table(CHANGING, build_stream_table(rows)))


def test_searches_for_better_plans_take_a_share_of_what_the_plan_costs() -> None:
    stream = Stretches(swapped(4000)[:2000], program_of(CHANGING, optimizer="multitree"), DetectReplanPolicy())
    for at in range(100, 2100, 100):
        stream.until(at, kept=40)
    assert not [change for change in stream.planning.log if "served" in change.reason]  # it cost microseconds


def test_plans_are_weighed_by_how_long_runs_took() -> None:
    logs = []
    for took in (1e-9, 1e9):
        stream = Stretches(swapped(2000), program_of(CHANGING, optimizer="multitree", budget=0.05), EAGER)
        stream.until(200, kept=40)
        stream.planning.record_run(took)
        for at in range(400, 2200, 200):
            stream.until(at, kept=40)
        logs.append([change for change in stream.planning.log if "as often" in change.reason])
    few, many = (max(change.before for change in log) for log in logs)
    assert many > 1e3 * few


def test_a_search_knows_what_patterns_have_in_common_from_the_one_before() -> None:
    wanted = join_specs(program_of(CHANGING).detect[0].queries)
    first = plan_trees(wanted, "multitree", Rates(), SearchOptions(0.2))
    again = replan_trees(first, wanted, "multitree", Rates(), SearchOptions(0.2))
    assert again.index is first.index
    fewer = replan_trees(first, wanted[:1], "multitree", Rates(), SearchOptions(0.2))
    assert fewer.trees.keys() == set(wanted[:1])
    assert replan_trees(fewer, wanted, "multitree", Rates(), SearchOptions(0.2)).cost == pytest.approx(first.cost)


def test_a_pattern_that_comes_reads_what_others_find() -> None:
    one = Workload(CHANGING.queries[:1])
    stream = Stretches(swapped(400), program_of(one, optimizer="multitree", budget=0.2))
    stream.until(200)
    before = stream.planning.chosen
    program = program_of(CHANGING, optimizer="multitree")
    after = stream.planning.with_queries(program.detect[0], program.options)
    assert before is not None
    assert after.chosen is not None
    assert len(after.chosen.trees) == 2
    assert dict(before.trees).items() <= dict(after.chosen.trees).items()
    assert after.log[-1].reason == "1 patterns have become 2"
