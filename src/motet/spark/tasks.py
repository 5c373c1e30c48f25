"""Tasks that run in Spark's Python workers: all rows of a task at once, many keys in one call of the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import pyarrow as pa

from motet.compile import Branch, Program
from motet.compile.detect import DetectBranch
from motet.engine.detect.run import DetectRun, finish_results
from motet.engine.partials import finish, merge
from motet.engine.run import run_branch
from motet.plans.execution import Execution, ExecutionRecord, Executions, read_record
from motet.spark.dataframes import from_spark_batch
from motet.spark.serialization import CachedPickle
from motet.spark.shuffle import Batches, ShufflePlan, Task

ROWS_PER_BATCH = 100_000
# What a task says of its run leaves in rows of its own, in this column, which is null in rows of results.
NOTE = "#note"
NoteKind = Literal["truncated", "executed"]


def make_branch_task(cached: CachedPickle[Program], index: int, plan: ShufflePlan) -> Task:
    """Make a task that runs a branch over events of many keys, and of slices of hot ones.

    Its results are final, or partial results or contributions that `make_combine_task` combines. Notes follow them:
    the queries that a limit truncated, and what was executed (units by signature, joins as they were planned here).
    """

    def run(batches: Batches) -> Batches:
        program = cached.value
        branch = program.all_branches[index]
        target = get_task_schema(program, branch)
        truncated: set[str] = set()
        executions: Executions = {}
        detect_run = DetectRun(program, branch, truncated) if isinstance(branch, DetectBranch) else None
        for events, bounds in plan.unpack(batches):
            if not events.num_rows:
                continue
            pieces: Iterable[pa.Table]
            if detect_run is not None:
                pieces = detect_run.process(events, *bounds)
                pieces = pieces if branch.needs_combine else finish_results(pieces, program, *bounds)
            else:
                partials = run_branch(program, index, events, *bounds, executions=executions)
                pieces = [partials if branch.needs_combine else finish(program, partials)]
            for piece in pieces:
                yield from to_batches(piece, target)
        notes = [write_note("truncated", name) for name in sorted(truncated)]
        joins = () if detect_run is None or detect_run.executed is None else (detect_run.executed,)
        notes += [write_note("executed", note_execution(each)) for each in (*executions.values(), *joins)]
        if notes:
            yield from to_batches(pa.table({NOTE: notes}), target)

    return run


def make_combine_task(cached: CachedPickle[Program], detects: bool) -> Task:
    """Make a task from partial results, or contributions of matches that were detected, to results.

    All parts of a result are in the same task.
    """

    def run(batches: Batches) -> Batches:
        program = cached.value
        schema = program.contribution_schema if detects else program.partial_schema
        tables = [from_spark_batch(batch, schema) for batch in batches]
        if tables and detects:
            for piece in finish_results(tables, program):
                yield from to_batches(piece, program.result_schema)
        elif tables:
            yield from to_batches(finish(program, merge(program, pa.concat_tables(tables))), program.result_schema)

    return run


def can_truncate(program: Program) -> bool:
    """Return whether matches may be left out because of a limit."""
    return bool(program.detect) and program.options.on_limit == "truncate"


def get_task_schema(program: Program, branch: Branch | DetectBranch) -> pa.Schema:
    """Return the schema of what the tasks of a branch find: results, or what combines to results, and notes."""
    partial = program.contribution_schema if isinstance(branch, DetectBranch) else program.partial_schema
    return (partial if branch.needs_combine else program.result_schema).append(pa.field(NOTE, pa.string()))


def write_note(kind: NoteKind, value: Any) -> str:
    """Write a note of a task: one line."""
    return json.dumps([kind, value])


def note_execution(execution: Execution) -> str | dict[str, object]:
    """Return how a task tells what was executed: units by their signature, joins as they were planned there."""
    return execution.describe() if execution.strategy == "joins" else execution.signature


def find_records(program: Program, notes: Iterable[Any]) -> list[ExecutionRecord]:
    """Return the records of what tasks told by `note_execution`; units of another program are left out."""
    units = [unit.planned for branch in program.branches for unit in branch.units]
    planned = {each.signature: each.record for each in units}
    found = [planned.get(each) if isinstance(each, str) else read_record(each) for each in notes]
    return [record for record in found if record is not None]


def read_notes(lines: Iterable[str], kind: NoteKind) -> list[Any]:
    """Return what the notes of one kind say."""
    notes = [json.loads(line) for line in lines]
    return [value for each, value in notes if each == kind]


def to_batches(table: pa.Table, schema: pa.Schema) -> Batches:
    """Yield a table in batches of a schema; columns that it lacks are null."""
    yield from fit_columns(table, schema).to_batches(max_chunksize=ROWS_PER_BATCH)


def fit_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema; those that it lacks are null."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
