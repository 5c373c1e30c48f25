"""Tasks that run in Spark's Python workers: all rows of a task at once, many keys in one call of the engine."""

from __future__ import annotations

import pyarrow as pa

from motet.engine import Program, finish, merge, run_branch
from motet.engine.detect.program import DetectBranch
from motet.engine.detect.run import DetectRun, finish_results
from motet.spark.dataframes import from_spark_batch
from motet.spark.serialization import CachedPickle
from motet.spark.shuffle import Batches, ShufflePlan, Task

ROWS_PER_BATCH = 100_000
TRUNCATED = "#truncated"


def make_branch_task(cached: CachedPickle[Program], index: int, plan: ShufflePlan) -> Task:
    """Make a task from events of many keys, and of slices of hot ones, to results, or to partial results to merge."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        is_final = not program.branches[index].needs_combine
        for events, (emit_from, emit_to) in plan.unpack(batches):
            if events.num_rows:
                partials = run_branch(program, index, events, emit_from, emit_to)
                if is_final:
                    yield from to_batches(finish(program, partials), program.result_schema)
                else:
                    yield from to_batches(partials, program.partial_schema)

    return run


def make_detect_task(cached: CachedPickle[Program], index: int, plan: ShufflePlan) -> Task:
    """Make a task from events of many keys to matches, or to their contributions to aggregates that are combined."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        branch = program.detect[index]
        target = get_detect_schema(program, branch)
        truncated: set[str] = set()
        detect_run = DetectRun(program, branch, truncated)
        for events, bounds in plan.unpack(batches):
            if events.num_rows:
                pieces = detect_run.process(events, *bounds)
                for piece in pieces if branch.needs_combine else finish_results(pieces, program, *bounds):
                    yield from to_batches(piece, target)
        if truncated:
            yield from to_batches(pa.table({TRUNCATED: sorted(truncated)}), target)

    return run


def make_merge_task(cached: CachedPickle[Program]) -> Task:
    """Make a task from partial results, all of those that belong together, to results."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        partials = [from_spark_batch(batch, program.partial_schema) for batch in batches]
        if partials:
            merged = merge(program, pa.concat_tables(partials))
            yield from to_batches(finish(program, merged), program.result_schema)

    return run


def make_contribution_task(cached: CachedPickle[Program]) -> Task:
    """Make a task from contributions of matches, all of those that belong together, to results."""

    def run(batches: Batches) -> Batches:
        program = cached.value
        contributions = [from_spark_batch(batch, program.contribution_schema) for batch in batches]
        if contributions:
            for piece in finish_results(contributions, program):
                yield from to_batches(piece, program.result_schema)

    return run


def can_truncate(program: Program) -> bool:
    """Return whether matches may be left out because of a limit."""
    return bool(program.detect) and program.options.on_limit == "truncate"


def get_detect_schema(program: Program, branch: DetectBranch) -> pa.Schema:
    """Return the schema of what the tasks of a branch find: matches or contributions, and, where a limit may cut
    matches off, rows that name a query of which it did.
    """
    schema = program.contribution_schema if branch.needs_combine else program.result_schema
    return schema.append(pa.field(TRUNCATED, pa.string())) if can_truncate(program) else schema


def to_batches(table: pa.Table, schema: pa.Schema) -> Batches:
    """Yield a table in batches of a schema; columns that it lacks are null."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    yield from pa.table(columns, schema=schema).to_batches(max_chunksize=ROWS_PER_BATCH)
