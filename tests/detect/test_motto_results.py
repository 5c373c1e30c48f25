"""Whatever queries share by MOTTO, the matches are those of plain enumeration, and those of queries that run alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.language.printer import to_text
from motet.model.expression import Attribute, Comparison, Expression
from motet.model.pattern import And, Event, Not, Or, Pattern, Seq
from motet.model.query import AllVariables, Query, Workload
from motet.model.window import TimeWindow
from motet.optimizer.motto.motto import VARIANTS
from motet.options import Options
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.detect.test_against_oracle import select_supported
from tests.strategies import build_stream_table, streams, workloads

Rows = list[dict[str, Any]]


@st.composite
def related_queries(draw: st.DrawFn, name: str) -> Query:
    """Queries that are likely to have something in common: few types, operators, conditions and windows."""
    types = draw(st.lists(st.sampled_from("ABCD"), min_size=2, max_size=4))
    events: list[Pattern] = [Event(type, f"v{at}") for at, type in enumerate(types)]
    match draw(st.integers(0, 6)):
        case 0 | 1:
            pattern: Pattern = Seq(tuple(events))
        case 2 | 3:
            pattern = And(tuple(events))
        case 4:
            pattern = Seq((events[0], And((events[1], *events[2:])))) if len(events) > 2 else Seq(tuple(events))
        case 5:
            either = Or(tuple(events[-2:]))
            pattern = Seq((*events[:-2], either)) if len(events) > 2 else either
        case _:
            pattern = Seq((*events[:-1], Not(Event("N", "n")), events[-1]))
    conditions: list[Expression] = []
    for at in range(len(types) - 1):
        if draw(st.booleans()):
            sign = draw(st.sampled_from(["<", ">="]))
            conditions.append(Comparison(sign, Attribute(f"v{at}", "x"), Attribute(f"v{at + 1}", "x")))
    window = TimeWindow(draw(st.sampled_from([3, 6, 12])), draw(st.sampled_from([None, None, 3])), ticks=True)
    return Query(name, pattern, (AllVariables(),), tuple(conditions), window=window)


@st.composite
def related_workloads(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(2, 6))
    return Workload(tuple(draw(related_queries(f"q{number}")) for number in range(count)))


def results(workload: Workload, table: pa.Table, optimizer: str) -> pa.Table:
    program = compile_workload(workload, EventSchema(table.schema), Options(optimizer=optimizer, budget=0.5))
    return run_table(program, table).table


@pytest.mark.parametrize("optimizer", VARIANTS)
@given(workload=related_workloads(), rows=streams(types=("A", "B", "C", "D", "N")))
def test_related_queries_keep_their_matches(optimizer: str, workload: Workload, rows: Rows) -> None:
    note(to_text(workload))
    table = build_stream_table(rows)
    found = results(workload, table, optimizer)
    assert_same_results(found, enumerate_table(workload, table))
    assert_same_results(found, results(workload, table, "none"))


@given(workload=workloads(min_queries=2, max_queries=5, detection=True), rows=streams())
def test_queries_of_any_kind_keep_their_matches(workload: Workload, rows: Rows) -> None:
    workload = select_supported(workload)
    note(to_text(workload))
    table = build_stream_table(rows)
    assert_same_results(results(workload, table, "motto"), enumerate_table(workload, table))
