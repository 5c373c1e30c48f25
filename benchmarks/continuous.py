"""One continuous SEQ of three on one core: speed, and how it depends on the events in the window.

python -m benchmarks.continuous
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.report import arguments, finish, in_turn, median
from motet.engine import EventSchema, compile_workload
from motet.engine.encode import encode, unit_events
from motet.engine.local import run_table
from motet.engine.run import run_unit
from motet.language import parse

WINDOWS = (1_000, 1_000_000)  # events


def main() -> None:
    """Run and show."""
    options = arguments(__doc__ or "", repeats=7, events=4_000_000)
    pa.set_cpu_count(1)
    rng = np.random.default_rng(5)
    codes = pa.array(rng.integers(0, 3, options.events), pa.int32())
    table = pa.table(
        {
            "time": pa.array(np.arange(options.events), pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B", "C"])),
        }
    )
    cases = {}
    for window in WINDOWS:
        cases[f"arrays to results, {window:,} events in the window"] = from_arrays(table, window)
        cases[f"Arrow table to result table, {window:,}"] = from_table(table, window)
    seconds = in_turn(cases, options.repeats)
    smallest = median(seconds[next(iter(seconds))])
    rows = [
        {
            "case": name,
            "M events/s": options.events / median(times) / 1e6,
            "best": options.events / min(times) / 1e6,
            "time against the first": median(times) / smallest,
        }
        for name, times in seconds.items()
    ]
    finish("SEQ(A, B, C) WITHIN w, COUNT(*) at every completion, one core", rows, options)


def from_arrays(table: pa.Table, window: int) -> Callable[[], object]:
    """The engine proper: events as arrays in order, results as arrays."""
    program = compile_workload(parse(f"RETURN COUNT(*) PATTERN A, B, C WITHIN {window} us"), EventSchema(table.schema))
    branch = program.branches[0]
    encoded = encode(table, program.schema, branch.partition, branch.symbols, program.definitions, branch.ranked)
    unit = branch.units[0]
    events, _ = unit_events(encoded, unit)
    return lambda: run_unit(unit, encoded, events)


def from_table(table: pa.Table, window: int) -> Callable[[], object]:
    """All of a run in process."""
    program = compile_workload(parse(f"RETURN COUNT(*) PATTERN A, B, C WITHIN {window} us"), EventSchema(table.schema))
    return lambda: run_table(program, table)


if __name__ == "__main__":
    main()
