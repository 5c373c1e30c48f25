"""Runs in process a chunk at a time, as over files that do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from motet.compile import Program
from motet.engine.local import LocalRun


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
