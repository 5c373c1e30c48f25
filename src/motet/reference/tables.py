"""The oracle over Arrow tables: `--engine oracle`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, did_you_mean
from motet.model.expression import Arithmetic, Attribute, Call, Expression, KleeneAggregate, Literal, Negative
from motet.model.query import Aggregate, AllVariables, Computed, GroupKey, Query, Variable, Workload
from motet.reference.matches import DEFAULT_LIMIT
from motet.reference.positions import expand_pattern, max_bindings
from motet.reference.results import named_positions
from motet.reference.run import EPOCH, OracleResult, count_durations, evaluate

# The length in microseconds of a whole-number time's unit.
TICKS: dict[str, int | Fraction] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": Fraction(1, 1_000)}

WINDOW_COLUMNS = ("window_start", "window_end", "time")
MATCH_COLUMNS = ("start", "end")


def run_table(
    workload: Workload,
    table: pa.Table,
    *,
    time: str = "time",
    type: str = "type",
    time_unit: str = "s",
    counts: str = "exact",
    limit: int = DEFAULT_LIMIT,
) -> pa.Table:
    """Compute the result table of a workload over events in any order."""
    events = simplify_table(table)
    needed = (time, type) if find_undefined(workload) else (time,)
    for column in needed:
        if column not in events.column_names:
            hint = did_you_mean(column, events.column_names)
            raise DataError(f"the events have no column {column!r}" + (f" ({hint})" if hint else ""))
    tick = TICKS[time_unit]
    if pa.types.is_integer(events.schema.field(time).type):
        workload = count_durations(workload, events.to_pylist(), time, tick)
    result = evaluate(workload, events.to_pylist(), time=time, type=type, tick=tick, counts=counts, limit=limit)
    return build_result_table(result, workload, events.schema, time, tick, counts)


def find_undefined(workload: Workload) -> set[str]:
    """Return the types that a workload names and does not define."""
    named = set()
    for query in workload.queries:
        expanded = expand_pattern(query.pattern)
        named |= {event.type for event in (*expanded.events, *expanded.absent, *expanded.never)}
    return named - {definition.name for definition in workload.definitions}


def simplify_table(table: pa.Table) -> pa.Table:
    """Convert a table for plain Python: no dictionaries, one type of text, and times of microseconds, rounded down."""

    def column(values: pa.ChunkedArray) -> pa.ChunkedArray:
        values = values.cast(simplify_type(values.type))
        if pa.types.is_timestamp(values.type) and values.type.unit != "us":
            if values.type.unit == "ns":
                values = pc.floor_temporal(values, 1, "microsecond")
            values = values.cast(pa.timestamp("us", values.type.tz))
        return values

    return pa.table({name: column(table.column(name)) for name in table.column_names})


def simplify_type(found: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries and with one type of text, in fields of structs too."""
    if pa.types.is_dictionary(found):
        return simplify_type(found.value_type)
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(simplify_type(field.type)) for field in found])
    return pa.string() if pa.types.is_large_string(found) or pa.types.is_string_view(found) else found


def build_result_table(
    result: OracleResult, workload: Workload, columns: pa.Schema, time: str, tick: int | Fraction, counts: str
) -> pa.Table:
    """Convert the rows of a result to a flat table."""
    schema = result_schema(workload, columns, time, counts)
    rows = [flat_row(row, schema, tick) for row in result.rows]
    for name in (field.name for field in schema if pa.types.is_decimal(field.type)):  # which are floats in expressions
        rows = [{**row, name: Decimal(repr(v)) if isinstance(v := row.get(name), float) else v} for row in rows]
    return pa.Table.from_pylist(rows, schema=schema)


def result_schema(workload: Workload, columns: pa.Schema, time: str, counts: str) -> pa.Schema:
    """Return the result's columns: times, GROUP BY attributes, aggregate labels, then what matches show."""
    clock = columns.field(time).type
    when = pa.timestamp("us", clock.tz) if pa.types.is_timestamp(clock) else pa.timestamp("us")
    when = pa.int64() if pa.types.is_integer(clock) else when
    fields: dict[str, pa.DataType] = {"query": pa.string()}
    aggregate = [query for query in workload.queries if query.is_aggregate]
    detect = [query for query in workload.queries if not query.is_aggregate]
    fields |= dict.fromkeys(WINDOW_COLUMNS, when) if aggregate or not detect else {}
    fields |= dict.fromkeys(MATCH_COLUMNS, when) if detect else {}
    labels = [(query, *column) for query in aggregate + detect for column in label_types(query, columns, counts)]
    groups = [(query, name) for query in workload.queries for name in query.group_by]
    named = [*groups, *((query, label) for query, label, _ in labels)]
    reserved = reserved_names(workload) | {f"{query.name}.{name}" for query, name in named}
    for query, name in groups:
        fields[f"{query.name}.{name}" if name in reserved else name] = column_type(columns, name)
    reserved |= {name for _, name in groups}
    for query, label, found in labels:
        others = {other for _, name, other in labels if name == label}
        fields[f"{query.name}.{label}" if len(others) > 1 or label in reserved else label] = found
    return pa.schema(fields)


def reserved_names(workload: Workload) -> set[str]:
    """Return the columns that tell the query and the times of a row."""
    taken = {"query"}
    for query in workload.queries:
        taken |= {*(WINDOW_COLUMNS if query.is_aggregate else MATCH_COLUMNS)}
    return taken


