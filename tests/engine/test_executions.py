"""What is planned is what is executed, for every optimizer; and different optimizers execute different things."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.compile import Program, compile_workload
from motet.engine.local import LocalRun
from motet.language import parse
from motet.model.query import Workload
from motet.optimizer.registry import optimizer_names
from motet.options import Options
from motet.plans.execution import Execution
from motet.plans.units import Unit
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from motet.statistics.model import Statistics
from tests.comparison import assert_same_results
from tests.engine.test_sharing_plans import SCHEMA, events, repetitions, sequences
from tests.optimizer.test_running_example import FIGURE_1

WINDOWS = ("6 s SLIDE 2 s", "4 s SLIDE 2 s", "9 s SLIDE 3 s", "60 s SLIDE 1 s", "600 s SLIDE 1 s", "10 s")


def compile_for(workload: Workload, **options: Any) -> Program:
    return compile_workload(workload, EventSchema(SCHEMA), Options(**options))


def units_of(program: Program) -> list[Unit]:
    return [unit for branch in program.branches for unit in branch.units]


def executions_of(program: Program, table: pa.Table) -> list[Execution]:
    run = LocalRun(program)
    run.outcome(run.run(table))
    return run.executed


def concerns(unit: Unit, table: pa.Table) -> bool:
    """Whether a table has events of a unit's types, with a value where they are partitioned."""
    types = {symbol.type for symbol in unit.merged.symbols}
    return any(row["type"] in types for row in table.to_pylist())


@pytest.mark.parametrize("costs", ["calibrated", "printed"])
@pytest.mark.parametrize("optimizer", optimizer_names())
@given(
    workload=repetitions(WINDOWS) | sequences(),
    table=events("AABBCCDEN"),
    rates=st.none() | st.dictionaries(st.sampled_from("ABCDEN"), st.sampled_from([0.1, 1.0, 100.0]), min_size=1),
)
def test_what_is_planned_is_executed(
    optimizer: str, costs: str, workload: Workload, table: pa.Table, rates: dict[str, float] | None
) -> None:
    statistics = None if rates is None else Statistics(given=rates)
    program = compile_for(workload, optimizer=optimizer, costs=costs, statistics=statistics)
    run = LocalRun(program)
    outcome = run.outcome(run.run(table))
    assert_same_results(outcome.table, enumerate_table(workload, table))
    planned = [unit.planned for unit in units_of(program)]
    executed = [each.signature for each in outcome.executed]
    assert set(executed) <= {each.signature for each in planned}
    # A unit that is not executed has no event to run over.
    for unit in units_of(program):
        if unit.planned.signature not in executed:
            conditions = any(symbol.conditions for symbol in unit.merged.symbols)
            assert conditions or not concerns(unit, table)


GLORIA_FIGURE_1 = "\n\n".join(
    f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {pattern}\nWITHIN 10 min SLIDE 1 min"
    for at, pattern in enumerate(("SEQ(R, SEQ(P, T)+, D)", "SEQ(A, R, SEQ(P, T)+, D)", "SEQ(A, R, SEQ(P, T)+, C)"), 1)
)


def test_optimizers_execute_different_plans_for_figure_1_of_gloria() -> None:
    rates = Statistics(given={"A": 0.5, "R": 0.4, "P": 0.05, "T": 0.3, "D": 0.4, "C": 0.1})
    table = make_stream("ARPTDC", 400)
    found = {}
    for optimizer in ("gloria", "gloria-greedy", "none"):
        program = compile_for(parse(GLORIA_FIGURE_1), optimizer=optimizer, costs="printed", statistics=rates)
        executed = executions_of(program, table)
        assert [each.signature for each in executed] == [unit.planned.signature for unit in units_of(program)]
        found[optimizer] = tuple(each.signature for each in executed)
    assert len(set(found.values())) == 3


STREETS = ("OakSt", "MainSt", "StateSt", "WestSt", "LindenSt", "ParkAve", "EastPark", "ElmSt", "GreenHill")


@pytest.mark.parametrize(
    ("costs", "rates"),
    [("printed", (0.5, 3, 0.2, 1, 0.2, 2, 2, 2, 2)), ("calibrated", (3, 0.5, 0.2, 3, 3, 0.2, 0.5, 0.5, 0.5))],
)
def test_optimizers_execute_different_plans_for_figure_1_of_sharon(costs: str, rates: tuple[float, ...]) -> None:
    statistics = Statistics(given=dict(zip(STREETS, rates, strict=True)))
    table = make_stream(STREETS, 600)
    found = {}
    for optimizer in ("sharon", "sharon-greedy", "none"):
        options = Options(optimizer=optimizer, costs=costs, statistics=statistics)  # type: ignore[arg-type]
        program = compile_workload(parse(FIGURE_1), EventSchema(table.schema), options)
        executed = executions_of(program, table)
        assert [each.signature for each in executed] == [unit.planned.signature for unit in units_of(program)]
        found[optimizer] = tuple(each.signature for each in executed)
    assert len(set(found.values())) == 3


def make_stream(types: Any, count: int) -> pa.Table:
    """A stream of one vehicle, a second between events."""
    names = [types[(at * 7 + at // 5) % len(types)] for at in range(count)]
    return pa.table(
        {
            "time": pa.array([at * 1_000_000 for at in range(count)], pa.timestamp("us")),
            "type": names,
            "vehicle": ["v"] * count,
            "k": ["p"] * count,
            "x": [1.0] * count,
        }
    )


def test_shared_parts_are_named() -> None:
    patterns = ("SEQ(A, B, C, D)", "SEQ(X, B, C, D)", "SEQ(A, B, Y)")
    text = "\n\n".join(f"QUERY q{at}\nRETURN COUNT(*)\nPATTERN {p}\nWITHIN 9 SLIDE 3" for at, p in enumerate(patterns))
    (prefix,) = units_of(compile_for(parse(text), optimizer="prefix"))
    assert [(each.part, each.queries) for each in prefix.planned.shared] == [("A, B", ("q0", "q2"))]
    (pairs,) = units_of(compile_for(parse(text), windows="pairs"))
    shared = {each.part: each.queries for each in pairs.planned.shared}
    assert shared == {"B": ("q0", "q1", "q2"), "B, C, D": ("q0", "q1"), "A, B": ("q0", "q2")}
    # What only one query has in common with itself is not shared.
    (alone, *_) = units_of(compile_for(parse(text), optimizer="none"))
    assert alone.planned.shared == ()


@pytest.mark.parametrize("where", ["", "WHERE a.x < NEXT(a).x"])
def test_a_unit_without_events_is_not_among_those_that_were_executed(where: str) -> None:
    text = f"""
    QUERY idle RETURN COUNT(*) PATTERN D a+ {where} WITHIN 9 s
    QUERY busy RETURN COUNT(*) PATTERN A a+ {where} WITHIN 9 s
    """
    executed = executions_of(compile_for(parse(text), optimizer="none"), make_stream("ABC", 20))
    assert [each.queries for each in executed] == [("busy",)]
