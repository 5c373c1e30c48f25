"""Random events in other shapes: attributes in structs, types and times of every kind, or no types at all."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
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
from motet.model.window import TimeWindow, Window
from motet.schema import TICKS
from tests.strategies import TYPES, Dice

SECOND = 1_000_000  # of a random stream, in microseconds
NESTED = {"k": "of.k", "x": "of.x", "g": "of.deep.g", "y": "of.deep.y"}
NUMBERS = {name: number for number, name in enumerate(TYPES, 10)}


@dataclass(frozen=True)
class Clock:
    """What holds the times of events, and how many microseconds a second of a random stream lasts there.

    `unit` is that of whole numbers.
    """

    type: pa.DataType
    second: int = SECOND
    unit: str = "s"


SECONDS = Clock(pa.int64())
CLOCKS = (
    SECONDS,
    Clock(pa.int32()),
    Clock(pa.int64(), 1_000, "ms"),
    Clock(pa.int64(), 60 * SECOND, "ms"),
    Clock(pa.int64(), 2, "us"),
    Clock(pa.int64(), 4, "ns"),
    Clock(pa.timestamp("us")),
    Clock(pa.timestamp("s"), 60 * SECOND),
    Clock(pa.timestamp("us", "America/New_York")),
    Clock(pa.timestamp("ns", "UTC"), 1_000),
    Clock(pa.date32(), 86_400 * SECOND),
)
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
KINDS = ("text", "text", "numbers", "untyped")


@dataclass(frozen=True)
class Shape:
    """How events are written: attributes in structs, texts of which type, types as what, and times by which clock.

    With `other_times` conditions read times from another column, which holds timestamps.
    """

    structs: bool = False
    text: pa.DataType = TEXTS[0]
    types: str = "text"
    clock: Clock = SECONDS
    other_times: bool = False


def draw_shape(dice: Dice) -> Shape:
    """Draw how events are written."""
    return Shape(dice.once_in(2), dice.pick(TEXTS), dice.pick(KINDS), dice.pick(CLOCKS), dice.once_in(4))


def reshape_table(table: pa.Table, shape: Shape) -> pa.Table:
    """Return events with the columns of a shape; a struct without any value is null."""
    columns: dict[str, Any] = {name: table[name].combine_chunks() for name in table.column_names}
    seconds, columns["time"] = columns["time"], _write_times(columns["time"], shape.clock)
    if shape.other_times:
        columns["at"] = _write_times(seconds, replace(shape.clock, type=pa.timestamp("us")))
    for name in ("s", "g", "type"):
        columns[name] = pa.array(columns[name].to_pylist(), shape.text)
    if shape.structs:
        deep = _make_struct({name: columns.pop(name) for name in ("g", "y")})
        columns["of"] = _make_struct({"k": columns.pop("k"), "deep": deep, "x": columns.pop("x")})
    if shape.types == "numbers":
        columns["type"] = pa.array([NUMBERS.get(name) for name in columns["type"].to_pylist()], pa.int16())
    if shape.types == "untyped":
        columns["kind"] = columns.pop("type")
    return pa.table(columns)


def _write_times(seconds: pa.Array, clock: Clock) -> pa.Array:
    moments = [None if at is None else _write_moment(at, clock) for at in seconds.to_pylist()]
    if pa.types.is_integer(clock.type):
        return pa.array(moments, clock.type)
    zone = getattr(clock.type, "tz", None)
    return pa.array(moments, pa.timestamp("us", zone)).cast(clock.type)


def _write_moment(seconds: int, clock: Clock) -> int | dt.datetime:
    """Return a time of a random stream as the events of a shape have it."""
    micros = seconds * clock.second
    if pa.types.is_integer(clock.type):
        return micros * 1_000 if clock.unit == "ns" else micros // TICKS[clock.unit]
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)


def simplify_results(found: pa.Table) -> pa.Table:
    """Return results with one type of text and times of microseconds in their events, as those of the oracle."""
    return found.cast(pa.schema([field.with_type(_simplify(field.type)) for field in found.schema]))


def _simplify(found: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_simplify(field.type)) for field in found])
    if pa.types.is_list(found):
        return pa.list_(_simplify(found.value_type))
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    return pa.string() if found in TEXTS else found


def _make_struct(fields: dict[str, pa.Array]) -> pa.Array:
    rows = list(zip(*(values.to_pylist() for values in fields.values()), strict=True))
    found = [dict(zip(fields, row, strict=True)) if any(each is not None for each in row) else None for row in rows]
    return pa.array(found, pa.struct([(name, values.type) for name, values in fields.items()]))


def reshape_workload(workload: Workload, shape: Shape) -> Workload:
    """Return the queries that ask the same of events in a shape."""
    columns = {**(NESTED if shape.structs else {}), **({"type": "kind"} if shape.types == "untyped" else {})}
    types = {name: str(number) for name, number in NUMBERS.items()} if shape.types == "numbers" else {}
    change = _Change(columns, types, shape.clock, shape.other_times)
    definitions = [
        EventDefinition(types.get(each.name, each.name), change.expression(each.condition))
        for each in workload.definitions
    ]
    if shape.types == "untyped":
        known = {definition.name for definition in definitions}
        definitions += [
            EventDefinition(name, Comparison("=", Attribute("", "kind"), Literal(name)))
            for name in TYPES
            if name not in known
        ]
    return Workload(tuple(map(change.query, workload.queries)), tuple(definitions))


@dataclass(frozen=True)
class _Change:
    """What columns and types are called in a shape, and what holds times."""

    columns: dict[str, str]
    types: dict[str, str]
    clock: Clock
    other_times: bool

    def query(self, query: Query) -> Query:
        return replace(
            query,
            pattern=_rename_types(query.pattern, self.types),
            returns=tuple(map(self.item, query.returns)),
            conditions=tuple(map(self.condition, query.conditions)),
            equivalence=tuple(self.columns.get(name, name) for name in query.equivalence),
            group_by=tuple(self.columns.get(name, name) for name in query.group_by),
            window=self.window(query.window),
            having=query.having and rewrite_leaves(self.literals(query.having), self.having_leaf),
        )

    def window(self, window: Window | None) -> Window | None:
        match window:
            case TimeWindow(size, slide, True):
                second = _write_moment(1, self.clock)
                is_whole = isinstance(second, int)
                length = second if isinstance(second, int) else self.clock.second
                return TimeWindow(size * length, slide and slide * length, is_whole)
        return window

    def item(self, each: ReturnItem) -> ReturnItem:
        match each:
            case Aggregate(_, variable, name):
                read = self.columns.get(name or "", name)
                return replace(each, variable=self.types.get(variable or "", variable), name=read, alias=each.label)
            case Variable(name):
                return replace(each, name=self.types.get(name, name))
            case Computed(expression):
                return replace(each, expression=self.expression(expression))
            case GroupKey(name):
                return replace(each, name=self.columns.get(name, name))
        return each

    def condition(self, condition: Expression) -> Expression:
        if not self.other_times:
            return self.expression(condition)
        clock = replace(self.clock, type=pa.timestamp("us"))
        return replace(self, clock=clock, columns={**self.columns, "time": "at"}).expression(condition)

    def expression(self, expression: Expression) -> Expression:
        return rewrite_leaves(self.literals(expression), self.leaf)

    def leaf(self, leaf: Attribute | KleeneAggregate) -> Expression:
        variable = self.types.get(leaf.variable, leaf.variable)
        return replace(leaf, variable=variable, name=self.columns.get(leaf.name or "", leaf.name))

    def having_leaf(self, leaf: Attribute | KleeneAggregate) -> Expression:
        return replace(leaf, name=self.columns.get(leaf.name or "", leaf.name))

    def literals(self, each: Expression) -> Expression:
        match each:
            case Literal(dt.timedelta() as length):
                return replace(each, value=length * self.clock.second / SECOND)
            case Comparison(_, Attribute(_, "time"), Literal(int() as moment)):
                return replace(each, right=Literal(_write_moment(moment, self.clock)))
            case Comparison(_, Attribute("", "type"), Literal(str() as name)) if self.types:
                return replace(each, right=Literal(int(self.types[name])))
            case Membership(Attribute("", "type"), options) if self.types:
                return replace(each, options=tuple(Literal(int(self.types[str(option.value)])) for option in options))
        return map_operands(each, self.literals)


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
