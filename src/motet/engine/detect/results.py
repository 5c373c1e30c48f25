"""Build the rows of matches: structs of the events they bind, or values of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Program
from motet.compile.detect import decode_type, match_columns
from motet.engine.detect.bindings import check_overflow, entries_at, longest_match, match_times
from motet.engine.detect.compiled_plan import RowLayout
from motet.engine.detect.instances import PlanRunner
from motet.engine.detect.rules import QueryCode, position_slots
from motet.engine.encode import Ints, as_one_array
from motet.kernels.match_filter import Matches, evaluate_matches, new_match_scratch, select_events
from motet.kernels.operators import MatchOutput
from motet.kernels.order import sort_rows
from motet.kernels.ragged import offsets_from_counts
from motet.model.expression import At, Attribute
from motet.plans.detect.query import DetectQuery
from motet.template.positions import max_bindings


class LayoutBuilder:
    """Builder of the rows of all queries whose matches need no closer look, many queries at a time."""

    def __init__(self, runner: PlanRunner, events: DecodedColumns) -> None:
        self.plan, self.encoded, self.events = runner.plan, runner.encoded, events
        self.program = runner.plan.program
        self.sorts = has_structs(self.program)

    @cached_property
    def own(self) -> dict[str, pa.Array]:
        """The columns of a struct of an event."""
        return {name: self.events[name] for name in self.program.schema.own_columns.names if name in self.events}

    def build(self, found: MatchOutput) -> Iterator[pa.Table]:
        """Yield the rows of matches, a table for each layout; those with structs are sorted by query and time."""
        sinks = self.plan.plain_sinks
        if len(sinks.layouts) == 1:
            rows = _time_order(found.sink, found.first, found.last) if self.sorts else slice(None)
            yield self._build_table(sinks.layouts[0], found, rows)
            return
        layout = sinks.layout[found.sink]
        for number in np.unique(layout).tolist():
            rows = np.flatnonzero(layout == number)
            if self.sorts:
                rows = rows[_time_order(found.sink[rows], found.first[rows], found.last[rows])]
            yield self._build_table(sinks.layouts[number], found, rows)

    def _build_table(self, layout: RowLayout, found: MatchOutput, rows: Any) -> pa.Table:
        """Build the rows of some matches, or of all by a slice. The output is reused: no row is a view of it."""
        program, sink = self.program, found.sink[rows]
        sinks = self.plan.plain_sinks
        is_one = bool(sink[0] == sink[-1] and (sink == sink[0]).all())
        first, last = (copy_rows(times, rows) for times in (found.first, found.last))
        columns: dict[str, Any] = {
            "query": pa.repeat(sinks.names[int(sink[0])], len(sink)) if is_one else sinks.names.take(pa.array(sink)),
            "start": program.schema.from_microseconds(first),
            "end": program.schema.from_microseconds(last),
        }
        for column, name in layout.groups:
            columns[column] = self.encoded.keys[name].take(pa.array(found.key[rows]))
        for at, (label, attribute) in enumerate(layout.labels):
            place = sinks.columns[sink[:1] if is_one else sink, at]
            same = is_one or bool((place == place[0]).all())
            events = found.columns[place[0], rows] if same else found.columns[place, np.arange(len(found.sink))[rows]]
            events = self.encoded.rows.take(events)
            if attribute is not None:
                columns[label] = take_values(self.events.read_values(attribute), events)
                continue
            arrays = [take_values(column, events) for column in self.own.values()]
            columns[label] = pa.StructArray.from_arrays(arrays, list(self.own))
        return as_result_rows(columns, program.result_schema, len(sink))


def _time_order(sink: NDArray[np.int32], first: Ints, last: Ints) -> Ints:
    """Return the order of matches by sink, first and last time."""
    begin, took = first - first.min(), last - first
    keys = [(sink, int(sink.max()) + 1), (begin, int(begin.max()) + 1), (took, int(took.max()) + 1)]
    order = sort_rows(keys)
    return np.arange(len(sink)) if order is None else order


def take_values(column: pa.Array, rows: Ints) -> pa.Array:
    """Return the values of a column at some rows. Numbers without nulls are taken by numpy, in a third of the time."""
    if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        values = column.to_numpy()
        buffer, out = allocate_column(len(rows), values.dtype)
        values.take(rows, out=out, mode="clip")  # which writes to `out` at once; all rows are there
        return pa.Array.from_buffers(column.type, len(rows), [None, buffer])
    return pc.take(column, pa.array(rows), boundscheck=False)


def copy_rows(values: Ints, rows: Any) -> Ints:
    """Return some values, or all by a slice, in memory of their own."""
    if not isinstance(rows, slice):
        picked: Ints = values.take(rows)
        return picked
    copied: Ints = allocate_column(len(values), values.dtype)[1]
    copied[:] = values
    return copied


def allocate_column(size: int, dtype: np.dtype[Any]) -> tuple[pa.Buffer, NDArray[Any]]:
    """Create room for a column of results, as a buffer and as the array to fill it by.

    It is Arrow's memory, which keeps what is freed for later batches: numpy's goes back to the operating system.
    """
    buffer = pa.allocate_buffer(size * dtype.itemsize)
    return buffer, np.frombuffer(buffer, dtype)


def as_result_rows(columns: Mapping[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """Return columns as rows of results; those that are missing are null."""
    arrays = [
        _cast_to(columns[field.name], field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def has_structs(program: Program) -> bool:
    """Return whether rows of results have structs, and so are sorted as they are built: what is sorted when all is
    there is not sorted before, but moving structs would cost as much as building them.
    """
    return any(pa.types.is_nested(field.type) for field in program.result_schema)


class MatchTableBuilder:
    """Builder of the rows of one query that returns matches."""

    def __init__(self, query: DetectQuery, codes: QueryCode, runner: PlanRunner, events: DecodedColumns) -> None:
        self.query = query
        self.codes = codes
        self.encoded, self.expressions = runner.encoded, runner.expressions
        program = runner.plan.program
        own = {name: events[name] for name in program.schema.own_columns.names if name in events}
        self.own, self.events = own, events
        self.fields = [pa.field(name, array.type) for name, array in own.items()]
        self.schema, self.result_schema = program.schema, program.result_schema
        self.column_names = program.column_names[query.number]

    def build(self, found: Matches) -> pa.Table:
        """Build the rows of some matches."""
        size = len(found.key)
        first, last = match_times(found, self.encoded)
        columns: dict[str, Any] = {
            "query": pa.repeat(self.query.query.name, size),
            "start": self.schema.from_microseconds(first),
            "end": self.schema.from_microseconds(last),
        }
        for name in self.query.query.group_by:
            columns[self.column_names[name]] = self.encoded.keys[name].take(pa.array(found.key))
        for label, what in match_columns(self.query):
            if isinstance(what, frozenset):
                values = self._bound_events(found, what)
            elif label in self.codes.computed:
                values = self._compute_column(found, self.codes.computed[label])
            else:
                assert isinstance(what, Attribute)
                rows = self._single_rows(found, self.query.positions.find(what.variable), what.at)[0]
                values = pc.take(self.events.read_values(what.name), rows, boundscheck=False)
            columns[self.column_names[label]] = values
        return as_result_rows(columns, self.result_schema, size)

    def _bound_events(self, found: Matches, positions: frozenset[int]) -> pa.Array:
        """Return the events of a variable: a list where it may be bound more than once, else the event or null."""
        if max_bindings(self.query.positions.graph, positions) > 1:
            entries, match_of = entries_at(found, positions)
            counts = np.bincount(match_of, minlength=len(found.key))
            offsets = offsets_from_counts(counts).astype(np.int32)
            rows = pa.array(self.encoded.rows[found.event[entries]])
            return pa.ListArray.from_arrays(pa.array(offsets), self._structs(rows))
        return self._structs(*self._single_rows(found, positions))

    def _single_rows(
        self, found: Matches, positions: frozenset[int], at: At = At.EACH
    ) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Return the row of the event that each match binds to the positions, and which bind none.

        Of several events, it is the last one, or the first where `at` asks for that.
        """
        wanted = np.zeros(len(self.query.positions.events), np.bool_)
        wanted[list(positions)] = True
        one, none = np.empty(len(found.key), np.int64), np.empty(len(found.key), np.bool_)
        select_events(found, wanted, at is At.FIRST, one, none)
        return pa.array(self.encoded.rows[one], mask=none if none.any() else None), none

    def _structs(self, rows: pa.Array, none: Any = None) -> pa.Array:
        arrays = [pc.take(column, rows, boundscheck=False) for column in self.own.values()]
        mask = None if none is None or not none.any() else pa.array(none)
        return pa.StructArray.from_arrays(arrays, fields=self.fields, mask=mask)

    def _compute_column(self, found: Matches, number: int) -> pa.Array:
        work = new_match_scratch(len(self.query.slots), longest_match(found) + 2)
        expressions = self.expressions
        slots = position_slots(self.query)
        ints, floats, null = evaluate_matches(found, slots, expressions.code, number, expressions.values, work)
        check_overflow(work.stack, f"query {self.query.query.name}: a whole number in RETURN")
        match expressions.kinds[number]:
            case "float":
                return pa.array(floats, mask=null)
            case "text":
                return expressions.words.take(pa.array(ints, mask=null))
            case "bool":
                return pa.array(ints != 0, mask=null)
            case "time":
                return pa.array(ints, mask=null).cast(pa.timestamp("us"))
        return pa.array(ints, mask=null)


