"""What runs in Spark's Python workers: all rows of a task at once, many keys in one call of the engine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine import Program, finish, merge, run_branch
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.run import DetectRun, finished
from motet.spark.skew import SLICE, Bounds

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
ROWS_PER_BATCH = 100_000
TRUNCATED = "#truncated"


def type_code(name: str) -> int:
    """The number that stands for a type between Spark and a task: Spark's `crc32`."""
    return zlib.crc32(name.encode())


@dataclass(frozen=True)
class Received:
    """How rows reach a task: the columns a branch reads, with the type as its code where `types` are known, in the
    order of their codes; and the number of a slice last where hot keys are cut."""

    columns: pa.Schema
    type: str
    types: tuple[str, ...] | None
    bounds: dict[int, Bounds]

    @property
    def schema(self) -> pa.Schema:
        """The columns as they come."""
        schema = self.columns
        if self.types is not None:
            schema = schema.set(schema.get_field_index(self.type), pa.field(self.type, pa.int64()))
        return schema.append(pa.field(SLICE, pa.int32())) if self.bounds else schema

    def slices(self, batches: Batches) -> Iterator[tuple[pa.Table, Bounds]]:
        """The events of each slice, with the times to report; all keys that are not cut make one."""
        rows = _table(batches, self.schema)
        if self.types is not None:
            rows = _with_type_names(rows, self.type, self.types)
        if not self.bounds:
            yield rows, (None, None)
            return
        numbers = rows[SLICE]
        events = rows.drop_columns(SLICE)
        for number in np.unique(numbers.to_numpy()).tolist():
            yield events.filter(pc.equal(numbers, number)), self.bounds.get(number, (None, None))


def branch_task(program: Program, index: int, received: Received) -> Task:
    """Events of many keys, and of slices of hot ones, to results; to partial ones where others are to be merged in."""
    final = not program.branches[index].needs_combine
    target = program.result_schema if final else program.partial_schema

    def run(batches: Batches) -> Batches:
        for events, (emit_from, emit_to) in received.slices(batches):
            if events.num_rows:
                partials = run_branch(program, index, events, emit_from, emit_to)
                yield from _batches(finish(program, partials) if final else partials, target)

    return run


def detect_task(program: Program, index: int, received: Received) -> Task:
    """Events of many keys to matches, or to what they add to aggregates that others are to be merged into."""
    branch = program.detect[index]
    target = found_schema(program, branch)

    def run(batches: Batches) -> Batches:
        cut_short: set[str] = set()
        detecting = DetectRun(program, branch, cut_short)
        for events, bounds in received.slices(batches):
            if events.num_rows:
                pieces = detecting.pieces(events, *bounds)
                for piece in pieces if branch.needs_combine else finished(pieces, program, *bounds):
                    yield from _batches(_fitted(piece, target), target)
        if cut_short:
            yield from _batches(_fitted(pa.table({TRUNCATED: sorted(cut_short)}), target), target)

    return run


def may_truncate(program: Program) -> bool:
    """Whether matches may be left out for a limit."""
    return bool(program.detect) and program.options.on_limit == "truncate"


def found_schema(program: Program, branch: DetectBranch) -> pa.Schema:
    """What the tasks of a branch give: matches or what they add, and, where a limit may cut matches off, rows that name
    a query of which it did.
    """
    schema = program.contribution_schema if branch.needs_combine else program.result_schema
    return schema.append(pa.field(TRUNCATED, pa.string())) if may_truncate(program) else schema


def _fitted(piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with all columns of a schema; those that it lacks are null."""
    columns = [
        piece[field.name] if field.name in piece.column_names else pa.nulls(len(piece), field.type) for field in schema
    ]
    return pa.table(columns, names=schema.names)


def contribution_task(program: Program) -> Task:
    """What matches add, all of what belongs together, to results."""

    def run(batches: Batches) -> Batches:
        contributions = _table(batches, program.contribution_schema)
        if contributions.num_rows:
            for piece in finished([contributions], program):
                yield from _batches(piece, program.result_schema)

    return run


def merge_task(program: Program) -> Task:
    """Partial results, all of those that belong together, to results."""

    def run(batches: Batches) -> Batches:
        partials = _table(batches, program.partial_schema)
        if partials.num_rows:
            yield from _batches(finish(program, merge(program, partials)), program.result_schema)

    return run


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    """The rows of a task as one table; columns are told by their place, and instants are in UTC again."""
    tables = [pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema) for batch in batches]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _with_type_names(rows: pa.Table, type: str, types: tuple[str, ...]) -> pa.Table:
    codes = np.array([type_code(name) for name in types], np.int64)
    places = np.searchsorted(codes, rows[type].to_numpy()).astype(np.int32)
    column = pa.DictionaryArray.from_arrays(places, pa.array(types, pa.string()))
    return rows.set_column(rows.column_names.index(type), type, column)


def _batches(table: pa.Table, schema: pa.Schema) -> Batches:
    yield from table.select(schema.names).cast(schema).to_batches(max_chunksize=ROWS_PER_BATCH)
