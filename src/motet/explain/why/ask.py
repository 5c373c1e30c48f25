"""Finds the events that a question is about: of a key, in a range of time, and those around it that have a say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import microseconds
from motet.engine.schema import EventSchema
from motet.errors import DataError, Diagnostic, QueryError, did_you_mean
from motet.explain.why.climb import Stretch, explain
from motet.explain.why.ladder import ladder
from motet.explain.why.report import Explanation
from motet.model.query import Query, Workload
from motet.model.window import TimeWindow


def ask(
    workload: Workload,
    schema: EventSchema,
    batches: Iterable[pa.RecordBatch],
    *,
    query: str | None,
    key: Mapping[str, Any],
    start: Any,
    end: Any,
    limit: int,
) -> Explanation:
    """Explain one query of a workload over the rows of some batches."""
    asked = _asked(workload, query)
    values = {name: _key_value(name, value, asked, schema) for name, value in key.items()}
    begin, finish = (_time_of(bound, schema) for bound in (start, end))
    reach = _reach(asked, schema)
    kept = [_around(_of_key(pa.Table.from_batches([batch]), values), schema, begin, finish, reach) for batch in batches]
    around = pa.concat_tables(kept) if kept else schema.columns.empty_table()
    inside = _between(around, schema, begin, finish)
    shown = {name: value.as_py() for name, value in values.items()}
    return explain(asked, workload.definitions, schema, Stretch(inside, around, begin, finish), shown, limit)


def _asked(workload: Workload, name: str | None) -> Query:
    names = [query.name for query in workload.queries]
    if name is None:
        if len(names) > 1:
            message = f"there are {len(names)} queries: say which one to explain"
            found = Diagnostic(message, hint=f"--query or query= takes one of {', '.join(names)}")
            raise QueryError([found], workload.text, workload.origin)
        return workload.queries[0]
    if name not in names:
        found = Diagnostic(f"there is no query {name!r}", hint=did_you_mean(name, names))
        raise QueryError([found], workload.text, workload.origin)
    return workload[name]


def _key_value(name: str, value: Any, query: Query, schema: EventSchema) -> pa.Scalar:
    """A key as its column holds it; only what divides the events of a query can be one, or NOTs would miss events."""
    if name not in query.partition:
        keys = ", ".join(query.partition)
        known = f"its keys are {keys}" if keys else "it has neither GROUP BY nor [attribute]"
        raise DataError(f"query {query.name} does not tell events apart by {name!r}: {known}")
    kind = schema.columns.field(name).type
    try:
        return pa.scalar(value).cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{value!r} is no value of column {name!r}, which holds {kind}") from None


def _time_of(bound: Any, schema: EventSchema) -> Any:
    """A time as results have it; text is a whole number or ISO 8601."""
    if bound is None:
        return None
    try:
        if schema.is_whole:
            return int(bound)
        moment = dt.datetime.fromisoformat(bound) if isinstance(bound, str) else bound
        return pa.scalar(moment, schema.result_time_type).as_py()
    except (TypeError, ValueError, pa.ArrowInvalid):
        wanted = "a whole number, as the time column holds" if schema.is_whole else "a time such as 2013-01-31T12:00"
        raise DataError(f"{bound!r} is no time: write {wanted}") from None


def _reach(query: Query, schema: EventSchema) -> int | None:
    """How far before and after a match events have a say in it, in microseconds; None for all of the input."""
    if not any(rung.open for rung in ladder(query).rungs):
        return 0
    match query.window:
        case TimeWindow(size, _, ticks):
            return size * schema.tick if ticks else size
    return None


def _of_key(table: pa.Table, key: Mapping[str, pa.Scalar]) -> pa.Table:
    for name, value in key.items():
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        table = table.filter(pc.fill_null(pc.equal(column, value), False))
    return table


def _around(table: pa.Table, schema: EventSchema, start: Any, end: Any, reach: int | None) -> pa.Table:
    """The rows that may matter to matches between two times."""
    if reach is None or (start is None and end is None):
        return table
    times = microseconds(_times(table, schema), schema)
    for bound, keeps, away in ((start, pc.greater_equal, -reach), (end, pc.less_equal, reach)):
        if bound is not None:
            at = microseconds(pa.array([bound], schema.result_time_type), schema)[0].as_py()
            kept = pc.fill_null(keeps(times, at + away), False)
            table, times = table.filter(kept), times.filter(kept)
    return table


def _between(table: pa.Table, schema: EventSchema, start: Any, end: Any) -> pa.Table:
    """The rows from `start`, included, to `end`, not included."""
    for bound, keeps in ((start, pc.greater_equal), (end, pc.less)):
        if bound is not None:
            times = _times(table, schema).cast(schema.result_time_type, safe=False)
            table = table.filter(pc.fill_null(keeps(times, pa.scalar(bound, schema.result_time_type)), False))
    return table


def _times(table: pa.Table, schema: EventSchema) -> pa.Array:
    column = table.column(schema.time).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