def label_types(query: Query, columns: pa.Schema, counts: str) -> list[tuple[str, pa.DataType]]:
    """Return what RETURN asks for, with types."""
    if query.is_aggregate:
        return [(item.label, aggregate_type(item, columns, counts)) for item in query.aggregates]
    return list(match_types(query, columns))


def column_type(columns: pa.Schema, name: str) -> pa.DataType:
    """Return the type of an event column or of a field of one; nulls where the events do not have it."""
    if name in columns.names:
        return columns.field(name).type
    column, _, field = name.partition(".")
    inner = columns.field(column).type if column in columns.names else pa.null()
    return column_type(pa.schema(list(inner)), field) if pa.types.is_struct(inner) else pa.null()


def aggregate_type(item: Aggregate, columns: pa.Schema, counts: str) -> pa.DataType:
    """Return the type of an aggregate's column."""
    match item.function:
        case "COUNT":
            return pa.float64() if counts == "double" else pa.int64()
        case "MIN" | "MAX":
            assert item.name is not None
            return column_type(columns, item.name)
        case _:
            return pa.float64()


def match_types(query: Query, columns: pa.Schema) -> Iterable[tuple[str, pa.DataType]]:
    """Return the columns of a match query and their types."""
    expanded = expand_pattern(query.pattern)
    event = pa.struct(list(columns))

    def get_type(positions: frozenset[int]) -> pa.DataType:
        return pa.list_(event) if max_bindings(expanded.tree, positions) > 1 else event

    for item in query.returns:
        match item:
            case AllVariables():
                for name in dict.fromkeys(event.name for event in expanded.events):
                    yield name, get_type(named_positions(expanded, name))
            case Variable(name):
                yield item.label, get_type(expanded.positions(name))
            case Computed(expression):
                yield item.label, value_type(expression, columns)
            case Aggregate() | GroupKey():
                pass


def value_type(expression: Expression, columns: pa.Schema) -> pa.DataType:
    """Return the type of what an expression computes."""
    match expression:
        case Literal(value):
            return pa.scalar(value).type
        case Attribute(_, name):
            return column_type(columns, name)
        case KleeneAggregate(function, variable, name):
            return aggregate_type(Aggregate(function, variable, name), columns, "exact")
        case Arithmetic("/", left, right):
            dividend, divisor = (pa.types.is_duration(value_type(side, columns)) for side in (left, right))
            return pa.duration("us") if dividend and not divisor else pa.float64()
        case Arithmetic(_, left, right):
            types = value_type(left, columns), value_type(right, columns)
            if all(pa.types.is_temporal(found) and not pa.types.is_duration(found) for found in types):
                return pa.duration("us")
            if any(pa.types.is_timestamp(found) or pa.types.is_date(found) for found in types):
                return pa.timestamp("us")
            return pa.duration("us") if any(map(pa.types.is_duration, types)) else wider_type(*types)
        case Negative(operand) | Call("ABS", (operand,)):
            found = value_type(operand, columns)
            return found if pa.types.is_duration(found) else wider_type(found, pa.int64())
        case Call("SQRT"):
            return pa.float64()
        case Call("FLOOR" | "CEIL" | "LENGTH"):
            return pa.int64()
        case Call("COALESCE", arguments):
            return coalesce_types([value_type(argument, columns) for argument in arguments])
        case Call():
            return pa.string()
        case _:
            return pa.bool_()


def wider_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of arithmetic on two numbers."""
    both_whole = all(pa.types.is_integer(side) or pa.types.is_null(side) for side in (left, right))
    return pa.int64() if both_whole else pa.float64()


def coalesce_types(types: list[pa.DataType]) -> pa.DataType:
    """Return the type that the first of some values may have which is not null."""
    known = [found for found in types if not pa.types.is_null(found)]
    if len(set(known)) <= 1:
        return known[0] if known else pa.null()
    return wider_type(known[0], known[1])


def flat_row(row: Mapping[str, Any], schema: pa.Schema, tick: int | Fraction) -> dict[str, Any]:
    """Flatten a result row, with one entry for each column it fills."""
    found = {"query": row["query"]}
    for label, value in {**row["group"], **row.get("values", {}), **row.get("match", {})}.items():
        own = f"{row['query']}.{label}"
        found[own if own in schema.names else label] = value
    for name in (*WINDOW_COLUMNS, *MATCH_COLUMNS):
        if name in row:
            found[name] = clock_value(row[name], schema.field(name).type, tick)
    return {name: fit_value(value, schema.field(name).type) for name, value in found.items()}


def fit_value(value: Any, wanted: pa.DataType) -> Any:
    """Convert a value to the type of its column."""
    return float(value) if pa.types.is_float64(wanted) and isinstance(value, int) else value


def clock_value(microseconds: int, wanted: pa.DataType, tick: int | Fraction) -> int | dt.datetime:
    """Convert a time back to how it came in."""
    if not pa.types.is_integer(wanted):
        zone = dt.UTC if wanted.tz is not None else None
        return EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=microseconds)
    value = Fraction(microseconds) / tick
    if value.denominator != 1:
        raise DataError(f"a result at {microseconds} us is no whole number of the time column's units")
    return int(value)
