"""Runs in process a chunk at a time, as over files that do not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from motet.engine import Program
from motet.engine.local import LocalRun


def run_in_chunks(program: Program, batches: Iterable[pa.RecordBatch], rows: int) -> pa.Table:
    """All results of events in order of time, so many rows to a chunk."""
    run = LocalRun(program)
    return run.outcome(run.over_batches(batches, True, None, rows)).table
