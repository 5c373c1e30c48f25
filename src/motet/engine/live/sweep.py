"""Continuous queries combined over partitions: the value each partition has now, kept between micro-batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.partials import group_codes, swept
from motet.engine.program import Program
from motet.plan.compiled import CompiledQuery


def sweep_on(
    program: Program, compiled: CompiledQuery, values: pa.Table, changes: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """What changes since the last sweep give, starting from the value of each partition; and the values after it."""
    together = pa.concat_tables([values, changes])
    if not len(together):
        return together, together
    shown = swept(program, compiled, together) if len(changes) else together.slice(0, 0)
    return shown, _values_after(program, compiled, together)


def _values_after(program: Program, compiled: CompiledQuery, rows: pa.Table) -> pa.Table:
    """The last row of each partition, unless it says that nothing is left."""
    part = group_codes(program, rows, compiled.partition)
    order = np.lexsort((rows["seq"].to_numpy(), rows["end"].to_numpy(), part))
    last = order[np.flatnonzero(np.diff(part[order], append=-1))]
    kept = rows.take(pa.array(last))
    kept = kept.filter(pc.not_equal(kept["nm"], 0.0))
    fixed = {"seq": pa.array(np.full(len(kept), -1)), "done": pa.array(np.zeros(len(kept), np.bool_))}
    for name, column in fixed.items():
        kept = kept.set_column(kept.column_names.index(name), kept.schema.field(name), column)
    return kept
