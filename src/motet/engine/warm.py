"""Compile every kernel, or load it from the cache: `python -m motet.engine.warm`.

Two processes that compile the same kernel at once may corrupt the cache on disk, so it is best done once, before others
start.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.compile import compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.kernels.resume import extend_states, renumber_states
from motet.kernels.state_migration import NodeSources, merge_states
from motet.kernels.totals import make_layout
from motet.language import parse
from motet.model.query import Workload
from motet.options import Options
from motet.schema import EventSchema

# Out of order, so that sorting is compiled too.
_EVENTS = pa.table({"time": [2, 1, 3, 4], "type": ["A", "A", "B", "B"], "k": ["p"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})

# Sliding, continuous and count windows, partitions combined or not, and a condition on neighbours.
_ONLINE = """
    QUERY sliding RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 4 s SLIDE 2 s
    QUERY combined RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE [k] WITHIN 4 s SLIDE 2 s
    QUERY continuous RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE [k] WITHIN 4 s
    QUERY counted RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 3 EVENTS
    QUERY rising RETURN COUNT(*), SUM(A.x), MIN(A.x) PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x GROUP BY k WITHIN 4 s
"""
# Matches by paths and by joins, with an absence at the end and one that depends on what is bound.
_DETECTED = """
    QUERY paths RETURN *, (MAX(A.x)) AS most PATTERN SEQ(A+, B) WITHIN 4 s
    QUERY joins RETURN * PATTERN SEQ(A a, NOT B n, B b, NOT A last) WHERE a.x < b.x AND n.x = a.x WITHIN 4 s
        SKIP TILL NEXT
"""
# A sequence is filtered out of a conjunction where they are planned together.
_RELATED = """
    QUERY unordered RETURN * PATTERN AND(A a, B b) WITHIN 4 s
    QUERY ordered RETURN * PATTERN SEQ(A a, B b) WITHIN 4 s
"""


def warm() -> None:
    """Run each kind of query once."""
    schema, online = EventSchema(_EVENTS.schema), parse(_ONLINE)
    everything = Workload((*online.queries, *parse(_DETECTED).queries))
    for options in (Options(), Options(windows="pairs")):
        run_table(compile_workload(everything, schema, options), _EVENTS)
    run_table(compile_workload(parse(_RELATED), schema, Options(optimizer="motto")), _EVENTS)
    stream = Stream(compile_workload(online, schema, Options(mode="append")))
    stream.feed(_EVENTS, 3_000_000)
    stream.finish()
    nothing, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    numbers, flags, layout = np.zeros(1, np.int32), np.zeros(1, np.bool_), make_layout(0, 0, 0)
    extend_states(nothing, none, layout, make_layout(0, 0, 0, extended=True), False)
    renumber_states(nothing, none, layout, False, numbers, numbers, numbers)
    merge_states(nothing, none, nothing, none, layout, 0, NodeSources(numbers, flags), numbers, 1, 0)


if __name__ == "__main__":
    warm()
