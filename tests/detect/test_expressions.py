"""Expressions over several events, on the stack machine, mean what the reference says of each match."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from motet.compile import compile_workload
from motet.engine.local import run_table
from motet.errors import MotetError
from motet.language.printer import expression_text
from motet.model.expression import At, Attribute, Expression, KleeneAggregate
from motet.model.names import rewrite_leaves
from motet.model.pattern import Event, Repeat, Seq
from motet.model.query import AllVariables, Computed, Policy, Query, ReturnItem, Workload
from motet.reference.tables import run_table as enumerate_table
from motet.schema import EventSchema
from tests.comparison import assert_same_results
from tests.engine.test_expressions import ROWS, TYPES, conditions, lengths, numbers, texts

SCHEMA = pa.schema({"time": pa.int64(), "type": pa.string(), **TYPES})


def spread(expression: Expression, leaves: list[tuple[str, At]]) -> Expression:
    """The same expression with each attribute read of another event."""
    names = cycle(leaves)

    def read(leaf: Attribute | KleeneAggregate) -> Expression:
        variable, at = next(names)
        return Attribute(variable, leaf.name or "", at)

    return rewrite_leaves(expression, read)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    events = [{"time": at // 2, "type": "AB"[at % 2], **row} for at, row in enumerate(rows)]
    return pa.Table.from_pylist(events, schema=SCHEMA)


def agree(query: Query, rows: list[dict[str, Any]]) -> None:
    """The engine and the oracle give the same, or both an error."""
    workload, table = Workload((query,)), table_of(rows)
    try:
        expected = enumerate_table(workload, table)
    except MotetError:
        return
    try:
        program = compile_workload(workload, EventSchema(SCHEMA))
    except MotetError as error:
        # Random conditions may be about no event, or compare with NULL alone.
        note(str(error))
        return
    assert_same_results(run_table(program, table).table, expected)


@given(condition=conditions, rows=ROWS, first=st.sampled_from("ab"))
def test_conditions_of_two_events(condition: Expression, rows: list[dict[str, Any]], first: str) -> None:
    leaves = [(first, At.EACH), ("b" if first == "a" else "a", At.EACH)]
    spoken = spread(condition, leaves)
    note(expression_text(spoken))
    agree(Query("q", Seq((Event("A", "a"), Event("B", "b"))), (AllVariables(),), (spoken,)), rows)


@given(condition=conditions, rows=ROWS)
def test_conditions_of_an_event_and_the_ends_of_a_loop(condition: Expression, rows: list[dict[str, Any]]) -> None:
    spoken = spread(condition, [("a", At.FIRST), ("b", At.EACH), ("a", At.LAST)])
    note(expression_text(spoken))
    pattern = Seq((Repeat(Event("A", "a"), 0, None), Event("B", "b")))
    agree(Query("q", pattern, (AllVariables(),), (spoken,)), rows)


@given(value=numbers | texts | lengths, rows=ROWS)
def test_values_computed_from_a_match(value: Expression, rows: list[dict[str, Any]]) -> None:
    spoken = spread(value, [("a", At.EACH), ("b", At.LAST), ("b", At.FIRST)])
    note(expression_text(spoken))
    pattern = Seq((Repeat(Event("A", "a"), 0, 1), Repeat(Event("B", "b"), 1, None)))
    items: tuple[ReturnItem, ...] = (AllVariables(), Computed(spoken, "value"))
    agree(Query("q", pattern, items), rows)


@given(rows=ROWS, policy=st.sampled_from(tuple(Policy)), most=st.sampled_from([1, None]))
def test_values_of_single_events_are_returned_as_expressions_read_them(
    rows: list[dict[str, Any]], policy: Policy, most: int | None
) -> None:
    leaves = [("a", At.EACH), ("b", At.EACH if most else At.LAST), ("b", At.FIRST if most is None else At.EACH)]
    items = [Computed(Attribute(of, name, at), f"{of}{at}{name}") for of, at in set(leaves) for name in TYPES]
    pattern = Seq((Event("A", "a"), Repeat(Event("B", "b"), 1, most)))
    agree(Query("q", pattern, tuple(items), policy=policy), rows)
