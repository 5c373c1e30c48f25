"""Combine continuous queries over partitions, keeping the value of each partition between micro-batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.partials import encode_groups, sweep_partitions
from motet.engine.program import Program
from motet.plans.compiled import CompiledQuery


def sweep_changes(
    program: Program, compiled: CompiledQuery, values: pa.Table, changes: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """Return the results of changes since the last sweep, and the value of each partition after it."""
    combined = pa.concat_tables([values, changes])
    if not len(combined):
        return combined, combined
    shown = sweep_partitions(program, compiled, combined) if len(changes) else combined.slice(0, 0)
    return shown, _values_after(program, compiled, combined)


def _values_after(program: Program, compiled: CompiledQuery, rows: pa.Table) -> pa.Table:
    """Return the last row of each partition, unless it says that nothing is left."""
    part = encode_groups(program, rows, compiled.partition)
    order = np.lexsort((rows["seq"].to_numpy(), rows["end"].to_numpy(), part))
    last = order[np.flatnonzero(np.diff(part[order], append=-1))]
    kept = rows.take(pa.array(last))
    kept = kept.filter(pc.not_equal(kept["nm"], 0.0))
    fixed = {"seq": pa.array(np.full(len(kept), -1)), "done": pa.array(np.zeros(len(kept), np.bool_))}
    for name, column in fixed.items():
        kept = kept.set_column(kept.column_names.index(name), kept.schema.field(name), column)
    return kept
