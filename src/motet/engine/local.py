"""Runs a program in process over a stream of batches, in chunks where the data is in time order, so that memory
stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.encode import microseconds, set_aside
from motet.engine.partials import finish, merge, overflows_of
from motet.engine.program import Program
from motet.engine.run import run_branch

CHUNK_ROWS = 2_000_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """Results in one table, with what the run noticed on the way."""

    table: pa.Table
    rows: int
    set_aside: int
    overflows: int


def columns_of(program: Program) -> list[str]:
    """Every column that any branch reads."""
    return list(dict.fromkeys(name for branch in program.branches for name in branch.columns))


def can_be_cut(program: Program) -> bool:
    """Whether results depend only on events of a bounded time before them."""
    return all(branch.halo is not None for branch in program.branches)


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


def run_table(program: Program, table: pa.Table) -> Outcome:
    """Run over a table that is in memory."""
    partials = [run_branch(program, at, table.select(branch.columns)) for at, branch in enumerate(program.branches)]
    # Each branch has combined what it has of a result, save what takes a sweep over time.
    result = _finished(program, partials) if _sweeps(program) else finish(program, pa.concat_tables(partials))
    return Outcome(sorted_results(program, result), len(table), set_aside(table, program.schema), overflows_of(result))


def run_batches(
    program: Program,
    batches: Iterable[pa.RecordBatch],
    ordered: bool,
    progress: Progress | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Outcome:
    """Run over a stream. Where it is in time order, no more than a chunk and the longest window is kept."""
    counted = _Counted(program, batches, progress)
    tables: list[pa.Table] = []
    waiting: list[pa.Table] = []
    limit = chunk_rows if ordered and can_be_cut(program) else None
    for partials in _run_chunks(program, counted, limit):
        if _sweeps(program):
            waiting += partials
        else:
            tables.append(_finished(program, partials))
    if waiting:
        tables.append(_finished(program, waiting))
    overflows = sum(overflows_of(table) for table in tables)
    plain = [table.replace_schema_metadata(None) for table in tables]
    result = pa.concat_tables(plain) if plain else program.result_schema.empty_table()
    return Outcome(sorted_results(program, result), counted.rows, counted.set_aside, overflows)


def _run_chunks(program: Program, tables: Iterable[pa.Table], limit: int | None) -> Iterator[list[pa.Table]]:
    """The partial results of each chunk, every branch's together; a chunk ends before the last time it holds.

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
        yield _run_branches(program, together, emitted, cut)
        longest = max(branch.halo or 0 for branch in program.branches)
        kept = together.filter(pc.fill_null(pc.greater_equal(times, cut - longest), False))
        fresh, rows, emitted = [], 0, cut
    if fresh or kept is not None:
        yield _run_branches(program, _concatenated(kept, fresh), emitted, None)


def _concatenated(kept: pa.Table | None, fresh: list[pa.Table]) -> pa.Table:
    tables = fresh if kept is None else [kept, *fresh]
    return pa.concat_tables(tables).unify_dictionaries()


def _run_branches(program: Program, table: pa.Table, emit_from: int | None, emit_to: int | None) -> list[pa.Table]:
    return [
        run_branch(program, at, table.select(branch.columns), emit_from, emit_to)
        for at, branch in enumerate(program.branches)
    ]


def _sweeps(program: Program) -> bool:
    """Whether results have to be combined over time, and so only at the end."""
    return any(compiled.swept for compiled in program.queries.values())


def _finished(program: Program, partials: list[pa.Table]) -> pa.Table:
    together = pa.concat_tables(partials) if partials else program.partial_schema.empty_table()
    return finish(program, merge(program, together))


def sorted_results(program: Program, result: pa.Table) -> pa.Table:
    """Results by query, then time, then group."""
    place = {query.name: number for number, query in enumerate(program.workload.queries)}
    numbers = pa.array([place[name] for name in result.column("query").to_pylist()], pa.int32())
    when = pc.coalesce(result.column("window_end"), result.column("time"))
    keyed = result.append_column("#query", numbers).append_column("#when", when)
    keys = [("#query", "ascending"), ("#when", "ascending"), *((name, "ascending") for name in program.groups)]
    return result.take(pc.sort_indices(keyed, sort_keys=keys))


class _Counted:
    """Batches passing by: counts rows, those set aside, and reports progress."""

    def __init__(self, program: Program, batches: Iterable[pa.RecordBatch], progress: Progress | None) -> None:
        self.program = program
        self.batches = batches
        self.progress = progress
        self.rows = 0
        self.set_aside = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for batch in self.batches:
            self.rows += len(batch)
            table = pa.Table.from_batches([batch])
            self.set_aside += set_aside(table, self.program.schema)
            if self.progress is not None:
                self.progress(self.rows)
            yield _compact(table)


def _compact(table: pa.Table) -> pa.Table:
    """Text as codes: event data repeats few words."""
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            table = table.set_column(at, field.name, table.column(at).dictionary_encode())
    return table
