"""Run a program in process over a table or a source of batches.

Sources in time order run in chunks, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from motet.compile import Branch, Program
from motet.engine.encode import as_one_array, count_invalid_rows, group_rows, order_rows
from motet.engine.metrics import BranchMetrics
from motet.engine.partials import finish, merge, settle_overflows
from motet.engine.run import run_branch
from motet.errors import RunError
from motet.plans.execution import Execution, ExecutionRecord, Executions

if TYPE_CHECKING:
    from motet.engine.detect.run import DetectRun

CHUNK_ROWS = 2_000_000
STRETCH = 100  # rows, from which on a slice of a table costs less than moving them

Progress = Callable[[int], None]  # takes the number of rows read so far
Chunk = tuple[pa.Table, int | None, int | None]  # events, and the times [from, to) to report


class BatchSource(Protocol):
    """Events that can be read in batches, more than once."""

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with these columns only."""


@dataclass(frozen=True)
class Outcome:
    """Results in one table, with what the run counted. `truncated` names queries of which a limit cut off matches."""

    table: pa.Table
    rows: int
    invalid_rows: int
    overflows: int
    truncated: tuple[str, ...] = ()
    executed: tuple[Execution | ExecutionRecord, ...] = ()


@dataclass
class LocalRun:
    """A run in process that yields results table by table, with what it has counted so far.

    The results of a query are in time order within a table, not across tables. `observed` has the metrics of each
    branch, if someone wants them.
    """

    program: Program
    observed: Sequence[BranchMetrics] | None = None
    report: Callable[[str], None] | None = None  # is told what is done with the rows that were read
    rows: int = 0
    invalid_rows: int = 0
    overflows: int = 0
    truncated: set[str] = field(default_factory=set)
    _executions: Executions = field(default_factory=dict)

    @property
    def executed(self) -> list[Execution]:
        """What was executed so far, unit by unit; units that no event concerned are not among them."""
        for run in self.__dict__.get("_detect_runs", ()):
            if run.executed is not None:
                self._executions[self.program.all_branches.index(run.branch), 0] = run.executed
        return [execution for _, execution in sorted(self._executions.items())]

    def run(
        self, source: pa.Table | BatchSource, progress: Progress | None = None, chunk_rows: int = CHUNK_ROWS
    ) -> Iterator[pa.Table]:
        """Yield the results over a table, or over a source, of which only a chunk and the longest window are kept if
        it is in time order.
        """
        program, pending = self.program, list[pa.Table]()
        for chunk, emit_from, emit_to in self._read_chunks(source, progress, chunk_rows):
            partials = []
            for at, branch in enumerate(program.branches):
                if self.report is not None:
                    self.report(f"aggregating {_list_names(branch)}")
                own = chunk.select(branch.columns)
                # As many threads as Arrow uses: a limit on the one limits the other.
                threads = pa.cpu_count()
                partials.append(
                    run_branch(program, at, own, emit_from, emit_to, self._get_metrics(at), threads, self._executions)
                )
            if program.needs_sweep:
                pending += partials
            else:
                yield self._finish_partials(partials)
            yield from self._run_detection(chunk, emit_from, emit_to)
        if pending:
            yield self._finish_partials(pending)

    def outcome(self, tables: Iterable[pa.Table]) -> Outcome:
        """Collect the results that `run` yields, in order, with what was counted."""
        held, size, limit = list[pa.Table](), 0, self.program.options.memory_bytes
        for table in tables:
            size += table.nbytes
            if len(table) and size > limit:
                held.append(self._cut_to_memory_limit(table, size - limit))
                break
            held.append(table)
        table = sort_results(self.program, held)
        truncated, executed = tuple(sorted(self.truncated)), tuple(self.executed)
        return Outcome(table, self.rows, self.invalid_rows, self.overflows, truncated, executed)

    def _read_chunks(
        self, source: pa.Table | BatchSource, progress: Progress | None, chunk_rows: int
    ) -> Iterator[Chunk]:
        program = self.program
        if isinstance(source, pa.Table):
            table = program.schema.derive(source, required_columns(program))
            self._count_rows(table, progress)
            yield table, None, None
            return
        in_chunks = all(branch.overlap is not None for branch in program.all_branches)
        in_chunks = in_chunks and _is_time_ordered(source.batches([program.schema.time]), program)
        yield from _split_into_chunks(program, self._read_tables(source, progress), chunk_rows if in_chunks else None)

    def _read_tables(self, source: BatchSource, progress: Progress | None) -> Iterator[pa.Table]:
        """Read batches as tables with text dictionary-encoded: event data repeats few words."""
        names, schema = required_columns(self.program), self.program.schema
        for batch in source.batches(schema.list_sources(names)):
            table = schema.derive(pa.Table.from_batches([batch]), names).select(names)
            self._count_rows(table, progress)
            for at, column in enumerate(table.schema):
                if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                    table = table.set_column(at, column.name, table.column(at).dictionary_encode())
            yield table

    def _count_rows(self, table: pa.Table, progress: Progress | None) -> None:
        self.rows += len(table)
        self.invalid_rows += count_invalid_rows(table, self.program.schema)
        if progress is not None:
            progress(self.rows)

    def _get_metrics(self, at: int) -> BranchMetrics | None:
        return None if self.observed is None else self.observed[at]

    @cached_property
    def _detect_runs(self) -> list[DetectRun]:
        # Detection has many kernels: they are loaded where a query needs them.
        from motet.engine.context import recent_context
        from motet.engine.detect.run import DetectRun

        context = recent_context(self.program)
        return [
            DetectRun(
                self.program,
                branch,
                self.truncated,
                planning=context.planner(branch).begin_run(),
                observed=self._get_metrics(at),
                threads=pa.cpu_count(),
                report=self.report,
            )
            for at, branch in enumerate(self.program.detect, len(self.program.branches))
        ]

    def _run_detection(self, table: pa.Table, emit_from: int | None, emit_to: int | None) -> Iterator[pa.Table]:
        """Yield the results of detection queries; with bounds, those due in [emit_from, emit_to)."""
        if not self.program.detect:
            return
        from motet.engine.detect.run import finish_results

        for run in self._detect_runs:
            pieces = run.process(table.select(run.branch.columns), emit_from, emit_to)
            results = finish_results(pieces, self.program, emit_from, emit_to)
            for result in results if run.observed is None else run.observed.time_tables(results):
                yield self._settle(result)

    def _finish_partials(self, partials: list[pa.Table]) -> pa.Table:
        program = self.program
        combined = pa.concat_tables(partials) if partials else program.partial_schema.empty_table()
        # Each branch has merged what it has of a result, except for what takes a sweep over time.
        result = finish(program, merge(program, combined) if program.needs_sweep else combined, in_order=True)
        return self._settle(result)

    def _settle(self, result: pa.Table) -> pa.Table:
        result, overflows = settle_overflows(self.program, result)
        self.overflows += overflows
        return result

    def _cut_to_memory_limit(self, table: pa.Table, excess: int) -> pa.Table:
        """Return the part of the last table for which there is room, or raise, as the options say."""
        options = self.program.options
        if options.on_limit == "error":
            raise RunError(
                f"query {table.column('query')[0]}: all results together need more than "
                f"{options.memory_bytes / 2**20:,.0f} MiB: write matches to a file (--output; in Python motet.batches "
                "reads them batch by batch), raise --memory-limit (memory_limit=), or cut them off with --on-limit "
                "truncate (on_limit='truncate')"
            )
        self.truncated.update(query.name for query in self.program.workload.queries)
        return table.slice(0, int(len(table) * max(1 - excess / table.nbytes, 0)))


