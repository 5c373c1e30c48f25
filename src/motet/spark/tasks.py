"""What runs in Spark's Python workers: all rows of a task at once, many keys in one call of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from motet.compile import Program
from motet.compile.detect import DetectBranch
from motet.engine.detect.run import DetectRun, finish_results
from motet.engine.partials import finish, merge
from motet.engine.run import run_branch
from motet.spark.dataframes import from_spark_batch
from motet.spark.serialization import CachedPickle
from motet.spark.shuffle import ShufflePlan

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]
ROWS_PER_BATCH = 100_000
TRUNCATED = "#truncated"


def make_branch_task(cached: CachedPickle[Program], index: int, spread: ShufflePlan) -> Task:
    """Events of many keys, and of slices of hot ones, to results; to partial ones where others are to be merged in."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        final = not program.branches[index].needs_combine
        target = program.result_schema if final else program.partial_schema
        for events, (emit_from, emit_to) in spread.unpack(batches):
            if events.num_rows:
                partials = run_branch(program, index, events, emit_from, emit_to)
                yield from _split_batches(finish(program, partials) if final else partials, target)

    return run


def make_detect_task(cached: CachedPickle[Program], index: int, spread: ShufflePlan) -> Task:
    """Events of many keys to matches, or to what they add to aggregates that others are to be merged into."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        branch = program.detect[index]
        target = get_detect_schema(program, branch)
        truncated: set[str] = set()
        detect_run = DetectRun(program, branch, truncated)
        for events, bounds in spread.unpack(batches):
            if events.num_rows:
                pieces = detect_run.process(events, *bounds)
                for piece in pieces if branch.needs_combine else finish_results(pieces, program, *bounds):
                    yield from _split_batches(_fit_to_schema(piece, target), target)
        if truncated:
            yield from _split_batches(_fit_to_schema(pa.table({TRUNCATED: sorted(truncated)}), target), target)

    return run


def can_truncate(program: Program) -> bool:
    """Whether matches may be left out for a limit."""
    return bool(program.detect) and program.options.on_limit == "truncate"


def get_detect_schema(program: Program, branch: DetectBranch) -> pa.Schema:
    """What the tasks of a branch give: matches or what they add, and, where a limit may cut matches off, rows that name
    a query of which it did.
    """
    schema = program.contribution_schema if branch.needs_combine else program.result_schema
    return schema.append(pa.field(TRUNCATED, pa.string())) if can_truncate(program) else schema


def _fit_to_schema(piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with all columns of a schema; those that it lacks are null."""
    columns = [
        piece[field.name] if field.name in piece.column_names else pa.nulls(len(piece), field.type) for field in schema
    ]
    return pa.table(columns, names=schema.names)


def make_contribution_task(cached: CachedPickle[Program]) -> Task:
    """What matches add, all of what belongs together, to results."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        contributions = _read_table(batches, program.contribution_schema)
        if contributions.num_rows:
            for piece in finish_results([contributions], program):
                yield from _split_batches(piece, program.result_schema)

    return run


def make_merge_task(cached: CachedPickle[Program]) -> Task:
    """Partial results, all of those that belong together, to results."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        partials = _read_table(batches, program.partial_schema)
        if partials.num_rows:
            yield from _split_batches(finish(program, merge(program, partials)), program.result_schema)

    return run


def _read_table(batches: Batches, schema: pa.Schema) -> pa.Table:
    """The rows of a task as one table."""
    tables = [from_spark_batch(batch, schema) for batch in batches]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _split_batches(table: pa.Table, schema: pa.Schema) -> Batches:
    yield from table.select(schema.names).cast(schema).to_batches(max_chunksize=ROWS_PER_BATCH)
