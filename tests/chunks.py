"""Runs in process a chunk at a time, as over files that do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from motet.compile import Program, compile_workload
from motet.engine.local import LocalRun, run_table
from motet.model.query import Workload
from motet.schema import EventSchema
from tests.comparison import assert_same_results


@dataclass
class Batches:
    """Batches in memory, as a source of events."""

    content: Sequence[pa.RecordBatch]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with these columns only."""
        for batch in self.content:
            yield batch if columns is None else batch.select(list(columns))


def run_in_chunks(program: Program, batches: Sequence[pa.RecordBatch], rows: int) -> pa.Table:
    """All results of events in order of time, so many rows to a chunk."""
    run = LocalRun(program)
    return run.outcome(run.run(Batches(batches), chunk_rows=rows)).table


def assert_same_in_chunks(workload: Workload, table: pa.Table, rows: int) -> None:
    """Assert that events in order of time give the same results in chunks of so many rows as all at once."""
    program = compile_workload(workload, EventSchema(table.schema))
    found = run_in_chunks(program, table.to_batches(max_chunksize=rows), rows)
    assert_same_results(found, run_table(program, table).table)
