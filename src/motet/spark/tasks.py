"""What runs in Spark's Python workers: all rows of a task at once, many keys in one call of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from motet.engine import Program, finish, merge, run_branch
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.run import DetectRun, finished
from motet.spark.shipping import Shipped
from motet.spark.spreading import Spread
from motet.spark.tables import arrived

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
ROWS_PER_BATCH = 100_000
TRUNCATED = "#truncated"


def branch_task(shipped: Shipped[Program], index: int, spread: Spread) -> Task:
    """Events of many keys, and of slices of hot ones, to results; to partial ones where others are to be merged in."""

    def run(batches: Batches) -> Batches:
        program = shipped.value
        final = not program.branches[index].needs_combine
        target = program.result_schema if final else program.partial_schema
        for events, (emit_from, emit_to) in spread.unpack(batches):
            if events.num_rows:
                partials = run_branch(program, index, events, emit_from, emit_to)
                yield from _batches(finish(program, partials) if final else partials, target)

    return run


def detect_task(shipped: Shipped[Program], index: int, spread: Spread) -> Task:
    """Events of many keys to matches, or to what they add to aggregates that others are to be merged into."""

    def run(batches: Batches) -> Batches:
        program = shipped.value
        branch = program.detect[index]
        target = found_schema(program, branch)
        cut_short: set[str] = set()
        detecting = DetectRun(program, branch, cut_short)
        for events, bounds in spread.unpack(batches):
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


def contribution_task(shipped: Shipped[Program]) -> Task:
    """What matches add, all of what belongs together, to results."""

    def run(batches: Batches) -> Batches:
        program = shipped.value
        contributions = _table(batches, program.contribution_schema)
        if contributions.num_rows:
            for piece in finished([contributions], program):
                yield from _batches(piece, program.result_schema)

    return run


def merge_task(shipped: Shipped[Program]) -> Task:
    """Partial results, all of those that belong together, to results."""

    def run(batches: Batches) -> Batches:
        program = shipped.value
        partials = _table(batches, program.partial_schema)
        if partials.num_rows:
            yield from _batches(finish(program, merge(program, partials)), program.result_schema)

    return run


def _table(batches: Batches, schema: pa.Schema) -> pa.Table:
    """The rows of a task as one table."""
    tables = [arrived(batch, schema) for batch in batches]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _batches(table: pa.Table, schema: pa.Schema) -> Batches:
    yield from table.select(schema.names).cast(schema).to_batches(max_chunksize=ROWS_PER_BATCH)
