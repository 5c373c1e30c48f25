"""Runs a program in process over a stream of batches, in chunks where the data is in time order, so that memory
stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.planning import Drift, Planning
from motet.engine.detect.run import DetectRun, finished
from motet.engine.encode import microseconds, set_aside
from motet.engine.groups import brought_together
from motet.engine.observed import Observed
from motet.engine.partials import finish, merge, overflows_of
from motet.engine.program import Program
from motet.engine.run import run_branch
from motet.errors import RunError

CHUNK_ROWS = 2_000_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """Results in one table, with what the run noticed on the way."""

    table: pa.Table
    rows: int
    set_aside: int
    overflows: int
    truncated: tuple[str, ...] = ()  # queries of which not all matches were found, for a limit


def columns_of(program: Program) -> list[str]:
    """Every column that any branch reads."""
    return list(dict.fromkeys(name for branch in program.all_branches for name in branch.columns))


def can_be_cut(program: Program) -> bool:
    """Whether results depend only on events of a bounded time before them."""
    return all(branch.halo is not None for branch in program.all_branches)


def in_time_order(batches: Iterable[pa.RecordBatch], program: Program) -> bool:
    """Whether the times of a stream never go back; null times are passed over."""
    last: int | None = None
    for batch in batches:
        times = microseconds(batch.column(program.schema.time), program.schema).drop_null().to_numpy()
        if not len(times):
            continue
        if (last is not None and times[0] < last) or (np.diff(times) < 0).any():
            return False
        last = int(times[-1])
    return True


@dataclass
class LocalRun:
    """A run in process whose results leave table by table, with what it has noticed so far.

    Results of a query come in order of time within a table, not over all of them.
    """

    program: Program
    rows: int = 0
    set_aside: int = 0
    overflows: int = 0
    truncated: set[str] = field(default_factory=set)
    observed: tuple[Observed, ...] | None = None  # one for each branch, where someone wants to know

    @cached_property
    def _detecting(self) -> list[DetectRun]:
        options = self.program.options
        return [
            DetectRun(self.program, branch, planning=Planning(branch, options, Drift()))
            for branch in self.program.detect
        ]

    def over_table(self, table: pa.Table) -> Iterator[pa.Table]:
        """Run over a table that is in memory."""
        self.rows += len(table)
        self.set_aside += set_aside(table, self.program.schema)
        yield self._finished(_run_branches(self.program, table, None, None, self.observed))
        yield from self._detected(table, None, None)

    def over_batches(
        self,
        batches: Iterable[pa.RecordBatch],
        ordered: bool,
        progress: Progress | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> Iterator[pa.Table]:
        """Run over a stream. Where it is in time order, no more than a chunk and the longest window is kept."""
        waiting: list[pa.Table] = []
        limit = chunk_rows if ordered and can_be_cut(self.program) else None
        for chunk, emit_from, emit_to in _chunks(self.program, self._counted(batches, progress), limit):
            partials = _run_branches(self.program, chunk, emit_from, emit_to, self.observed)
            if _sweeps(self.program):
                waiting += partials
            else:
                yield self._finished(partials)
            yield from self._detected(chunk, emit_from, emit_to)
        if waiting:
            yield self._finished(waiting)

    def outcome(self, tables: Iterable[pa.Table]) -> Outcome:
        """All results in order, once the run is over."""
        together = _in_order(self.program, list(self._that_fit(tables)))
        return Outcome(together, self.rows, self.set_aside, self.overflows, tuple(sorted(self.truncated)))

    def _that_fit(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Results as long as they may be held together; who reads them one by one needs no room for all."""
        options, size = self.program.options, 0
        for table in tables:
            size += table.nbytes
            if len(table) and size > options.memory_limit:
                if options.on_limit == "error":
                    raise RunError(
                        f"query {table.column('query')[0]}: all results together need more than "
                        f"{options.memory_limit / 2**20:,.0f} MiB (read them batch by batch or write them to a file, "
                        "ask for less, raise the limit, or let it truncate)"
                    )
                self.truncated.update(query.name for query in self.program.workload.queries)
                yield table.slice(0, int(len(table) * max(1 - (size - options.memory_limit) / table.nbytes, 0)))
                return
            yield table

    def _finished(self, partials: list[pa.Table]) -> pa.Table:
        together = pa.concat_tables(partials) if partials else self.program.partial_schema.empty_table()
        # Each branch has combined what it has of a result, save what takes a sweep over time.
        result = finish(self.program, merge(self.program, together) if _sweeps(self.program) else together)
        self.overflows += overflows_of(result)
        return result.replace_schema_metadata(None)

    def _detected(self, table: pa.Table, emit_from: int | None, emit_to: int | None) -> Iterator[pa.Table]:
        """The results of queries whose matches are found; with bounds, those due in [emit_from, emit_to)."""
        for at, run in enumerate(self._detecting, len(self.program.branches)):
            run.observed = None if self.observed is None else self.observed[at]
            pieces = run.pieces(table.select(run.branch.columns), emit_from, emit_to)
            results = finished(pieces, self.program, emit_from, emit_to)
            yield from results if run.observed is None else run.observed.timing(results)
            self.truncated |= run.truncated

    def _counted(self, batches: Iterable[pa.RecordBatch], progress: Progress | None) -> Iterator[pa.Table]:
        for batch in batches:
            self.rows += len(batch)
            table = pa.Table.from_batches([batch])
            self.set_aside += set_aside(table, self.program.schema)
            if progress is not None:
                progress(self.rows)
            yield _compact(table)