class DecodedColumns(Mapping[str, pa.Array]):
    """The columns that rows of matches are made of, each as one array, its dictionary decoded when it is first read."""

    def __init__(self, events: pa.Table) -> None:
        self.events = events
        self._arrays: dict[str, pa.Array] = {}
        self._values: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._arrays:
            array = as_one_array(self.events.column(name))
            is_encoded = pa.types.is_dictionary(array.type)
            self._arrays[name] = array.cast(decode_type(array.type)) if is_encoded else array
        return self._arrays[name]

    def read_values(self, name: str) -> pa.Array:
        """Return a column as expressions read it: NaN is null."""
        if name not in self._values:
            array = self[name]
            if pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py():
                array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
            self._values[name] = array
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.events.column_names)

    def __len__(self) -> int:
        return len(self.events.column_names)

    def __contains__(self, name: object) -> bool:
        return name in self.events.column_names


def _cast_to(values: Any, wanted: pa.DataType) -> Any:
    if values.type == wanted:
        return values
    if pa.types.is_null(wanted):
        return pa.nulls(len(values))
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type) and wanted.tz is not None:
        return values.cast(pa.timestamp("us", tz="UTC")).cast(wanted)
    if pa.types.is_date(wanted):
        return pc.cast(values, wanted, safe=False)
    return values.cast(wanted)
