"""Random events in other shapes: attributes in structs, types that are numbers or booleans, or no types at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from motet.model.expression import (
    Attribute,
    Comparison,
    Expression,
    KleeneAggregate,
    Literal,
    Membership,
    map_operands,
)
from motet.model.names import rewrite_leaves
from motet.model.pattern import And, Event, Neg, Not, Or, Pattern, Repeat, Seq
from motet.model.query import Aggregate, Computed, EventDefinition, GroupKey, Query, ReturnItem, Variable, Workload
from tests.strategies import TYPES

SHAPES = ("structs", "numbers", "untyped", "all")
NESTED = {"k": "of.k", "x": "of.x", "g": "of.deep.g", "y": "of.deep.y"}
NUMBERS = {name: number for number, name in enumerate(TYPES, 10)}


def reshape_table(table: pa.Table, shape: str) -> pa.Table:
    """Return events with the columns of a shape; a struct without any value is null."""
    columns: dict[str, Any] = {name: table[name].combine_chunks() for name in table.column_names}
    if shape in ("structs", "all"):
        deep = _make_struct({name: columns.pop(name) for name in ("g", "y")})
        columns["of"] = _make_struct({"k": columns.pop("k"), "deep": deep, "x": columns.pop("x")})
    if shape in ("numbers", "all"):
        columns["type"] = pa.array([NUMBERS.get(name) for name in columns["type"].to_pylist()], pa.int16())
    if shape == "untyped":
        columns["kind"] = columns.pop("type")
    return pa.table(columns)


def _make_struct(fields: dict[str, pa.Array]) -> pa.Array:
    rows = list(zip(*(values.to_pylist() for values in fields.values()), strict=True))
    found = [dict(zip(fields, row, strict=True)) if any(each is not None for each in row) else None for row in rows]
    return pa.array(found, pa.struct([(name, values.type) for name, values in fields.items()]))


def reshape_workload(workload: Workload, shape: str) -> Workload:
    """Return the queries that ask the same of events in a shape."""
    columns = {**(NESTED if shape in ("structs", "all") else {}), **({"type": "kind"} if shape == "untyped" else {})}
    types = {name: str(number) for name, number in NUMBERS.items()} if shape in ("numbers", "all") else {}
    definitions = [
        EventDefinition(types.get(each.name, each.name), _reshape(each.condition, columns, types))
        for each in workload.definitions
    ]
    if shape == "untyped":
        known = {definition.name for definition in definitions}
        definitions += [
            EventDefinition(name, Comparison("=", Attribute("", "kind"), Literal(name)))
            for name in TYPES
            if name not in known
        ]
    return Workload(tuple(_reshape_query(query, columns, types) for query in workload.queries), tuple(definitions))


def _reshape_query(query: Query, columns: dict[str, str], types: dict[str, str]) -> Query:
    def item(each: ReturnItem) -> ReturnItem:
        match each:
            case Aggregate(_, variable, name):
                read = columns.get(name or "", name)
                return replace(each, variable=types.get(variable or "", variable), name=read, alias=each.label)
            case Variable(name):
                return replace(each, name=types.get(name, name))
            case Computed(expression):
                return replace(each, expression=_reshape(expression, columns, types))
            case GroupKey(name):
                return replace(each, name=columns.get(name, name))
        return each

    return replace(
        query,
        pattern=_rename_types(query.pattern, types),
        returns=tuple(map(item, query.returns)),
        conditions=tuple(_reshape(condition, columns, types) for condition in query.conditions),
        equivalence=tuple(columns.get(name, name) for name in query.equivalence),
        group_by=tuple(columns.get(name, name) for name in query.group_by),
    )


def _reshape(expression: Expression, columns: dict[str, str], types: dict[str, str]) -> Expression:
    def change(leaf: Attribute | KleeneAggregate) -> Expression:
        variable = types.get(leaf.variable, leaf.variable)
        return replace(leaf, variable=variable, name=columns.get(leaf.name or "", leaf.name))

    def compare(each: Expression) -> Expression:
        match each:
            case Comparison(_, Attribute("", "type"), Literal(str() as name)) if types:
                return replace(each, right=Literal(int(types[name])))
            case Membership(Attribute("", "type"), options) if types:
                return replace(each, options=tuple(Literal(int(types[str(option.value)])) for option in options))
        return map_operands(each, compare)

    return rewrite_leaves(compare(expression), change)


def _rename_types(pattern: Pattern, types: dict[str, str]) -> Pattern:
    match pattern:
        case Event(type):
            return replace(pattern, type=types.get(type, type))
        case Seq(parts) | And(parts) | Or(parts):
            return replace(pattern, parts=tuple(_rename_types(part, types) for part in parts))
        case Repeat(part):
            return replace(pattern, part=_rename_types(part, types))
        case Not(event) | Neg(event):
            return replace(pattern, event=replace(event, type=types.get(event.type, event.type)))
    raise AssertionError(pattern)