def run_table(program: Program, table: pa.Table) -> Outcome:
    """Run over a table that is in memory."""
    run = LocalRun(program)
    return run.outcome(run.over_table(table))


Chunk = tuple[pa.Table, int | None, int | None]


def _chunks(program: Program, tables: Iterable[pa.Table], limit: int | None) -> Iterator[Chunk]:
    """The events of each chunk, and from when to when to report; a chunk ends before the last time it holds.

    The longest window before a cut is run again with the next chunk, so a chunk takes in at least as many new rows
    as it kept.
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
        together = _concatenated(kept, fresh)
        times = microseconds(together.column(program.schema.time).combine_chunks(), program.schema)
        cut = pc.max(times).as_py()
        if cut is None or (emitted is not None and cut <= emitted):
            continue
        yield together, emitted, cut
        longest = max((branch.halo or 0 for branch in program.all_branches), default=0)
        kept = together.filter(pc.fill_null(pc.greater_equal(times, cut - longest), False))
        fresh, rows, emitted = [], 0, cut
    if fresh or kept is not None:
        yield _concatenated(kept, fresh), emitted, None


def _concatenated(kept: pa.Table | None, fresh: list[pa.Table]) -> pa.Table:
    tables = fresh if kept is None else [kept, *fresh]
    return pa.concat_tables(tables).unify_dictionaries()


def _run_branches(
    program: Program,
    table: pa.Table,
    emit_from: int | None,
    emit_to: int | None,
    observed: tuple[Observed, ...] | None,
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


def _sweeps(program: Program) -> bool:
    """Whether results have to be combined over time, and so only at the end."""
    return any(compiled.swept for compiled in program.queries.values())


def _in_order(program: Program, tables: Sequence[pa.Table]) -> pa.Table:
    """Results by query, then time, then group. Those of each query are brought in order on their own, since to move
    structs costs as much as to make them.
    """
    names = pa.array([query.name for query in program.workload.queries], pa.string())
    by_query: dict[int, list[pa.Table]] = {}
    for table in tables:
        for number, own in _apart(table, names):
            by_query.setdefault(number, []).append(own)
    found = [sorted_results(program, pa.concat_tables(by_query[number])) for number in sorted(by_query)]
    return pa.concat_tables(found) if found else program.result_schema.empty_table()


def _apart(table: pa.Table, names: pa.Array) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each query that has any, by its number, in the order that they have. O(rows), however many queries
    there are.
    """
    number = pc.index_in(table.column("query"), value_set=names).to_numpy()
    order, queries = brought_together(number)
    if (number[1:] < number[:-1]).any():
        table = table.take(order)
    for query, first, size in queries:
        yield query, table.slice(first, size)


def sorted_results(program: Program, result: pa.Table) -> pa.Table:
    """Results by query, then time, then group."""
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


def _compact(table: pa.Table) -> pa.Table:
    """Text as codes: event data repeats few words."""
    for at, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            table = table.set_column(at, column.name, table.column(at).dictionary_encode())
    return table
