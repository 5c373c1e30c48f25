"""Run a program in process over a stream of batches, in chunks if the data is in time order, so that memory stays
bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.planner import BranchPlanner, DetectReplanPolicy
from motet.engine.detect.run import DetectRun, finish_results
from motet.engine.encode import count_invalid_rows, to_microseconds
from motet.engine.groups import group_rows
from motet.engine.metrics import BranchMetrics
from motet.engine.partials import count_overflows, finish, merge
from motet.engine.program import Program
from motet.engine.run import run_branch
from motet.errors import RunError

CHUNK_ROWS = 2_000_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """Results in one table, with what the run counted.

    `truncated` names queries of which a limit cut off matches.
    """

    table: pa.Table
    rows: int
    invalid_rows: int
    overflows: int
    truncated: tuple[str, ...] = ()  # queries of which not all matches were found, for a limit


def required_columns(program: Program) -> list[str]:
    """Return every column that any branch reads."""
    return list(dict.fromkeys(name for branch in program.all_branches for name in branch.columns))


def can_run_in_chunks(program: Program) -> bool:
    """Return whether results depend only on events of a bounded time before them."""
    return all(branch.overlap is not None for branch in program.all_branches)


def is_time_ordered(batches: Iterable[pa.RecordBatch], program: Program) -> bool:
    """Return whether the times of a stream never decrease; null times are skipped."""
    last: int | None = None
    for batch in batches:
        times = to_microseconds(batch.column(program.schema.time), program.schema).drop_null().to_numpy()
        if not len(times):
            continue
        if (last is not None and times[0] < last) or (np.diff(times) < 0).any():
            return False
        last = int(times[-1])
    return True


@dataclass
class LocalRun:
    """A run in process that yields results table by table, with what it has counted so far.

    The results of a query are in time order within a table, not across tables.
    """

    program: Program
    rows: int = 0
    invalid_rows: int = 0
    overflows: int = 0
    truncated: set[str] = field(default_factory=set)
    observed: tuple[BranchMetrics, ...] | None = None  # one for each branch, where someone wants to know

    @cached_property
    def _detect_runs(self) -> list[DetectRun]:
        options = self.program.options
        return [
            DetectRun(self.program, branch, planning=BranchPlanner(branch, options, DetectReplanPolicy()))
            for branch in self.program.detect
        ]

    def over_table(self, table: pa.Table) -> Iterator[pa.Table]:
        """Run over a table in memory."""
        self.rows += len(table)
        self.invalid_rows += count_invalid_rows(table, self.program.schema)
        yield self._finish_partials(_run_branches(self.program, table, None, None, self.observed))
        yield from self._run_detection(table, None, None)

    def over_batches(
        self,
        batches: Iterable[pa.RecordBatch],
        ordered: bool,
        progress: Progress | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> Iterator[pa.Table]:
        """Run over a stream. If it is in time order, only a chunk and the longest window are kept."""
        pending: list[pa.Table] = []
        limit = chunk_rows if ordered and can_run_in_chunks(self.program) else None
        for chunk, emit_from, emit_to in _split_into_chunks(self.program, self._count_rows(batches, progress), limit):
            partials = _run_branches(self.program, chunk, emit_from, emit_to, self.observed)
            if _needs_final_merge(self.program):
                pending += partials
            else:
                yield self._finish_partials(partials)
            yield from self._run_detection(chunk, emit_from, emit_to)
        if pending:
            yield self._finish_partials(pending)

    def outcome(self, tables: Iterable[pa.Table]) -> Outcome:
        """Collect all results in order."""
        combined = _sort_by_query(self.program, list(self._enforce_memory_limit(tables)))
        return Outcome(combined, self.rows, self.invalid_rows, self.overflows, tuple(sorted(self.truncated)))

    def _enforce_memory_limit(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Pass on result tables until they exceed the memory limit, then raise or truncate."""
        options, size = self.program.options, 0
        for table in tables:
            size += table.nbytes
            if len(table) and size > options.memory_bytes:
                if options.on_limit == "error":
                    raise RunError(
                        f"query {table.column('query')[0]}: all results together need more than "
                        f"{options.memory_bytes / 2**20:,.0f} MiB (read them batch by batch or write them to a file, "
                        "ask for less, raise the limit, or let it truncate)"
                    )
                self.truncated.update(query.name for query in self.program.workload.queries)
                yield table.slice(0, int(len(table) * max(1 - (size - options.memory_bytes) / table.nbytes, 0)))
                return
            yield table

    def _finish_partials(self, partials: list[pa.Table]) -> pa.Table:
        combined = pa.concat_tables(partials) if partials else self.program.partial_schema.empty_table()
        # Each branch has combined what it has of a result, save what takes a sweep over time.
        result = finish(self.program, merge(self.program, combined) if _needs_final_merge(self.program) else combined)
        self.overflows += count_overflows(result)
        return result.replace_schema_metadata(None)

    def _run_detection(self, table: pa.Table, emit_from: int | None, emit_to: int | None) -> Iterator[pa.Table]:
        """Yield the results of detection queries; with bounds, those due in [emit_from, emit_to)."""
        for at, run in enumerate(self._detect_runs, len(self.program.branches)):
            run.observed = None if self.observed is None else self.observed[at]
            pieces = run.process(table.select(run.branch.columns), emit_from, emit_to)
            results = finish_results(pieces, self.program, emit_from, emit_to)
            yield from results if run.observed is None else run.observed.time_tables(results)
            self.truncated |= run.truncated

    def _count_rows(self, batches: Iterable[pa.RecordBatch], progress: Progress | None) -> Iterator[pa.Table]:
        for batch in batches:
            self.rows += len(batch)
            table = pa.Table.from_batches([batch])
            self.invalid_rows += count_invalid_rows(table, self.program.schema)
            if progress is not None:
                progress(self.rows)
            yield _encode_texts(table)


