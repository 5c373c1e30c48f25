"""Plans that change while events come, and queries that come and go: no match is lost, none comes twice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.detect.test_optimizers import TYPES, named
from tests.detect.test_plan_shapes import joined_queries, random_tree

from motet.engine import EventSchema, Options, Program, compile_workload
from motet.engine.detect.planning import Drift
from motet.engine.detect.run import DetectRun
from motet.engine.detect.state import Detector
from motet.language import parse
from motet.language.printer import to_text
from motet.model.query import Query, Workload
from motet.optimizer.detect.choices import ChosenTrees
from motet.plan.detect.build import trees_wanted
from motet.plan.detect.cost import Rates
from motet.reference.tables import run_table as enumerate_table
from motet.testing import STREAM_SCHEMA, assert_same_results, stream_table, streams

TICK = 1_000_000


def program_of(workload: Workload, **options: Any) -> Program:
    return compile_workload(workload, EventSchema(STREAM_SCHEMA), Options(**options))


def detector_of(workload: Workload, drift: Drift | None = None, **options: Any) -> Detector:
    program = program_of(workload, **options)
    return Detector.begin(DetectRun(program, program.detect[0], drift=drift))


def timed(rows: list[Any]) -> list[Any]:
    return [row for row in rows if row["time"] is not None]


def between(rows: list[Any], since: int | None, until: int | None) -> pa.Table:
    kept = [row for row in rows if (since is None or row["time"] >= since) and (until is None or row["time"] < until)]
    return stream_table(kept)


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
    detector = detector_of(workload)
    found: list[pa.Table] = []
    seen: int | None = None
    for cut in [*sorted(set(cuts)), None]:
        found += detector.advance(between(rows, seen, cut), None if cut is None else cut * TICK)
        seen = cut
        wanted = trees_wanted(detector.run.branch.queries)
        choose = random_tree(dice.randrange(1000))(Rates())(wanted)
        detector.run.planning.take(ChosenTrees({parts: choose(parts) for parts in wanted}, "any"), None)
    result = pa.concat_tables(found) if found else detector.run.program.result_schema.empty_table()
    assert_same_results(result, enumerate_table(workload, stream_table(rows)))


@given(
    queries=st.lists(joined_queries(), min_size=2, max_size=5),
    rows=streams(types=TYPES).map(timed),
    cuts=st.lists(st.integers(-2, 10), min_size=1, max_size=4),
    dice=st.randoms(use_true_random=False),
)
@settings(max_examples=20)
def test_queries_come_and_go(queries: list[Query], rows: list[Any], cuts: list[int], dice: random.Random) -> None:
    every = named(queries)
    note(to_text(every))
    current = Workload(every.queries[:1])
    detector = detector_of(current, optimizer=dice.choice(["multitree", "reorder"]), budget=0.1)
    births: dict[str, int | None] = {every.queries[0].name: None}
    found: dict[str, list[pa.Table]] = {query.name: [] for query in every.queries}
    expected: dict[str, list[pa.Table]] = {query.name: [] for query in every.queries}
    everything = enumerate_table(every, stream_table(rows))
    seen: int | None = None
    for cut in [*sorted(set(cuts)), None]:
        for table in detector.advance(between(rows, seen, cut), None if cut is None else cut * TICK):
            for name in pc.unique(table.column("query")).to_pylist():
                found[name].append(table.filter(pc.equal(table.column("query"), name)))
        for name, birth in births.items():
            kept = everything.filter(pc.equal(everything.column("query"), name))
            for column, low, high in (("end", seen, cut), ("start", birth, None)):
                if low is not None:
                    kept = kept.filter(pc.greater_equal(kept.column(column), low))
                if high is not None:
                    kept = kept.filter(pc.less(kept.column(column), high))
            expected[name].append(kept)
        seen = cut
        if cut is None:
            break
        stay = [query for query in current.queries if dice.random() < 0.7]
        come = [query for query in every.queries if query not in current.queries and dice.random() < 0.6]
        current = Workload(tuple(dice.sample([*stay, *come], len(stay) + len(come)) or current.queries))
        births = {query.name: births.get(query.name, cut) for query in current.queries}
        program = program_of(current, optimizer=detector.run.program.options.optimizer, budget=0.1)
        detector.change(program, program.detect[0])
    for query in every.queries:
        names = ["query", "start", "end", *(f"v{at}" for at in range(4))]
        ours = [table.select(names) for table in found[query.name]]
        theirs = pa.concat_tables(expected[query.name]).select(names) if expected[query.name] else None
        empty = everything.slice(0, 0).select(names)
        assert_same_results(pa.concat_tables([*ours]) if ours else empty, empty if theirs is None else theirs)


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
    rows = swapped(2000)
    detector = detector_of(CHANGING, Drift(events=30), optimizer="reorder")
    found: list[pa.Table] = []
    for at in range(0, 2000, 200):
        found += detector.advance(between(rows, at, at + 200), (at + 200) * TICK)
    found += detector.advance(STREAM_SCHEMA.empty_table(), None)
    log = detector.run.planning.log
    assert any(change.taken for change in log)
    assert all(change.after < change.before for change in log if change.taken)
    assert "as often" in log[0].reason
    program = program_of(CHANGING)
    whole = pa.concat_tables(DetectRun(program, program.detect[0]).pieces(stream_table(rows)))
    assert_same_results(pa.concat_tables(found), whole)


def test_a_change_of_selectivity_is_noticed() -> None:
    dice = random.Random(2)
    rows = [{"time": at, "type": "ABCD"[at % 4], "x": dice.randrange(100)} for at in range(1600)]
    rows += [{"time": at, "type": "ABCD"[at % 4], "x": 200 - at % 4 * 50} for at in range(1600, 3200)]
    detector = detector_of(CHANGING, Drift(batches=1, gain=0.0), optimizer="reorder")
    for at in range(0, 3200, 400):
        list(detector.advance(between(rows, at, at + 400), (at + 400) * TICK))
    assert any("a condition holds for 0 of pairs" in change.reason for change in detector.run.planning.log)


def test_steady_rates_keep_the_plan() -> None:
    dice = random.Random(3)
    rows = [{"time": at, "type": dice.choice("ABCD"), "x": dice.randrange(100)} for at in range(2000)]
    detector = detector_of(CHANGING, Drift(), optimizer="multitree", budget=0.2)
    for at in range(0, 2000, 500):
        list(detector.advance(between(rows, at, at + 500), (at + 500) * TICK))
    assert detector.run.planning.log == []


def test_a_pattern_that_comes_reads_what_others_find() -> None:
    rows = swapped(400)
    detector = detector_of(Workload(CHANGING.queries[:1]), optimizer="multitree", budget=0.2)
    list(detector.advance(between(rows, 0, 200), 200 * TICK))
    chosen = detector.run.planning.chosen
    assert chosen is not None
    (before,) = chosen.trees.items()
    program = program_of(replace(CHANGING, text=None), optimizer="multitree")
    detector.change(program, program.detect[0])
    after = detector.run.planning.chosen
    assert after is not None
    assert after.trees[before[0]] == before[1]
    assert len(after.trees) == 2
    assert "1 patterns have become 2" in detector.run.planning.log[-1].reason