def _list_names(branch: Branch) -> str:
    names = [compiled.query.name for compiled in branch.queries]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def run_table(program: Program, table: pa.Table) -> Outcome:
    """Run a program over a table in memory."""
    run = LocalRun(program)
    return run.outcome(run.run(table))


def required_columns(program: Program) -> list[str]:
    """Return every column that any branch reads, and those that say which rows are valid."""
    read = (name for branch in program.all_branches for name in branch.columns)
    return list(dict.fromkeys((program.schema.time, program.schema.type, *read)))


def _is_time_ordered(batches: Iterable[pa.RecordBatch], program: Program) -> bool:
    """Return whether the times of a source never decrease; null times are skipped."""
    last: int | None = None
    for batch in batches:
        times = program.schema.to_microseconds(batch.column(program.schema.time)).drop_null().to_numpy()
        if not len(times):
            continue
        if (last is not None and times[0] < last) or (np.diff(times) < 0).any():
            return False
        last = int(times[-1])
    return True


def _split_into_chunks(program: Program, tables: Iterable[pa.Table], limit: int | None) -> Iterator[Chunk]:
    """Yield the events of each chunk, and the times to report; a chunk ends before the last time it holds.

    The longest window before a cut is run again with the next chunk, so a chunk takes in at least as many new rows as
    it repeats.
    """
    overlap = max((branch.overlap or 0 for branch in program.all_branches), default=0)
    kept: list[pa.Table] = []
    fresh: list[pa.Table] = []
    emitted: int | None = None
    for table in tables:
        fresh.append(table)
        if limit is None or sum(map(len, fresh)) < max(limit, sum(map(len, kept))):
            continue
        combined = pa.concat_tables(kept + fresh).unify_dictionaries()
        times = program.schema.to_microseconds(combined.column(program.schema.time).combine_chunks())
        cut = pc.max(times).as_py()
        if cut is None or (emitted is not None and cut <= emitted):
            continue
        yield combined, emitted, cut
        kept = [combined.filter(pc.fill_null(pc.greater_equal(times, cut - overlap), False))]
        fresh, emitted = [], cut
    if kept or fresh:
        yield pa.concat_tables(kept + fresh).unify_dictionaries(), emitted, None