def run_table(program: Program, table: pa.Table) -> Outcome:
    """Run a program over a table in memory."""
    run = LocalRun(program)
    return run.outcome(run.over_table(table))


Chunk = tuple[pa.Table, int | None, int | None]


def _split_into_chunks(program: Program, tables: Iterable[pa.Table], limit: int | None) -> Iterator[Chunk]:
    """Yield the events of each chunk, and the times [from, to) to report; a chunk ends before the last time it holds.

    The longest window before a cut is run again with the next chunk, so a chunk takes in at least as many new rows as
    it repeats.
    """
    kept: pa.Table | None = None
    fresh: list[pa.Table] = []
    rows = 0
    emitted: int | None = None
    for table in tables:
        fresh.append(table)
        rows += len(table)
        if limit is None or rows < max(limit, len(kept) if kept is not None else 0):
            continue
        combined = _concat(kept, fresh)
        times = to_microseconds(combined.column(program.schema.time).combine_chunks(), program.schema)
        cut = pc.max(times).as_py()
        if cut is None or (emitted is not None and cut <= emitted):
            continue
        yield combined, emitted, cut
        longest = max((branch.overlap or 0 for branch in program.all_branches), default=0)
        kept = combined.filter(pc.fill_null(pc.greater_equal(times, cut - longest), False))
        fresh, rows, emitted = [], 0, cut
    if fresh or kept is not None:
        yield _concat(kept, fresh), emitted, None


def _concat(kept: pa.Table | None, fresh: list[pa.Table]) -> pa.Table:
    tables = fresh if kept is None else [kept, *fresh]
    return pa.concat_tables(tables).unify_dictionaries()


def _run_branches(
    program: Program,
    table: pa.Table,
    emit_from: int | None,
    emit_to: int | None,
    observed: tuple[BranchMetrics, ...] | None,
) -> list[pa.Table]:
    # As many threads as Arrow takes: who limits the one limits the other.
    threads = pa.cpu_count()
    return [
        run_branch(
            program,
            at,
            table.select(branch.columns),
            emit_from,
            emit_to,
            None if observed is None else observed[at],
            threads,
        )
        for at, branch in enumerate(program.branches)
    ]


def _needs_final_merge(program: Program) -> bool:
    """Return whether results have to be merged over time, and so only at the end."""
    return any(compiled.needs_sweep for compiled in program.queries.values())


def _sort_by_query(program: Program, tables: Sequence[pa.Table]) -> pa.Table:
    """Sort results by query, then time, then group.

    Each query is sorted on its own, since moving structs costs as much as building them.
    """
    names = pa.array([query.name for query in program.workload.queries], pa.string())
    by_query: dict[int, list[pa.Table]] = {}
    for table in tables:
        for number, own in _split_by_query(table, names):
            by_query.setdefault(number, []).append(own)
    found = [sort_results(program, pa.concat_tables(by_query[number])) for number in sorted(by_query)]
    return pa.concat_tables(found) if found else program.result_schema.empty_table()


def _split_by_query(table: pa.Table, names: pa.Array) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number and rows of each query that has any, in their order.

    O(rows), however many queries there are.
    """
    number = pc.index_in(table.column("query"), value_set=names).to_numpy()
    order, queries = group_rows(number)
    if (number[1:] < number[:-1]).any():
        table = table.take(order)
    for query, first, size in queries:
        yield query, table.slice(first, size)


def sort_results(program: Program, result: pa.Table) -> pa.Table:
    """Sort results by query, then time, then group."""
    names = pa.array([query.name for query in program.workload.queries], pa.string())
    clocks = [name for name in ("window_end", "time", "start") if name in result.column_names]
    when = pc.coalesce(*(result.column(name) for name in clocks))
    keyed = result.select([*clocks, *program.groups]).append_column("#when", when)
    keys = [("#when", "ascending")]
    if len(pc.unique(result.column("query"))) > 1:
        keyed = keyed.append_column("#query", pc.index_in(result.column("query"), value_set=names))
        keys.insert(0, ("#query", "ascending"))
    if "end" in result.column_names:
        keyed = keyed.append_column("#end", result.column("end"))
        keys.append(("#end", "ascending"))
    keys += [(name, "ascending") for name in program.groups]
    order = pc.sort_indices(keyed, sort_keys=keys).to_numpy()
    # Matches often come in order, and to move structs costs as much as to make them.
    return result if (np.diff(order.astype(np.int64)) == 1).all() else result.take(order)


def _encode_texts(table: pa.Table) -> pa.Table:
    """Dictionary-encode text columns: event data repeats few words."""
    for at, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            table = table.set_column(at, column.name, table.column(at).dictionary_encode())
    return table
