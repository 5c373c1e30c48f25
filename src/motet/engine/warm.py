"""Compile every kernel, or load it from the cache: `python -m motet.engine.warm`.

Two processes that compile the same kernel at once may corrupt the cache on disk, so it is best done once, before others
start.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from motet.engine import EventSchema, compile_workload
from motet.engine.live import Stream
from motet.engine.local import run_table
from motet.kernels.resume import extend_states, renumber_states
from motet.kernels.state_migration import NodeSources, merge_states
from motet.kernels.totals import make_layout
from motet.model.expression import At, Attribute, Comparison, KleeneAggregate
from motet.model.pattern import And, Event, Not, Repeat, Seq
from motet.model.query import Aggregate, AllVariables, Computed, Policy, Query, Workload
from motet.model.window import CountWindow, TimeWindow
from motet.options import Options

# Out of order, so that sorting is compiled too.
_EVENTS = pa.table({"time": [2, 1, 3, 4], "type": ["A", "A", "B", "B"], "k": ["p"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})

_PAIR = (Event("A", "a"), Event("B", "b"))


def warm() -> None:
    """Run each kind of query once."""
    schema = EventSchema(_EVENTS.schema)
    online, detected = _every_kind_of_query()
    for options in (Options(), Options(windows="pairs")):
        run_table(compile_workload(Workload((*online, *detected)), schema, options), _EVENTS)
    # A sequence is filtered out of a conjunction where they are planned together.
    related = tuple(
        Query(name, pattern, (AllVariables(),), window=TimeWindow(4_000_000))
        for name, pattern in (("any order", And(_PAIR)), ("in order", Seq(_PAIR)))
    )
    run_table(compile_workload(Workload(related), schema, Options(optimizer="motto")), _EVENTS)
    stream = Stream(compile_workload(Workload(online), schema, Options(mode="append")))
    stream.feed(_EVENTS, 3_000_000)
    stream.finish()
    nothing, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    numbers = np.zeros(1, np.int32)
    extend_states(nothing, none, make_layout(0, 0, 0), make_layout(0, 0, 0, extended=True), False)
    renumber_states(nothing, none, make_layout(0, 0, 0), False, numbers, numbers, numbers)
    flags = np.zeros(1, np.bool_)
    merge_states(nothing, none, nothing, none, make_layout(0, 0, 0), 0, NodeSources(numbers, flags), numbers, 1, 0)


def _every_kind_of_query() -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """Return online and detection queries that together use every kernel."""
    pattern = Seq((Repeat(Event("A"), 1, None), Event("B")))
    returns = (Aggregate("COUNT"), Aggregate("SUM", "A", "x"), Aggregate("MIN", "A", "x"))
    rising = Comparison("<", Attribute("A", "x"), Attribute("A", "x", At.NEXT))
    joined = Seq((Event("A", "a"), Not(Event("B", "n")), Event("B", "b"), Not(Event("A", "last"))))
    apart = Comparison("<", Attribute("a", "x"), Attribute("b", "x"))
    depends = Comparison("=", Attribute("n", "x"), Attribute("a", "x"))
    most = KleeneAggregate("MAX", "A", "x")
    sliding, continuous = TimeWindow(4_000_000, 2_000_000), TimeWindow(4_000_000)
    online = (
        Query("sliding", pattern, returns, group_by=("k",), window=sliding),
        Query("combined", pattern, returns, equivalence=("k",), window=sliding),
        Query("continuous", pattern, returns, equivalence=("k",), window=continuous),
        Query("counted", pattern, returns, group_by=("k",), window=CountWindow(3)),
        Query("rising", pattern, returns, (rising,), group_by=("k",), window=continuous),
    )
    paths = Query("paths", pattern, (AllVariables(), Computed(most, "most")), window=continuous)
    tests = (apart, depends)
    joins = Query("joins", joined, (AllVariables(),), tests, window=continuous, policy=Policy.SKIP_TILL_NEXT)
    return online, (paths, joins)


if __name__ == "__main__":
    warm()
