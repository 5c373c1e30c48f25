"""Selects the events that an explanation is about: those of a key in a range of time, and the ones around them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, Diagnostic, QueryError, did_you_mean
from motet.explain.diagnosis.diagnose import EventRange, diagnose
from motet.explain.diagnosis.relaxations import relax_query
from motet.explain.diagnosis.report import Explanation
from motet.model.query import Query, Workload
from motet.model.window import TimeWindow
from motet.schema import EventSchema


def explain_query(
    workload: Workload,
    schema: EventSchema,
    rows: Iterable[pa.Table],
    *,
    query: str | None,
    key: Mapping[str, Any],
    start: Any,
    end: Any,
    limit: int,
) -> Explanation:
    """Explain one query of a workload over the rows of some tables."""
    asked = _find_query(workload, query)
    values = {name: _convert_key(name, value, asked, schema) for name, value in key.items()}
    start, end = (_convert_time(bound, schema) for bound in (start, end))
    first, last = (_to_microseconds(bound, schema) for bound in (start, end))
    context = _find_context_size(asked, schema)
    kept = []
    for each in rows:
        table = _filter_key(each, values)
        if context is not None:
            begin = None if first is None else first - context
            stop = None if last is None else last + context + 1
            table = _filter_times(table, schema, schema.to_microseconds, begin, stop)
        kept.append(table)
    around = pa.concat_tables(kept) if kept else schema.columns.empty_table()
    # In the unit of results: whole numbers may count nanoseconds.
    inside = _filter_times(around, schema, lambda times: times.cast(schema.result_time_type, safe=False), start, end)
    shown = {name: value.as_py() for name, value in values.items()}
    return diagnose(asked, workload.definitions, schema, EventRange(inside, around, start, end), shown, limit)


def _find_query(workload: Workload, name: str | None) -> Query:
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


def _convert_key(name: str, value: Any, query: Query, schema: EventSchema) -> pa.Scalar:
    """Convert a key to the type of its column.

    Only partition attributes of the query can be keys: by any other, NOTs would miss events.
    """
    if name not in query.partition:
        keys = ", ".join(query.partition)
        known = f"its keys are {keys}" if keys else "it has neither GROUP BY nor [attribute]"
        raise DataError(f"query {query.name} does not tell events apart by {name!r}: {known}")
    kind = schema.columns.field(name).type
    try:
        return pa.scalar(value).cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{value!r} is no value of column {name!r}, which holds {kind}") from None


def _convert_time(bound: Any, schema: EventSchema) -> Any:
    """Convert a time to the one of results; text is a whole number or ISO 8601."""
    if bound is None:
        return None
    try:
        if schema.has_integer_time:
            return int(bound)
        moment = dt.datetime.fromisoformat(bound) if isinstance(bound, str) else bound
        return pa.scalar(moment, schema.result_time_type).as_py()
    except (TypeError, ValueError, pa.ArrowInvalid):
        wanted = (
            "a whole number, as the time column holds" if schema.has_integer_time else "a time such as 2013-01-31T12:00"
        )
        raise DataError(f"{bound!r} is no time: write {wanted}") from None


def _to_microseconds(bound: Any, schema: EventSchema) -> int | None:
    if bound is None:
        return None
    found: int | None = schema.to_microseconds(pa.array([bound], schema.result_time_type))[0].as_py()
    return found


def _find_context_size(query: Query, schema: EventSchema) -> int | None:
    """Return how far around a match events decide about it, in microseconds; None for all of the input."""
    if not any(relaxation.needs_context for relaxation in relax_query(query).relaxations):
        return 0
    match query.window:
        case TimeWindow(size, _, ticks):
            return int(size * schema.tick) if ticks else size
    return None


def _filter_key(table: pa.Table, key: Mapping[str, pa.Scalar]) -> pa.Table:
    for name, value in key.items():
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        table = table.filter(pc.fill_null(pc.equal(column, value), False))
    return table


def _filter_times(
    table: pa.Table, schema: EventSchema, convert: Callable[[pa.Array], pa.Array], start: Any, end: Any
) -> pa.Table:
    """Return the rows from `start`, included, to `end`, not included, both in the unit that `convert` gives."""
    for bound, keeps in ((start, pc.greater_equal), (end, pc.less)):
        if bound is not None:
            column = table.column(schema.time).combine_chunks()
            times = convert(pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)
            table = table.filter(pc.fill_null(keeps(times, pa.scalar(bound, times.type)), False))
    return table