def sort_results(program: Program, tables: Iterable[pa.Table]) -> pa.Table:
    """Merge results, sorted by query, then time, then group.

    Where rows have structs each query is sorted on its own, since moving structs costs as much as building them.
    """
    names = pa.array([query.name for query in program.workload.queries], pa.string())
    if not any(pa.types.is_nested(field.type) for field in program.result_schema):
        result = pa.concat_tables([table for table in tables if len(table)] or [program.result_schema.empty_table()])
        return _sort_by_time(program, result, pc.index_in(result.column("query"), value_set=names))
    by_query: dict[int, list[pa.Table]] = {}
    for table in tables:
        number = pc.index_in(table.column("query"), value_set=names).to_numpy()
        order, queries = group_rows(number)
        if (number[1:] < number[:-1]).any():
            table = table.take(order)
        for query, first, size in queries:
            by_query.setdefault(query, []).append(table.slice(first, size))
    found = [_sort_by_time(program, pa.concat_tables(by_query[number])) for number in sorted(by_query)]
    return pa.concat_tables(found) if found else program.result_schema.empty_table()


def _sort_by_time(program: Program, result: pa.Table, query: pa.ChunkedArray | None = None) -> pa.Table:
    """Sort results by query, where they are of several, then time, then group. The order is stable."""
    clocks = [name for name in ("window_end", "time", "start") if name in program.time_columns]
    keys = [] if query is None else [query]
    keys.append(pc.coalesce(*map(result.column, clocks)))
    keys += [result.column(name) for name in ("end",) if name in program.time_columns]
    keys += [result.column(name) for name in program.group_columns]
    order = order_rows(keys)
    return result if order is None else take_rows(result, order)


def take_rows(table: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Return the rows of a table in an order, slices of it where that consists of long stretches."""
    begins = np.flatnonzero(np.diff(order, prepend=-2) != 1)
    if len(begins) * STRETCH <= len(order):
        counts = np.diff(begins, append=len(order)).tolist()
        return pa.concat_tables(
            [table.slice(first, count) for first, count in zip(order[begins].tolist(), counts, strict=True)]
        )
    taken = pa.array(order)
    columns = [
        column if column.null_count == len(column) else as_one_array(column).take(taken) for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)
